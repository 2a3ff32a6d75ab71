"""`smoothsweep bundle`, `report OUT.zip` and `report A B`: what a colleague gets; which recipes are compared."""

import json
import shutil
import stat
import zipfile
from hashlib import sha256

import pandas as pd
import pytest

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.reporting.bundle import COMPARISON, INDEX
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.sweeps.load import load_sweep
from tests import shared_sweep


def bundled(shared, out, *more):
    return main(["bundle", str(shared.sweep), str(out), "--store", str(shared.store), *more])


@pytest.fixture(scope="module")
def plain(shared, tmp_path_factory):
    """A bundle without pictures."""
    out = tmp_path_factory.mktemp("plain") / "tiny.zip"
    assert bundled(shared, out) == 0
    return out


def names_in(path):
    with zipfile.ZipFile(path) as archive:
        return {name.partition("/")[2] for name in archive.namelist()}


def test_a_plain_bundle_has_report_tables_manifests_and_settings_and_no_picture(shared, plain):
    names = names_in(plain)
    assert {"report.html", "results.parquet", "verdicts.parquet", "sweep.yaml", "references.bib", INDEX} <= names
    assert {"tables/recipes.tex", "tables/attacks.csv", "figures/accuracy-leak.svg"} <= names
    manifests = {name for name in names if name.startswith("manifests/")}
    made = {path.parent.relative_to(shared.store).as_posix() for path in shared.store.glob("*/*/manifest.json")}
    assert manifests == {f"manifests/{place}.json" for place in made}
    assert not [name for name in names if name.startswith(("images/", "store/")) or "sheet" in name]
    with zipfile.ZipFile(plain) as archive:
        page = archive.read("tiny/report.html").decode()
        assert str(shared.store) not in page and str(shared.sweep) not in page and "data:image" not in page
        links = {part.split('"')[0] for part in page.split('href="') if part.startswith("manifests/")}
        assert links and links <= manifests
        assert archive.read("tiny/sweep.yaml").decode().startswith("# Tiny.\n")


def test_an_opened_bundle_is_what_was_bundled_tells_its_table_and_goes_on(plain, shared, tmp_path, capsys):
    opened = tmp_path / "e"
    assert main(["report", str(plain), "--out", str(opened)]) == 0
    told = capsys.readouterr().out
    with zipfile.ZipFile(plain) as archive:
        for name in names_in(plain):
            assert (opened / name).read_bytes() == archive.read(f"tiny/{name}"), name
    assert main(["report", str(shared.sweep), "--store", str(shared.store), "--out", str(tmp_path / "r")]) == 0
    assert capsys.readouterr().out.rstrip("\n") in told, "the table of the report itself"
    assert f"smoothsweep run {opened / 'sweep.yaml'} --store {opened / 'store'}" in told
    mine, theirs = (pd.read_parquet(place / "results.parquet") for place in (tmp_path / "r", opened))
    pd.testing.assert_frame_equal(mine, theirs)
    settings = (trials_of(load_sweep(path)) for path in (shared.sweep, opened / "sweep.yaml"))
    mine, theirs = ([trial.id for trial in trials] for trials in settings)
    assert mine == theirs
    assert main(["report", str(plain), "--out", str(opened)]) == 0, "opened again"
    (opened / "store").mkdir()
    (opened / "store" / "store.json").write_text("{}")
    capsys.readouterr()
    assert main(["report", str(plain), "--out", str(opened)]) == 2, "what was run there is not lost"
    assert "expected a new or empty folder, got one that holds store/store.json" in capsys.readouterr().err


def test_a_bundle_with_images_has_pictures_and_the_licences_that_bind_them(shared, tmp_path):
    assert bundled(shared, tmp_path / "tiny.zip", "--with-images") == 0
    licensed = changed(tmp_path / "tiny.zip", tmp_path / "l.zip", index=lambda parsed: parsed.update(licences=["mine"]))
    assert main(["report", str(licensed)]) == 0
    assert (tmp_path / "l" / "images" / "provenance.json").is_file() and (tmp_path / "l/figures/sheet-1.png").is_file()
    assert "data:image" in (tmp_path / "l" / "report.html").read_text()


