"""A value given twice is not two measurements, and an override or a key that another one undoes is refused."""

import itertools

import pytest
import yaml
from tiny import tiny_sweep

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.rows import recipe_fields, trial_row
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.base import MAX_TRIALS
from smoothsweep.sweeps.expand import COLUMNS, axis_names, expand
from smoothsweep.sweeps.load import load_sweep


def write(tmp_path, text=None, **changes):
    path = tmp_path / "s.yaml"
    path.write_text(text or yaml.safe_dump(tiny_sweep(**changes), sort_keys=False))
    return path


def grid(tmp_path, text):
    """The tiny sweep with a grid as a person writes it."""
    rest = {key: value for key, value in tiny_sweep(baseline={}).items() if key != "grid"}
    return write(tmp_path, yaml.safe_dump(rest, sort_keys=False) + f"grid: {text}\n")


def refused(path, *words, overrides=()):
    with pytest.raises(InputError) as caught:
        trials_of(load_sweep(path, list(overrides)))
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize("pair", list(itertools.combinations(["0.0", "0", "-0.0", "0e5", ".0"], 2)), ids=" ".join)
def test_a_value_spelt_twice_is_refused_with_both_spellings(tmp_path, pair):
    refused(grid(tmp_path, f"{{recipe.defense.alpha: [{', '.join(pair)}]}}"), "alpha: expected every value once, got 0")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{recipe.betas: [[0.9, 0.99], [0.90, 99e-2]]}", "recipe.betas: expected every value once"),
        ("{attack.pool: [{size: 20, seed: 1}, {seed: 1, size: 20}]}", "attack.pool: expected every value once"),
        ("{recipe.defense: [{alpha: 0.1}, {kind: label_smoothing, alpha: 0.1}]}", "got the same settings with"),
        ("{recipe.defense: [{alpha: 0.0}, {kind: label_smoothing}]}", "got the same work with"),
        ("{recipe.checkpoint_every: [1, 2]}", "got the same work with recipe.checkpoint_every=1 and with"),
        ("{recipe.defense.alpha: [0.0, -0.1], recipe.defense: [{alpha: -0.2}]}", "defense.alpha: expected it after"),
        (
            "{recipe.epochs: ["
            + ", ".join(map(str, range(1, 500)))
            + "], attack.steps: ["
            + ", ".join(map(str, range(1, 500)))
            + "]}",
            f"expected at most {MAX_TRIALS} trials, got 249001",
        ),
    ],
)
def test_grids_that_repeat_themselves_or_never_end_are_refused(tmp_path, text, words):
    refused(grid(tmp_path, text), words)


def test_listed_cells_that_repeat_are_refused_with_both_named(tmp_path):
    cells = [{"attack.steps": 2, "attack.lr": 0.03}, {"attack.steps": 3, "attack.lr": 0.03}]
    refused(write(tmp_path, cells=[*cells, cells[0]]), "got the same settings with attack.steps=2, attack.lr=0.03")


def test_all_of_a_sweeps_trials_are_other_work(repository):
    for name in ("quickstart", "toy"):
        trials = trials_of(load_sweep(repository / "sweeps" / f"{name}.yaml"))
        assert len({trial.id for trial in trials}) == len(trials)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["recipe.defense.alpha=0.1"], "--set recipe.defense.alpha: expected a key that the sweep leaves alone"),
        (["recipe={defense: {alpha: 0.1}}"], "got one that grid sets in every trial (recipe.defense.alpha)"),
        (["grid={attack.pool: [{size: 20}, {size: 21}]}", "attack.pool.size=30"], "grid sets in every"),
        (["attack.steps=2", "attack.steps=3"], "--set attack.steps: expected every key once, got 2"),
        (["attack.steps=2", "attack={steps: 3}"], "expected every key once"),
        (["attack.pool={size: 20, size: 30}"], "--set attack.pool: line 1: expected every key once, got 'size' twice"),
        (["attack.lr=1:30"], "attack.lr: expected a valid number, got '1:30'"),
        (["attack.steps=2.0"], "attack.steps: expected a valid integer, got 2.0"),
        (["seeds=[1, 1.0]"], "seeds.1: expected a valid integer, got 1.0"),
        (['data.path="a\\0b"'], "data"),
        ([".".join("a" * 40) + "=1"], "expected a dotted key of at most 32 names"),
        (["recipe..lr=1"], "expected a dotted key"),
    ],
)
def test_overrides_that_could_not_take_effect_are_refused(tmp_path, overrides, words):
    refused(write(tmp_path), words, overrides=overrides)


def test_an_override_may_leave_its_neighbours_to_the_grid(tmp_path):
    trials = trials_of(load_sweep(write(tmp_path), ["recipe.defense.kind=label_smoothing", "attack.lr=1e-3"]))
    assert [trial.settings.recipe.defense.final_alpha for trial in trials] == [0.0, -0.2]
    assert trials[0].settings.attack.lr == 0.001


def test_no_axis_takes_the_place_of_another_column(tmp_path):
    trial = trials_of(load_sweep(write(tmp_path)))[0]
    row = set(trial_row(trial, Store(root=tmp_path / "store"))) - set(trial.cell.axes)
    assert row | set(recipe_fields(trial)) <= COLUMNS
    assert axis_names(["attack.seed", "recipe.precision", "prior", "attack.steps"]) == {
        "attack.seed": "attack_seed",
        "recipe.precision": "recipe_precision",
        "prior": "prior_settings",
        "attack.steps": "steps",
    }
    cells = expand(load_sweep(write(tmp_path, grid={"attack.seed": [1, 2]}, baseline={})))
    assert [cell.axes for cell in cells] == [{"attack_seed": 1}, {"attack_seed": 2}]
