"""`smoothsweep bundle` and `report OUT.zip`: what a colleague gets, checks, and continues from; what is refused."""

import json
import shutil
import stat
import zipfile
from hashlib import sha256

import pandas as pd
import pytest

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.reporting.bundle import INDEX
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.sweeps.load import load_sweep
from tests.shared_sweep import made_shared


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return made_shared(tmp_path_factory.mktemp("shared"))


def bundled(shared, out, *more):
    return main(["bundle", str(shared.sweep), str(out), "--store", str(shared.store), *more])


@pytest.fixture(scope="module")
def plain(shared, tmp_path_factory):
    """A bundle without pictures."""
    out = tmp_path_factory.mktemp("plain") / "tiny.zip"
    assert bundled(shared, out, "--set", "recipe.epochs=2") == 0
    return out


@pytest.fixture(scope="module")
def full(shared, tmp_path_factory):
    """A bundle with pictures."""
    out = tmp_path_factory.mktemp("full") / "tiny.zip"
    assert bundled(shared, out, "--with-images") == 0
    return out


@pytest.fixture(scope="module")
def opened(plain, tmp_path_factory):
    out = tmp_path_factory.mktemp("opened") / "there"
    assert main(["report", str(plain), "--out", str(out)]) == 0
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


def test_a_bundle_with_images_has_pictures(full):
    names = names_in(full)
    assert "images/provenance.json" in names and "figures/sheet-1.png" in names
    with zipfile.ZipFile(full) as archive:
        assert "data:image" in archive.read("tiny/report.html").decode()


def test_an_opened_bundle_is_what_was_bundled_and_its_table_is_told(plain, opened, shared, tmp_path, capsys):
    with zipfile.ZipFile(plain) as archive:
        for name in names_in(plain):
            assert (opened / name).read_bytes() == archive.read(f"tiny/{name}"), name
    assert main(["report", str(plain), "--out", str(tmp_path / "e")]) == 0
    told = capsys.readouterr().out
    assert main(["report", str(shared.sweep), "--store", str(shared.store), "--out", str(tmp_path / "r")]) == 0
    assert capsys.readouterr().out.rstrip("\n") in told, "the table of the report itself"
    assert f"smoothsweep run {tmp_path / 'e' / 'sweep.yaml'} --store {tmp_path / 'e' / 'store'}" in told
    mine, theirs = (pd.read_parquet(place / "results.parquet") for place in (tmp_path / "r", opened))
    pd.testing.assert_frame_equal(mine, theirs)


def test_the_settings_are_the_sweep(shared, full, tmp_path):
    assert main(["report", str(full), "--out", str(tmp_path / "e")]) == 0
    mine, theirs = (trials_of(load_sweep(path)) for path in (shared.sweep, tmp_path / "e" / "sweep.yaml"))
    assert [trial.id for trial in mine] == [trial.id for trial in theirs]


def test_a_bundle_that_is_open_already_is_opened_again_and_what_was_run_there_is_not_lost(plain, opened, capsys):
    assert main(["report", str(plain), "--out", str(opened)]) == 0
    (opened / "store").mkdir()
    (opened / "store" / "store.json").write_text("{}")
    capsys.readouterr()
    assert main(["report", str(plain), "--out", str(opened)]) == 2
    assert "expected a new or empty folder, got one that holds store/store.json" in capsys.readouterr().err
    shutil.rmtree(opened / "store")


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


def listing(name, content=b"x"):
    return lambda parsed: parsed["files"].update({name: sha256(content).hexdigest()})


ESCAPES = ["../out.txt", "/etc/out.txt", "a/../../out.txt", "a//out.txt", "./out.txt", "a\\..\\out.txt", "c:out.txt"]


