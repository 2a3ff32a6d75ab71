"""Another trial of a sweep: whose accuracy ends a training, or whose target does a stage of the attack."""

from __future__ import annotations

import json

import pandas as pd
import pytest
import yaml
from tiny import tiny_sweep

from smoothsweep.core.errors import AccuracyNotReached, InputError
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages.graph import attack_stage, target_stage
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.training import OtherTrial

OTHER = {"trial": {"recipe.defense.alpha": -0.2}}


def stopped(tmp_path, goal, **changes):
    raw = tiny_sweep(**changes)
    raw["recipe"]["stop_at_test_acc"] = goal
    path = tmp_path / "stop.yaml"
    path.write_text(yaml.safe_dump(raw, sort_keys=False))
    return expand(load_sweep(path))


def test_another_trials_target_is_an_input_of_the_training(tmp_path):
    plain, negative = stopped(tmp_path, OTHER)
    stage = target_stage(plain.settings, 7)
    reference = stage.inputs["reference"]
    assert reference.config["defense"]["alpha"] == -0.2 and reference.config["seed"] == 7
    assert "stop_at_test_acc" not in stage.config and "reference" not in reference.inputs
    unstopped = expand(load_sweep(tmp_path / "stop.yaml", ["recipe.stop_at_test_acc=null"]))
    assert reference == target_stage(unstopped[1].settings, 7)  # the very trial of a sweep without the rule
    assert stage != target_stage(unstopped[0].settings, 7)
    assert isinstance(negative.settings.recipe.stop_at_test_acc, OtherTrial)


def test_a_number_is_part_of_the_configuration(tmp_path):
    stage = target_stage(stopped(tmp_path, 0.75)[0].settings, 1)
    assert stage.config["stop_at_test_acc"] == 0.75 and set(stage.inputs) == {"data"}


def test_the_training_ends_with_the_epoch_that_reaches_the_other_trials_accuracy(tmp_path):
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    stage = target_stage(stopped(tmp_path, OTHER)[0].settings, 1)
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
    stage = target_stage(stopped(tmp_path, 1.0)[0].settings, 1)
    with pytest.raises(AccuracyNotReached, match=r"1\.0|100"):
        execute_with_inputs(store, stage)
    assert not store.has(stage)


NEGATIVE = {"trial": {"recipe.defense.alpha": -0.2}}


def cells(tmp_path, attack=None, **changes):
    raw = tiny_sweep(**changes)
    attack = attack or {}
    raw["attack"] = attack if "kind" in attack else raw["attack"] | attack
    path = tmp_path / "swap.yaml"
    path.write_text(yaml.safe_dump(raw, sort_keys=False))
    return [cell.settings for cell in expand(load_sweep(path))]


def attacked(settings):
    return attack_stage(settings, 1, target_stage(settings, 1))


def test_the_sampling_target_scores_the_pool_and_nothing_else(tmp_path):
    plain, negative = (attacked(one) for one in cells(tmp_path))
    swapped = attacked(cells(tmp_path, {"sampling_target": NEGATIVE})[0])
    assert swapped.inputs["candidates"] == negative.inputs["candidates"] != plain.inputs["candidates"]
    assert swapped.inputs["target"] == plain.inputs["target"] and set(swapped.inputs) == set(plain.inputs)
    assert swapped.config == plain.config and swapped != plain


def test_the_selection_target_is_an_input_of_the_attack(tmp_path):
    plain, negative = (attacked(one) for one in cells(tmp_path))
    swapped = attacked(cells(tmp_path, {"selection_target": NEGATIVE})[0])
    assert swapped.inputs["selection_target"] == negative.inputs["target"]
    assert {k: v for k, v in swapped.inputs.items() if k != "selection_target"} == dict(plain.inputs)


def test_a_trial_may_have_three_targets_and_says_so(tmp_path):
    both = {"sampling_target": NEGATIVE, "selection_target": {"trial": {"data.samples_per_class": 4}}}
    settings = cells(tmp_path, both)[0]
    stage = attacked(settings)
    sampled, selected = stage.inputs["candidates"].inputs["target"], stage.inputs["selection_target"]
    assert len({stage.inputs["target"], sampled, selected}) == 3
    words = "ppa poincare sampling target alpha -0.2 selection target samples_per_class 4"
    assert settings.attack.label == words


def test_a_brought_in_target_of_other_classes_is_refused_in_one_line(tmp_path):
    card = {
        "architecture": "resnet_small",
        "num_classes": 7,
        "image_size": 32,
        "transform_input": False,
        "data": None,
        "defense": None,
    }
    (tmp_path / "brought").mkdir()
    (tmp_path / "brought" / "target.json").write_text(json.dumps(card))
    other = {"trial": {"recipe": {"imported": str(tmp_path / "brought")}}}
    with pytest.raises(InputError, match=r"sampling_target\.trial: expected 4 classes, .* got 7"):
        cells(tmp_path, {"sampling_target": other}, grid={}, baseline={})


def test_ones_own_people_are_told_by_file_and_choice(tmp_path):
    own = {"kind": "labelled", "path": "faces.parquet", "size": 32}
    chosen = {"selection_target": {"trial": {"data.samples_per_class": 4}}}
    assert cells(tmp_path, chosen, data=own)[0].swapped_targets()
    for key, value in (("path", "others.parquet"), ("largest_classes", 3)):
        with pytest.raises(InputError, match=f"expected the people of the attacked target, data.{key} "):
            cells(tmp_path, {"selection_target": {"trial": {f"data.{key}": value}}}, data=own)
