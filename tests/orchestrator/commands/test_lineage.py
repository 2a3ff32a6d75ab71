"""`smoothsweep lineage` and `diff`: every manifest that a number stands on, and what differs down to the stage."""

import json
import shutil
from pathlib import Path

import pytest

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.orchestrator.store.base import Store
from tests.recorded import recorded


def lineage(store, name, *more):
    return main(["lineage", str(name), "--store", str(store.root), *more])


def stage_of(trial, kind):
    return next(stage for stage in trial.stages if stage.name == kind)


ENDS = {  # what is named -> (its name, what it is called, the stages that it is or shows)
    "a trial": lambda trials, store, folder: (trials[0].id, f"trial {trials[0].id} of tiny", trials[0].stages),
    "a number": lambda trials, store, folder: (
        "tiny:smoothing -0.2",
        f"embedder_acc1 {store.metrics(stage_of(trials[1], 'judge_embedder'))['embedder_acc1']:.6g} of trial ",
        [stage_of(trials[1], "judge_embedder")],
    ),
    "a file": lambda trials, store, folder: (
        store.place(stage_of(trials[0], "target")) / "what.txt",
        f"what.txt of {stage_of(trials[0], 'target').label}",
        [stage_of(trials[0], "target")],
    ),
}


@pytest.mark.parametrize("what", ENDS)
def test_what_is_named_leads_to_every_stage_it_was_made_of_inputs_first_and_to_no_other(made, tmp_path, capsys, what):
    name, title, stages = ENDS[what](*made, tmp_path)
    more = ["--number", "embedder_acc1"] if what == "a number" else []
    assert lineage(made[1], name, *more, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    everything, seen = with_ancestors(list(stages)), set()
    assert told["of"].startswith(title)
    assert {row["fingerprint"] for row in told["stages"]} == {stage.fingerprint for stage in everything}
    for row in told["stages"]:
        assert set(row["inputs"].values()) <= seen
        seen.add(row["fingerprint"])
        manifest = json.loads(Path(row["manifest"]).read_text())
        assert (row["version"], row["config"]) == (manifest["version"], manifest["config"])
    assert lineage(made[1], name, *more) == 0
    shown = capsys.readouterr().out
    assert all(f"\n{stage.label}: version " in shown for stage in everything) and "2023-11-14 22:13 UTC" in shown


def test_a_file_that_was_changed_or_put_there_is_told(made, tmp_path, capsys):
    trials, store = made
    other = Store(root=shutil.copytree(store.root, tmp_path / "store"))
    place = other.place(stage_of(trials[0], "target"))
    for name, said in (("what.txt", "its checksum differs"), ("new.txt", "its manifest knows no such file")):
        (place / name).write_text("something else")
        assert lineage(other, place / name) == 1 and said in capsys.readouterr().out


@pytest.mark.parametrize("harm", ["gone", "damaged"])
def test_a_manifest_that_is_gone_or_damaged_is_told_and_the_rest_stays(made, tmp_path, capsys, harm):
    trials, store = made
    other = Store(root=shutil.copytree(store.root, tmp_path / "store"))
    manifest = other.place(stage_of(trials[0], "target")) / "manifest.json"
    manifest.write_text(manifest.read_text().replace("1a2b3c", "4d5e6f")) if harm == "damaged" else manifest.unlink()
    assert lineage(other, trials[0].id) == 1
    shown = capsys.readouterr().out
    why = "no manifest in the store" if harm == "gone" else "its manifest was changed after it was written"
    assert f"{stage_of(trials[0], 'target').label}: {why}" in shown
    assert stage_of(trials[0], "judge_embedder").label in shown


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["lineage", "tiny"], "expected one trial, by its id or the name that `status` has, got tiny with 2"),
        (["lineage", "tiny:plain training", "--number", "embeder_acc1"], "did you mean 'embedder_acc1'?"),
        (["lineage", "tiny:plain training", "--number", "fid"], "--number fid: expected one that the trial measures"),
        (["lineage", "sweeps/none.parquet"], "sweeps/none.parquet: expected a trial, or a file of an artifact in "),
        (["diff", "tinny", "tiny"], "got 'tinny'; did you mean 'tiny'?"),
        (["diff", "tiny:alpha=0", "tiny"], "(plain training; smoothing -0.2) or of a trial, as `status` has it, got"),
        (["diff", "tiny:plane training", "tiny"], "did you mean 'plain training'?"),
        (["diff", "ffffffffffff", "tiny"], "or a trial's id, got 'ffffffffffff'"),
        (["diff", "\x1b[31mred", "tiny"], "got '\\x1b[31mred'"),
    ],
)
def test_what_names_nothing_is_one_line(made, capsys, arguments, line):
    _, store = made
    assert main([*arguments, "--store", str(store.root)]) == 2
    said = capsys.readouterr().err
    assert line in said and said.count("\n") == 1


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """A sweep of two recipes under two seeds."""
    return recorded(tmp_path_factory.mktemp("diff"), seeds=[1, 2])


