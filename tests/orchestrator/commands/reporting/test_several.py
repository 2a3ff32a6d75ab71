"""`smoothsweep report A B`: recipes of two sweeps are compared where the conditions are the same, and nowhere else."""

import json
import shutil
import zipfile
from hashlib import sha256

import pandas as pd
import pytest

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.reporting.bundle import COMPARISON, INDEX
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.sweeps.load import load_sweep
from tests import shared_sweep

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


@pytest.mark.slow  # reports of two sweeps, each many CPU-seconds
def test_two_bundles_say_what_two_stores_say(swept, tmp_path, capsys):
    assert reported(swept, tmp_path / "r", "first", "second") == 0
    first = capsys.readouterr().out
    named = [str(swept[name][1]) for name in ("first", "second")]
    assert main(["report", *named, "--store", "nowhere", "--out", str(tmp_path / "b")]) == 0
    assert capsys.readouterr().out == first
    one, two = (pd.read_parquet(tmp_path / place / "results.parquet") for place in ("r", "b"))
    pd.testing.assert_frame_equal(one[["sweep", "trial", "embedder_acc1"]], two[["sweep", "trial", "embedder_acc1"]])


@pytest.mark.slow  # reports of two sweeps, each many CPU-seconds
def test_a_sweep_that_is_not_finished_says_so_above_everything(swept, tmp_path, capsys):
    shared, _ = swept["second"]
    store = tmp_path / "store"
    shutil.copytree(shared.store, store)
    trial = next(one for one in trials_of(load_sweep(shared.sweep)) if one.cell.axes["alpha"] == -0.8)
    shutil.rmtree(store / "judge_embedder" / trial.stages[-1].fingerprint)
    named = [str(shared.sweep), str(swept["first"][1])]
    assert main(["report", *named, "--store", str(store), "--out", str(tmp_path / "r")]) == 0
    assert capsys.readouterr().out.startswith("second is not finished: 1 trial of 8 is missing or failed.")


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