def changed(source, out, *, add=(), without=(), index=None, replaced=(), attributes=0):
    """A copy of a bundle with members changed; index: what becomes of bundle.json, as parsed."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(out, "w") as new:
        for entry in old.infolist():
            name = entry.filename.partition("/")[2]
            if name in without:
                continue
            content = dict(replaced).get(name, old.read(entry))
            if name == INDEX and index is not None:
                parsed = json.loads(content)
                index(parsed)
                content = json.dumps(parsed).encode()
            new.writestr(entry.filename, content)
        for name, content in add:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = attributes
            new.writestr(entry, content)
    return out


def added(name, content=b"{}"):
    """A file more, which the index lists."""
    listed = {name: sha256(content).hexdigest()}
    return {"add": [(f"tiny/{name}", content)], "index": lambda parsed: parsed["files"].update(listed)}


OUTSIDE = ["../out.txt", "tables/../../out.md", "./out.txt", "tables\\..\\out.md", "c:out.txt", "images/.hidden.png"]
OUTSIDE += [f"tables/{'x' * 300}.md", "tables/" + "a/" * 9 + "b.md", "tables/a\n.md", "/etc/out.txt", "tables//out.md"]
OTHERS = ["a.pkl", "cluster.yaml", "figures/a.html", "manifests/target/x.json", "store/store.json", "store/mlflow.db"]
OTHERS += [f"store/target/{'0' * 64}/program.pt2", "store/sweeps/tiny/report.html"]
REFUSED = [
    *((added(name), "expected the report and tables of a sweep, got ") for name in (*OUTSIDE, *OTHERS)),
    ({"replaced": [("report.html", b"<p>other</p>")]}, "report.html: expected the content whose digest"),
    ({"add": [("tiny/more.txt", b"x")]}, "expected the files that bundle.json lists, got another set: 'more.txt'"),
    ({"without": ["results.parquet"]}, "got another set: 'results.parquet'"),
    ({"without": [INDEX]}, "got an archive without bundle.json"),
    ({"index": lambda parsed: parsed.update(bundle=2)}, "bundle.json: bundle: expected one of 1, got 2"),
    ({"index": lambda parsed: parsed.update(sweep="../x")}, "bundle.json: sweep: expected"),
    ({"add": [("other/a.txt", b"x")]}, "got an archive of several folders"),
    (added("figures/accuracy-leak.svg/a.svg"), "got 'figures/accuracy-leak.svg', which is both"),
    (
        {"without": ["report.txt"], "index": lambda parsed: parsed["files"].pop("report.txt")},
        "expected a bundle with report.txt, got one without",
    ),
]


@pytest.mark.parametrize(("change", "line"), REFUSED)
def test_what_is_no_whole_bundle_or_holds_more_is_one_line_and_leaves_nothing(change, line, plain, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    bad = changed(plain, tmp_path / "in" / "bad.zip", **change)
    assert main(["report", str(bad)]) == 2
    [told] = capsys.readouterr().err.splitlines()
    assert line in told and [path.name for path in tmp_path.rglob("*")] == ["in", "bad.zip"]


def test_a_link_in_an_archive_becomes_a_plain_file(plain, tmp_path):
    attributes = (stat.S_IFLNK | 0o777) << 16
    linked = changed(plain, tmp_path / "l.zip", **added("tables/a.md", b"/etc/passwd"), attributes=attributes)
    assert main(["report", str(linked), "--out", str(tmp_path / "e")]) == 0
    made = tmp_path / "e" / "tables" / "a.md"
    assert not made.is_symlink() and made.read_text() == "/etc/passwd"


def test_an_archive_that_unpacks_to_too_much_is_refused(plain, tmp_path, capsys):
    out = tmp_path / "bomb.zip"
    shutil.copy(plain, out)
    with zipfile.ZipFile(out, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tiny/zeros.txt", b"\0" * (80 * 2**20))
    assert main(["report", str(out)]) == 2
    assert "got an archive that unpacks to too much" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["bomb.zip"]


CUT_OFF = "got: an archive that was cut off: its end, which lists its members, is missing; copy it again"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["report", "EMPTY"], "expected a bundle of smoothsweep, got: an empty file"),
        (["report", "CUT"], f"expected a bundle of smoothsweep, {CUT_OFF}"),
        (["report", "TEXT"], "expected a bundle of smoothsweep, got: a file that is no zip archive"),
        (["report", "no.zip"], "expected a bundle, got no such file"),
        (["report", "TEXT", "--set", "a=1"], "--set: expected a sweep file beside it"),
        (["report", "TEXT", "--store", "there"], "--store: expected a sweep file beside it"),
        (["bundle", "SWEEP", "b.tar"], "expected the name of a file that ends in .zip"),
        (["bundle", "SWEEP", "no/b.zip"], "got no such folder"),
        (["bundle", "SWEEP", "TEXT"], "expected a new file, got one that is there already"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(arguments, line, shared, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {"EMPTY": b"", "CUT": b"PK\3\4 nothing more", "TEXT": b"plain text"}
    for name, content in files.items():
        (tmp_path / f"{name}.zip").write_bytes(content)
    names = {"SWEEP": str(shared.sweep), **{name: f"{name}.zip" for name in files}}
    assert main([names.get(one, one) for one in arguments]) == 2
    [told] = capsys.readouterr().err.splitlines()
    assert line in told
    assert {path.stem: path.read_bytes() for path in tmp_path.iterdir()} == files


ATTACKS = shared_sweep.ATTACKS[:2]


def grid(alphas, attacks=ATTACKS):
    return {"grid": {"recipe.defense.alpha": alphas, "attack": attacks}, "seeds": [1, 2]}


SWEEPS = {
    "first": grid([0.0, -0.2]),
    "second": grid([0.0, -0.8]),  # shares plain training with the first
    "one_attack": grid([0.0], ATTACKS[:1]),
    "more_steps": grid([0.0], [ATTACKS[0], {**ATTACKS[1], "steps": 4}]),
    "other_seeds": grid([0.0]) | {"seeds": [7, 8]},
    "other_data": {
        **grid([0.0]),
        "data": {"kind": "synthetic", "identities": 12, "train_per_class": 8, "test_per_class": 4, "size": 32},
    },
}
"""Name -> what is not as in `made_shared`."""


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Name -> a finished sweep, all in one store, and the bundle of the first two."""
    folder, found = tmp_path_factory.mktemp("several"), {}
    (folder / "store").mkdir()
    for name, changes in SWEEPS.items():
        (folder / name).mkdir()
        (folder / name / "store").symlink_to(folder / "store")
        shared, bundle = shared_sweep.made_shared(folder / name, name=name, **changes), folder / f"{name}.zip"
        if name in ("first", "second"):
            assert main(["bundle", str(shared.sweep), str(bundle), "--store", str(shared.store)]) == 0
        found[name] = shared, bundle
    return found