def diff(store, a, b, *more):
    return main(["diff", a, b, "--store", str(store.root), *more])


def told(capsys, store, a, b, *more):
    assert diff(store, a, b, "--json", *more) == 0
    return json.loads(capsys.readouterr().out)


def test_two_recipes_differ_in_what_was_swept_and_in_nothing_before_it(pairs, capsys):
    trials, store = pairs
    found = told(capsys, store, trials[0].id, trials[1].id)
    changes = [change for change, _ in found["changes"]]
    assert {change["stage"] for change in changes} == {"target"}
    assert {(c["key"], c["a"], c["b"]) for c in changes} >= {("defense.alpha", 0.0, -0.2)}
    assert all(change["key"].startswith("defense.") for change in changes)
    assert {"data", "prior", "target (evaluator)"} <= set(found["same"])
    assert not {"target", "attack", "loot", "judge_embedder"} & set(found["same"])
    numbers = {number["key"]: number for number in found["numbers"]}
    stages = {stage.name: (stage, other) for stage, other in zip(trials[0].stages, trials[1].stages, strict=True)}
    for kind, key in (("target", "test_acc"), ("judge_embedder", "embedder_acc1")):
        a, b = (store.metrics(stage)[key] for stage in stages[kind])
        assert (numbers[key]["stage"], numbers[key]["a"], numbers[key]["b"]) == (kind, a, b)


def test_a_trial_differs_in_nothing_from_itself(pairs, capsys):
    trials, store = pairs
    assert diff(store, trials[0].id, trials[0].id) == 0
    assert capsys.readouterr().out.endswith("\nnothing differs\n")
    found = told(capsys, store, trials[0].id, trials[0].id)
    assert found["changes"] == [] and all(number["apart"] == 0 for number in found["numbers"])


def test_recipes_are_compared_seed_by_seed(pairs, capsys):
    trials, store = pairs
    found = told(capsys, store, "tiny:plain training", "tiny:smoothing -0.2")
    assert found["pairs"] == 2 and not found["only_a"] and not found["only_b"]
    assert all(count == 2 for _, count in found["changes"])
    target = [next(stage for stage in trial.stages if stage.name == "target") for trial in trials]
    accuracy = [store.metrics(stage)["test_acc"] for stage in target]
    number = next(number for number in found["numbers"] if number["key"] == "test_acc")
    assert number["a"] == pytest.approx((accuracy[0] + accuracy[2]) / 2) and number["pairs"] == 2
    assert number["b"] == pytest.approx((accuracy[1] + accuracy[3]) / 2)


def test_two_runs_in_two_stores_are_paired_and_say_code_versions_and_what_is_only_in_one(pairs, tmp_path, capsys):
    _, store = pairs
    _, other = recorded(tmp_path / "b", seeds=[2, 3], code="9f9f9f")
    found = told(capsys, store, "tiny", "tiny", "--other-store", str(other.root))
    assert found["pairs"] == 2 and len(found["only_a"]) == len(found["only_b"]) == 2
    assert {(c["what"], c["a"], c["b"]) for c, _ in found["changes"]} == {("made by", "1a2b3c", "9f9f9f")}
    assert diff(store, "tiny", "tiny", "--other-store", str(other.root)) == 0
    assert "made by:\n  private images code_version: 1a2b3c -> 9f9f9f" in capsys.readouterr().out


NAMES = ["tiny:{label}", "tiny:smoothing \u22120.2 \u00b7 seed 1", "tiny:smoothing -0.2, seed 1", "tiny:{id}", "{id}"]


@pytest.mark.parametrize("name", NAMES)
def test_a_trial_is_found_by_every_name_that_outputs_give_it(pairs, capsys, name):
    trials, store = pairs
    found = told(capsys, store, name.format(label=trials[1].label, id=trials[1].id), trials[1].id)
    assert found["pairs"] == 1 and found["changes"] == [] and trials[1].id in found["a"]
