"""`smoothsweep diff`: what differs is found down to the stage, and nothing else is said to differ."""

import json
import shutil

import pytest

from smoothsweep.orchestrator.cli import main
from tests.recorded import recorded


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A sweep of two recipes under two seeds."""
    return recorded(tmp_path_factory.mktemp("diff"), seeds=[1, 2])


def diff(store, a, b, *more):
    return main(["diff", a, b, "--store", str(store.root), *more])


def told(capsys, store, a, b, *more):
    assert diff(store, a, b, "--json", *more) == 0
    return json.loads(capsys.readouterr().out)


def test_two_recipes_differ_in_what_was_swept_and_in_nothing_before_it(made, capsys):
    trials, store = made
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


def test_a_trial_differs_in_nothing_from_itself(made, capsys):
    trials, store = made
    assert diff(store, trials[0].id, trials[0].id) == 0
    assert capsys.readouterr().out.endswith("\nnothing differs\n")
    found = told(capsys, store, trials[0].id, trials[0].id)
    assert found["changes"] == [] and all(number["apart"] == 0 for number in found["numbers"])


def test_recipes_are_compared_seed_by_seed(made, capsys):
    trials, store = made
    found = told(capsys, store, "tiny:plain training", "tiny:smoothing -0.2")
    assert found["pairs"] == 2 and not found["only_a"] and not found["only_b"]
    assert all(count == 2 for _, count in found["changes"])
    target = [next(stage for stage in trial.stages if stage.name == "target") for trial in trials]
    accuracy = [store.metrics(stage)["test_acc"] for stage in target]
    number = next(number for number in found["numbers"] if number["key"] == "test_acc")
    assert number["a"] == pytest.approx((accuracy[0] + accuracy[2]) / 2) and number["pairs"] == 2
    assert number["b"] == pytest.approx((accuracy[1] + accuracy[3]) / 2)


def test_two_runs_in_two_stores_are_paired_and_say_code_versions_and_what_is_only_in_one(made, tmp_path, capsys):
    _, store = made
    _, other = recorded(tmp_path / "b", seeds=[2, 3], code="9f9f9f")
    found = told(capsys, store, "tiny", "tiny", "--other-store", str(other.root))
    assert found["pairs"] == 2 and len(found["only_a"]) == len(found["only_b"]) == 2
    assert {(c["what"], c["a"], c["b"]) for c, _ in found["changes"]} == {("made by", "1a2b3c", "9f9f9f")}
    assert diff(store, "tiny", "tiny", "--other-store", str(other.root)) == 0
    assert "made by:\n  private images code_version: 1a2b3c -> 9f9f9f" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("a", "line"),
    [
        ("tinny", "got 'tinny'; did you mean 'tiny'?"),
        ("tiny:alpha=0", "(plain training; smoothing -0.2) or of a trial, as `status` has it, got 'alpha=0'"),
        ("tiny:plane training", "did you mean 'plain training'?"),
        ("ffffffffffff", "or a trial's id, got 'ffffffffffff'"),
        ("\x1b[31mred", "got '\\x1b[31mred'"),
    ],
)
def test_what_names_nothing_is_one_line(made, capsys, a, line):
    _, store = made
    assert diff(store, a, "tiny") == 2
    said = capsys.readouterr().err
    assert line in said and said.count("\n") == 1


def test_a_sweep_whose_trials_were_never_noted_says_who_notes_them(made, tmp_path, capsys):
    _, store = made
    root = shutil.copytree(store.root, tmp_path / "store")
    (root / "sweeps" / "tiny" / "trials.jsonl").unlink()
    assert main(["diff", "tiny", "tiny", "--store", str(root)]) == 2
    assert "sweep tiny: expected trials.jsonl" in capsys.readouterr().err


NAMES = ["tiny:{label}", "tiny:smoothing \u22120.2 \u00b7 seed 1", "tiny:smoothing -0.2, seed 1", "tiny:{id}", "{id}"]


@pytest.mark.parametrize("name", NAMES)
def test_a_trial_is_found_by_every_name_that_outputs_give_it(made, capsys, name):
    trials, store = made
    found = told(capsys, store, name.format(label=trials[1].label, id=trials[1].id), trials[1].id)
    assert found["pairs"] == 1 and found["changes"] == [] and trials[1].id in found["a"]