def reported(swept, out, first, *others):
    shared, _ = swept[first]
    named = [str(shared.sweep), *(str(swept[name][0].sweep) for name in others)]
    return main(["report", *named, "--store", str(shared.store), "--out", str(out)])


def test_recipes_under_the_same_conditions_are_compared_and_shared_trials_count_once(swept, tmp_path, capsys):
    assert reported(swept, tmp_path / "r", "first", "second") == 0
    told = capsys.readouterr().out
    assert "The recipes of first and second are compared." in told
    assert "4 trials are counted once" in told  # plain training under two attacks and two seeds
    verdicts = pd.read_parquet(tmp_path / "r" / "verdicts.parquet")
    results = pd.read_parquet(tmp_path / "r" / "results.parquet")
    joined = results.merge(verdicts, on=["sweep", "recipe"], how="left", validate="many_to_one")
    assert len(joined) == len(results) == 16 and set(verdicts["compared"]) == {"first and second"}
    assert set(joined.loc[joined["verdict"].isna(), "recipe"]) == {"plain training"}, "only the baseline has no verdict"
    verdicts = verdicts.set_index("recipe")
    names = {f"smoothing -{alpha}" for alpha in ("0.2", "0.8")}
    assert set(verdicts.index) == names and set(verdicts["comparisons"]) == {2 * len(names)}  # recipes times attacks
    assert (verdicts["seeds"] == 2).all()
    plain, strong = (_mean(swept["second"][0], alpha) for alpha in (0.0, -0.8))
    assert verdicts.loc["smoothing -0.8", "reduction"] == pytest.approx(plain - strong)