@pytest.mark.parametrize("name", [*ESCAPES, "a/.hidden.txt", "x" * 300 + ".txt", "a/" * 9 + "b.txt", "a\n.txt"])
def test_no_entry_leaves_its_folder(name, plain, tmp_path, capsys):
    bad = changed(plain, tmp_path / "bad.zip", add=[(f"tiny/{name}", b"x")], index=listing(name))
    (tmp_path / "in").mkdir()
    assert main(["report", str(bad), "--out", str(tmp_path / "in" / "e")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "expected plain names of files" in line or "expected a bundle of smoothsweep" in line
    assert not list((tmp_path / "in").iterdir()) and sorted(p.name for p in tmp_path.iterdir()) == ["bad.zip", "in"]


PLACE = f"store/target/{'0' * 64}"
OTHERS = [
    *("a.pkl", "notes.txt", "other.yaml", "cluster.yaml", "figures/a.html", "manifests/target/x.json"),
    *("store/linked.json", "store/mlflow.db", "store/x/linked.json", f"store/damaged/target/{'0' * 64}.json"),
    *("store/sweeps/tiny/report.html", "store/sweeps/tiny/tune/state.json", "store/sweeps/state.json"),
    *(f"{PLACE}/program.pt2", f"{PLACE}/weights.safetensors", "store/store.json"),
]


@pytest.mark.parametrize("name", OTHERS)
def test_a_sender_brings_nothing_but_what_is_listed(name, plain, tmp_path, capsys):
    bad = changed(plain, tmp_path / "bad.zip", add=[(f"tiny/{name}", b"{}")], index=listing(name, b"{}"))
    assert main(["report", str(bad)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert repr(name) in line and [path.name for path in tmp_path.iterdir()] == ["bad.zip"]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"replaced": [("report.html", b"<p>other</p>")]}, "report.html: expected the content whose digest"),
        ({"add": [("tiny/more.txt", b"x")]}, "expected the files that bundle.json lists, got another set: 'more.txt'"),
        ({"without": ["results.parquet"]}, "got another set: 'results.parquet'"),
        ({"without": [INDEX]}, "got an archive without bundle.json"),
        ({"index": lambda parsed: parsed.update(bundle=2)}, "bundle.json: bundle: expected one of 1, got 2"),
        (
            {"index": lambda parsed: parsed.update(more=1)},
            "bundle.json: more: expected a known key, got the unknown key 'more'",
        ),
        ({"index": lambda parsed: parsed.update(sweep="../x")}, "bundle.json: sweep: expected"),
        ({"add": [("other/a.txt", b"x")]}, "got an archive of several folders"),
        (
            {
                "add": [("tiny/figures/accuracy-leak.svg/a.svg", b"x")],
                "index": listing("figures/accuracy-leak.svg/a.svg"),
            },
            "expected files in folders, got 'figures/accuracy-leak.svg', which is both",
        ),
        (
            {"without": ["report.txt"], "index": lambda parsed: parsed["files"].pop("report.txt")},
            "expected a bundle with report.txt, got one without",
        ),
    ],
)
def test_what_is_no_whole_bundle_is_one_line_and_leaves_nothing(change, line, plain, tmp_path, capsys):
    bad = changed(plain, tmp_path / "bad.zip", **change)
    assert main(["report", str(bad)]) == 2
    [told] = capsys.readouterr().err.splitlines()
    assert line in told and [path.name for path in tmp_path.iterdir()] == ["bad.zip"]


def test_a_link_in_an_archive_becomes_a_plain_file(plain, tmp_path):
    linked = changed(
        plain,
        tmp_path / "l.zip",
        add=[("tiny/tables/a.md", b"/etc/passwd")],
        index=listing("tables/a.md", b"/etc/passwd"),
        attributes=(stat.S_IFLNK | 0o777) << 16,
    )
    assert main(["report", str(linked), "--out", str(tmp_path / "e")]) == 0
    assert (
        not (tmp_path / "e" / "tables" / "a.md").is_symlink()
        and (tmp_path / "e" / "tables" / "a.md").read_text() == "/etc/passwd"
    )


def test_an_archive_that_unpacks_to_too_much_is_refused(plain, tmp_path, capsys):
    out = tmp_path / "bomb.zip"
    shutil.copy(plain, out)
    with zipfile.ZipFile(out, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tiny/zeros.txt", b"\0" * (80 * 2**20))
    assert main(["report", str(out)]) == 2
    assert "got an archive that unpacks to too much" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["bomb.zip"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file"),
        (
            b"PK\3\4 nothing more",
            "an archive that was cut off: its end, which lists its members, is missing; copy it again",
        ),
        (b"plain text", "a file that is no zip archive"),
    ],
)
def test_what_is_no_archive_is_one_line(content, words, tmp_path, capsys):
    (tmp_path / "a.zip").write_bytes(content)
    assert main(["report", str(tmp_path / "a.zip")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(f"expected a bundle of smoothsweep, got: {words}") and len(list(tmp_path.iterdir())) == 1


def test_a_bundle_that_is_not_there_and_flags_of_a_sweep_are_refused(plain, tmp_path, capsys):
    assert main(["report", str(tmp_path / "no.zip")]) == 2
    assert main(["report", str(plain), "--set", "a=1"]) == 2
    assert main(["report", str(plain), "--store", "there"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert "expected a bundle, got no such file" in lines[0]
    assert "--set: expected a sweep file beside it" in lines[1] and "--store: expected a sweep file" in lines[2]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("b.tar", "expected the name of a file that ends in .zip"),
        ("no/b.zip", "got no such folder"),
        ("there.zip", "expected a new file, got one that is there already"),
    ],
)
def test_a_place_that_cannot_be_is_refused(name, line, shared, tmp_path, capsys):
    (tmp_path / "there.zip").write_text("mine")
    assert bundled(shared, tmp_path / name) == 2
    assert line in capsys.readouterr().err
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("there.zip", "mine")]
