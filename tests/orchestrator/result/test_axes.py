"""What tables call recipes and attacks: whole recipes that a sweep lists, and targets of other trials."""

from pathlib import Path

import pytest
import yaml

from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.rows import sweep_axes
from smoothsweep.orchestrator.result.summary import UNCHANGED, attack_label, recipe_label
from smoothsweep.sweeps.load import load_sweep
from tests.tiny import write_tiny

SWEEPS = Path(__file__).resolve().parents[3] / "sweeps"
PLAIN, SMOOTH = {"kind": "label_smoothing", "alpha": 0.0}, {"kind": "label_smoothing", "alpha": -0.05}


def recipe(defense, **given):
    usual = {"architecture": "resnet_small", "image_size": 32, "epochs": 2, "pretrained": False}
    return {**usual, "defense": defense, **given}


@pytest.mark.parametrize(
    ("second", "names", "defense_alone"),
    [
        (recipe(SMOOTH), ["plain training", "smoothing\u00a0\u22120.05"], True),
        (recipe(PLAIN, epochs=3), ["plain training, epochs 2", "plain training, epochs 3"], False),
        (
            recipe(SMOOTH, architecture="resnet18"),
            ["plain training, architecture resnet_small", "smoothing\u00a0\u22120.05, architecture resnet18"],
            False,
        ),
    ],
)
@pytest.mark.parametrize("place", ["grid", "cells"])
def test_a_whole_recipe_is_called_by_its_defense_and_what_else_differs(tmp_path, place, second, names, defense_alone):
    both = [recipe(PLAIN), second]
    listed = {"recipe": both} if place == "grid" else [{"recipe": one} for one in both]
    file = tmp_path / "sweep.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "name": "recipes",
                "seeds": [1],
                "attack": None,
                place: listed,
                "baseline": {"recipe": both[0]},
                "data": {"kind": "synthetic", "identities": 3, "train_per_class": 4, "test_per_class": 2, "size": 32},
            }
        )
    )
    loaded = load_sweep(file)
    trials = trials_of(loaded)
    [axis] = sweep_axes(loaded, trials)
    assert [axis.values[trial.cell.axes[axis.key]] for trial in trials] == names
    assert (axis.role, axis.bare, axis.defense) == ("recipe", True, defense_alone)
    for trial, name in zip(trials, names, strict=True):  # one by itself, as MLflow's runs are named
        [alone] = sweep_axes(loaded, [trial])
        assert alone.values[trial.cell.axes[alone.key]] == name
    assert [trial.cell.is_baseline for trial in trials] == [True, False]


def test_an_attack_with_other_targets_is_called_by_them_and_one_without_is_the_unchanged_one():
    loaded = load_sweep(SWEEPS / "swaps_small.yaml", ["seeds=[1]"])
    trials = trials_of(loaded)
    axes = sweep_axes(loaded, trials)
    labels = [attack_label(axes, trial.cell.axes) for trial in trials]
    assert labels[0] == UNCHANGED and labels.count(UNCHANGED) == 1
    assert labels[1:4] == [f"sampling target\u00a0alpha {factor}" for factor in ("0.1", "\u22120.05", "\u22120.8")]
    assert labels[4] == "sampling target\u00a0alpha 0, selection target\u00a0alpha 0"


def test_recipes_have_one_name_whether_whole_defenses_or_their_parameters_vary(tmp_path):
    ramp = {"kind": "ramp", "start": 0.2, "end": 0.6}
    whole = [{"kind": "label_smoothing", "alpha": 0.0}, {"kind": "label_smoothing", "alpha": -0.1, "schedule": ramp}]
    grids = (
        {"recipe.defense": whole},
        {"recipe.defense.alpha": [0.0, -0.1]},
        {"recipe.defense.alpha": [0.0, -0.1], "recipe.defense.schedule": [ramp]},
    )
    names = []
    for number, grid in enumerate(grids):
        sweep = yaml.safe_load((SWEEPS / "factors_small.yaml").read_text())
        schedule = {} if "recipe.defense.schedule" in grid else {"schedule": ramp}
        sweep["recipe"] |= {"defense": {"kind": "label_smoothing", **schedule}} if number else {}
        sweep |= {"seeds": [1], "grid": grid, "baseline": {key: values[0] for key, values in grid.items()}}
        file = tmp_path / f"sweep{number}.yaml"
        file.write_text(yaml.safe_dump(sweep))
        loaded = load_sweep(file)
        trials = trials_of(loaded)
        axes = sweep_axes(loaded, trials)
        names.append([recipe_label(axes, trial.cell.axes) for trial in trials])
        assert all(trial.label.startswith(name) for trial, name in zip(trials, names[-1], strict=True))
    plain, ramped = names[0]
    assert names == [[plain, ramped]] * 3
    assert plain == "plain training" and ramped.startswith("smoothing\u00a0\u22120.1, ramp")


def test_a_sweep_that_varies_no_attack_calls_it_nothing():
    loaded = load_sweep(SWEEPS / "factors_small.yaml")
    trials = trials_of(loaded)
    assert {attack_label(sweep_axes(loaded, trials), trial.cell.axes) for trial in trials} == {""}


@pytest.mark.parametrize(
    ("key", "values", "words"),
    [
        ("attack.pool.size", [4, 6], "pool size\u00a04"),
        ("attack.average.views", [4, 6], "average views\u00a04"),
        ("attack.steps", [4, 6], "steps\u00a04"),
    ],
)
def test_a_setting_is_called_by_its_owner_where_its_own_name_says_nothing(tmp_path, key, values, words):
    loaded = load_sweep(write_tiny(tmp_path, grid={key: values}, baseline={key: values[0]}))
    trials = trials_of(loaded)
    axes = sweep_axes(loaded, trials)
    assert attack_label(axes, trials[0].cell.axes) == words


def named_attacks(tmp_path, *cells):
    """What tables call the attacks of a sweep that lists these priors and attacks, in its order."""
    loaded = load_sweep(write_tiny(tmp_path, grid={}, baseline={}, cells=list(cells)))
    trials = trials_of(loaded)
    axes = sweep_axes(loaded, trials)
    return list(dict.fromkeys(attack_label(axes, trial.cell.axes) for trial in trials))


def test_whole_priors_are_called_by_their_kind_and_what_tells_those_of_a_kind_apart(tmp_path):
    few, many = {"kind": "eigenfaces", "components": 4}, {"kind": "eigenfaces", "components": 8}
    assert named_attacks(tmp_path, {"prior": few}, {"prior": many}) == [
        "eigenfaces (components 4)",
        "eigenfaces (components 8)",
    ]
    shipped = {"kind": "shipped", "name": "stylegan2_synthetic64"}
    assert named_attacks(tmp_path, {"prior": few}, {"prior": shipped}) == ["eigenfaces", "shipped generator"]