def _mean(shared, alpha):
    """The leak of a recipe under its stronger attack, the second way: from the rates that the sweep was made of."""
    by_attack = {}
    for trial in trials_of(load_sweep(shared.sweep)):
        if trial.cell.axes["alpha"] == alpha and not trial.is_control:
            by_attack.setdefault(trial.cell.axes["attack_settings"], []).append(shared.rates[trial.id].mean())
    return max(sum(found) / len(found) for found in by_attack.values())


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ("one_attack", "the attacks differ (Plug & Play, cross entropy)"),
        ("more_steps", "the attacks differ (attack.steps: 3 and 4)"),
        ("other_seeds", "no training seed is in both"),
        ("other_data", "the private data differ (data.train_per_class: 4 and 8)"),
    ],
)
def test_other_conditions_are_named_and_nothing_is_compared(swept, tmp_path, capsys, other, reason):
    assert reported(swept, tmp_path / "r", "first", other) == 0
    told = capsys.readouterr().out
    assert f"not compared: {reason}." in told and f"\n{other}:\n" in told
    verdicts = pd.read_parquet(tmp_path / "r" / "verdicts.parquet")
    assert list(verdicts[["sweep", "recipe", "compared"]].itertuples(index=False, name=None)) == [
        ("first", "smoothing -0.2", "first")
    ], "a sweep by itself has its own verdicts"
    rows = pd.read_parquet(tmp_path / "r" / "results.parquet")
    assert set(rows["sweep"]) == {"first", other}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["FIRST", "SECOND"], "--out: expected a folder for the table of 2 sweeps, got none"),
        (["FIRST", "SECOND", "--set", "a=1", "--out", "OUT"], "--set: expected one sweep file beside it, got 2 sweeps"),
        (["FIRST", "FIRST", "--out", "OUT"], "expected sweeps that differ, got the same results twice"),
        (["FIRST", "NO.zip", "--out", "OUT"], "expected a bundle, got no such file"),
        (["FIRST", "NO.yaml", "--out", "OUT"], "NO.yaml"),
        (["FIRST", "SECOND", "--out", "FULL"], "expected a new or empty folder, got one that holds x"),
        (["FIRST", "OLD.zip", "--out", "OUT"], f"expected a bundle with {COMPARISON}, got one without"),
        (["FIRST", "FALSE.zip", "--out", "OUT"], f"{COMPARISON}: expected the content whose digest the bundle has"),
        (["FIRST", "ODD.zip", "--out", "OUT"], f"{COMPARISON}: protocol: expected one of clean, paper, got 'dirty'"),
        (["FIRST", *["SECOND"] * 8, "--out", "OUT"], "expected at most 8 sweeps, got 9"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(swept, tmp_path, capsys, arguments, line):
    (tmp_path / "FULL").mkdir()
    (tmp_path / "FULL" / "x").write_text("mine")
    bundle = swept["second"][1]
    _changed(bundle, tmp_path / "OLD.zip", lambda said: None)
    _changed(bundle, tmp_path / "FALSE.zip", lambda said: said.replace(b"clean", b"paper"), digests=False)
    _changed(bundle, tmp_path / "ODD.zip", lambda said: said.replace(b'"clean"', b'"dirty"'))
    places = {"FIRST": str(swept["first"][0].sweep), "SECOND": str(bundle)}
    made_up = {"OUT", "FULL", "NO.zip", "NO.yaml", "OLD.zip", "FALSE.zip", "ODD.zip"}
    typed = [places.get(one, str(tmp_path / one) if one in made_up else one) for one in arguments]
    assert main(["report", *typed, "--store", str(swept["first"][0].store)]) == 2
    said = capsys.readouterr()
    assert line in said.err and said.err.count("\n") == 1 and not said.out
    assert not (tmp_path / "OUT").exists() and sorted(path.name for path in (tmp_path / "FULL").iterdir()) == ["x"]


def _changed(source, out, change, *, digests=True):
    """A bundle with another comparison.json, or without one; digests: whether the index knows."""
    with zipfile.ZipFile(source) as archive:
        files = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    index = json.loads(files.pop(INDEX))
    content = change(files.pop(COMPARISON))
    del_known = index["files"].pop(COMPARISON)
    if content is not None:
        files[COMPARISON] = content
        index["files"][COMPARISON] = sha256(content).hexdigest() if digests else del_known
    with zipfile.ZipFile(out, "w") as archive:
        for name, held in {**files, INDEX: json.dumps(index).encode()}.items():
            archive.writestr(f"second/{name}", held)
