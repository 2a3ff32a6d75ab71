"""Sweeps that list whole recipes: what tables call them, and whether they differ in their defense alone."""

import pytest
import yaml

from orchestrator.planning.trials import trials_of
from orchestrator.reading.axes import sweep_axes
from sweeps.load import load_sweep

PLAIN, SMOOTH = {"kind": "label_smoothing", "alpha": 0.0}, {"kind": "label_smoothing", "alpha": -0.05}


def recipe(defense, **given):
    usual = {"architecture": "resnet_small", "image_size": 32, "epochs": 2, "pretrained": False}
    return {**usual, "defense": defense, **given}


@pytest.mark.parametrize(
    ("second", "names", "defense_alone"),
    [
        (recipe(SMOOTH), ["plain training", "smoothing\u00a0\u22120.05"], True),
        (recipe(PLAIN, epochs=3), ["plain training, epochs 2", "plain training, epochs 3"], False),
        (recipe(SMOOTH, architecture="resnet18"), ["plain training, architecture resnet_small",
                                                   "smoothing\u00a0\u22120.05, architecture resnet18"], False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["grid", "cells"])
def test_a_whole_recipe_is_called_by_its_defense_and_what_else_differs(tmp_path, place, second, names, defense_alone):
    both = [recipe(PLAIN), second]
    listed = {"recipe": both} if place == "grid" else [{"recipe": one} for one in both]
    file = tmp_path / "sweep.yaml"
    file.write_text(yaml.safe_dump({
        "name": "recipes", "seeds": [1], "attack": None, place: listed, "baseline": {"recipe": both[0]},
        "data": {"kind": "synthetic", "identities": 3, "train_per_class": 4, "test_per_class": 2, "size": 32},
    }))  # fmt: skip
    loaded = load_sweep(file)
    trials = trials_of(loaded)
    [axis] = sweep_axes(loaded, trials)
    assert [axis.values[trial.cell.axes[axis.key]] for trial in trials] == names
    assert (axis.role, axis.bare, axis.defense) == ("recipe", True, defense_alone)
    for trial, name in zip(trials, names, strict=True):  # one by itself, as MLflow's runs are named
        [alone] = sweep_axes(loaded, [trial])
        assert alone.values[trial.cell.axes[alone.key]] == name
    assert [trial.cell.is_baseline for trial in trials] == [True, False]
