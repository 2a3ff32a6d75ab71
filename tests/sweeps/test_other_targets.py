"""Another trial's target for a stage of the attack: which inputs it becomes, and what is refused in one line."""

import json

import pytest
import yaml
from tiny import tiny_sweep

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.stages.graph import attack_stage, target_stage
from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import load_sweep

NEGATIVE = {"trial": {"recipe.defense.alpha": -0.2}}
PLAIN = {"trial": {"recipe.defense.alpha": 0.0}}


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


@pytest.mark.parametrize(
    ("trial", "words"),
    [
        ({"attack.lr": 0.1}, "expected keys of recipe or data"),
        ({"recipe.defense.alpha": 2}, "expected a number in (-inf, 1]"),
        ({"recipe.epoch": 2}, "attack.selection_target.trial"),
        ({"recipe.image_size": 48}, "expected inputs of 32 pixels"),
        ({"data.identities": 5}, "expected 4 classes"),
        ({"data.seed": 8}, "expected the people of the attacked target, data.seed 0, got 8"),
        ({"data.spread": 0.6}, "expected the people of the attacked target, data.spread 0.4, got 0.6"),
        ({}, "selection_target"),
    ],
)
def test_what_is_no_target_of_this_attack_is_refused_in_one_line(tmp_path, trial, words):
    with pytest.raises(InputError) as caught:
        cells(tmp_path, {"selection_target": {"trial": trial}})
    assert words in str(caught.value) and "\n" not in str(caught.value)


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


def test_an_attack_without_such_stages_has_no_such_setting(tmp_path):
    with pytest.raises(InputError, match="sampling_target"):
        cells(tmp_path, attack={"kind": "random_latents", "selected": 2} | {"sampling_target": PLAIN})
