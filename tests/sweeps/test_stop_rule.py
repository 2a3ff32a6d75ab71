"""Stopping at a test accuracy: a number, or what another trial reached, which then is an input of the training."""

import pandas as pd
import pytest
import yaml
from tiny import tiny_sweep

from smoothsweep.core.errors import AccuracyNotReached, InputError
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages.graph import target_stage
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.training import OtherTrial

OTHER = {"trial": {"recipe.defense.alpha": -0.2}}


def cells(tmp_path, goal, **changes):
    raw = tiny_sweep(**changes)
    raw["recipe"]["stop_at_test_acc"] = goal
    path = tmp_path / "stop.yaml"
    path.write_text(yaml.safe_dump(raw, sort_keys=False))
    return expand(load_sweep(path))


def test_another_trials_target_is_an_input_of_the_training(tmp_path):
    plain, negative = cells(tmp_path, OTHER)
    stage = target_stage(plain.settings, 7)
    reference = stage.inputs["reference"]
    assert reference.config["defense"]["alpha"] == -0.2 and reference.config["seed"] == 7
    assert "stop_at_test_acc" not in stage.config and "reference" not in reference.inputs
    unstopped = expand(load_sweep(tmp_path / "stop.yaml", ["recipe.stop_at_test_acc=null"]))
    assert reference == target_stage(unstopped[1].settings, 7)  # the very trial of a sweep without the rule
    assert stage != target_stage(unstopped[0].settings, 7)
    assert isinstance(negative.settings.recipe.stop_at_test_acc, OtherTrial)


def test_a_number_is_part_of_the_configuration(tmp_path):
    stage = target_stage(cells(tmp_path, 0.75)[0].settings, 1)
    assert stage.config["stop_at_test_acc"] == 0.75 and set(stage.inputs) == {"data"}


def test_the_training_ends_with_the_epoch_that_reaches_the_other_trials_accuracy(tmp_path):
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    stage = target_stage(cells(tmp_path, OTHER)[0].settings, 1)
    execute_with_inputs(store, stage.inputs["reference"])
    goal = store.manifest(stage.inputs["reference"])["metrics"]["test_acc"]
    execute_with_inputs(store, stage)
    history = pd.read_parquet(store.path(stage) / "history.parquet")
    reached = (history["test_acc"] >= goal).tolist()
    assert reached == [False] * (len(reached) - 1) + [True] and len(reached) <= 2
    assert store.manifest(stage)["metrics"]["epochs_trained"] == len(reached)


def test_an_accuracy_that_is_never_reached_ends_the_training_with_that_cause(tmp_path):
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    stage = target_stage(cells(tmp_path, 1.0)[0].settings, 1)
    with pytest.raises(AccuracyNotReached, match=r"1\.0|100"):
        execute_with_inputs(store, stage)
    assert not store.has(stage)


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        (1.5, "stop_at_test_acc"),
        ({"trial": {}}, "stop_at_test_acc"),
        ({"trial": {"recipe.defense.alpha": 2}}, "expected a number in (-inf, 1]"),
        ({"trial": {"recipe.epoch": 2}}, "recipe.stop_at_test_acc.trial"),
        ({"trials": {"recipe.epochs": 2}}, "stop_at_test_acc"),
    ],
)
def test_goals_that_make_no_sense_are_one_line(tmp_path, goal, words):
    with pytest.raises(InputError) as caught:
        cells(tmp_path, goal)
    assert words in str(caught.value) and "\n" not in str(caught.value)
