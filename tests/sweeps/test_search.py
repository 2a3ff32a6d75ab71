"""The search of a sweep file: its mistakes are one line each, and what it may draw is valid."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import yaml
from tiny import searchable

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.cli import main
from smoothsweep.sweeps.expand import CellMaker
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.search import STRATEGIES, Constraint

ALPHA, SCHEDULE = "recipe.defense.alpha", "recipe.defense.schedule."
RAMP = {f"{SCHEDULE}kind": ["ramp"]}
SPACE = {
    ALPHA: {"low": -0.5, "high": 0.3, "step": 0.1},
    f"{SCHEDULE}kind": {"choices": ["constant", "ramp"]},
    f"{SCHEDULE}start": {"low": 0.0, "high": 0.5, "step": 0.25, "when": RAMP},
    f"{SCHEDULE}end": {"low": 0.25, "high": 1.0, "step": 0.25, "above": f"{SCHEDULE}start", "when": RAMP},
}
SEARCH = {
    "strategy": "optuna",
    "recipes": 6,
    "space": SPACE,
    "objectives": {"test_acc": "max", "embedder_acc1": "min"},
}
NAMED = list(STRATEGIES)
HALVING = {"strategy": "halving", "rungs": [{"keep": 0.5, "set": {"attack.steps": 1}}]}


def sweep(folder: Path, search=None, **changes) -> Path:
    given = searchable("s", {**SEARCH, **(search or {})}, **changes)
    path = folder / "s.yaml"
    path.write_text("# What it finds.\n" + yaml.safe_dump(given, sort_keys=False))
    return path


def space(**dimensions):
    return {"space": {f"recipe.{key.replace('__', '.')}": value for key, value in dimensions.items()}}


MISTAKES = [
    ({"settings": {}}, {}, "search: settings: expected none with strategy optuna, which has no settings, got {}"),
    ({"space": {}}, {}, "search.space: expected at least one key with what it may be, got none"),
    (space(lr={"choices": []}), {}, "search.space.recipe.lr: choices: expected at least one, got none"),
    (space(lr={"choices": [0.1, 0.1]}), {}, "choices: expected each once"),
    (space(lr={"choices": [0.1], "low": 0.1}), {}, "expected choices or a range, got choices and low"),
    (space(lr={"low": 0.1, "high": 0.01}), {}, "low: expected at most high (0.01), got 0.1"),
    (space(lr={"low": 0.1}), {}, "search.space.recipe.lr: high: expected a number"),
    (space(lr={}), {}, "low: expected a number (or choices instead of a range), got none"),
    (space(lr={"low": 0.0, "high": 0.1, "log": True}), {}, "low: expected above 0 with log, got 0"),
    (space(lr={"low": 0.1, "high": 0.2, "log": True, "step": 0.1}), {}, "step: expected none with log"),
    (space(lr={"low": 0.1, "high": 0.2, "step": 0.5}), {}, "step: expected at most high - low (0.1), got 0.5"),
    (space(epochs={"low": 1.5, "high": 9, "integer": True}), {}, "integer: expected whole numbers"),
    (space(lr={"choices": [0.1], "when": {"recipe.epochs": [1]}}), {}, "expected keys of other dimensions"),
    (
        space(epochs={"choices": [2]}, lr={"choices": [0.1], "when": {"recipe.epochs": [3]}}),
        {},
        "recipe.lr.when.recipe.epochs: expected values of that dimension (2), got 3",
    ),
    (
        {"space": {"attack.steps": {"choices": [1, 2]}}},
        {},
        "attack.steps: expected keys of the recipe, got one of the attacker",
    ),
    ({"space": {"seeds": {"choices": [[1], [2]]}}}, {}, "seeds: expected keys of the recipe, got seeds"),
    (
        {"space": {"recipe.depth": {"choices": [1, 2]}}},
        {},
        "search.space.recipe.depth: expected values that some recipe",
    ),
    (space(defense__alpha={"low": -0.5, "high": 2.0, "step": 0.5}), {}, "expected a number in (-inf, 1], got 2.0"),
    (
        space(defense={"choices": [{"kind": "mid"}, {"alpha": 0.1}]}, defense__alpha={"choices": [0.2]}),
        {},
        "recipe.defense.alpha: expected it here or among the choices of recipe.defense, got both",
    ),
    (
        space(defense={"choices": [None, {"alpha": 0.1}]}, defense__schedule__kind={"choices": ["ramp"]}),
        {},
        "expected recipe.defense to hold keys wherever this exists, got None",
    ),
    ({"objectives": {}}, {}, "search.objectives"),
    (
        {"objectives": {"attack_acc1": "min"}},
        {},
        "search.objectives.attack_acc1: expected a judge that measures it (judges.evaluator)",
    ),
    ({"objectives": {"fid": "min"}}, {}, "judges.fidelity"),
    ({"objectives": {"leak": "min"}}, {}, "leak: expected one of test_acc, ece"),
    (
        {"constraints": {"xi_train": {"at_most": 0.5}}},
        {},
        "search.constraints.xi_train: expected a judge that measures it",
    ),
    ({"constraints": {"test_acc": {}}}, {}, "search.constraints.test_acc: expected at_least or at_most, got neither"),
    (
        {"constraints": {"test_acc": {"at_least": 0.9, "at_most": 0.8}}},
        {},
        "at_least: expected at most at_most (0.8), got 0.9",
    ),
    (
        {"strategy": "grid", "recipes": 3},
        {},
        "recipes: expected none with strategy grid, since the space says it, got 3",
    ),
    (
        {"strategy": "grid", "recipes": None, **space(lr={"low": 0.1, "high": 0.2})},
        {},
        "space.recipe.lr: expected choices or a step with strategy grid, got a range",
    ),
    (
        {"strategy": "tpe"},
        {},
        f"search.strategy: expected one of {', '.join(NAMED)}, got 'tpe'",
    ),
    ({"recipes": None}, {}, "recipes: expected how many to propose at most with strategy optuna, got none"),
    ({"rungs": HALVING["rungs"]}, {}, "rungs: expected only with strategy halving, got strategy optuna"),
    ({"audit": 2}, {}, "audit: expected only with strategy halving"),
    ({"strategy": "halving"}, {}, "rungs: expected at least one cheap attack with strategy halving, got none"),
    ({**HALVING, "rungs": [{"keep": 1.0, "set": {"attack.steps": 1}}]}, {}, "search.rungs.0.keep"),
    (
        {**HALVING, "rungs": [{"keep": 0.5, "set": {"recipe.epochs": 1}}]},
        {},
        "recipe.epochs: expected keys of the attack, or classes",
    ),
    (
        {**HALVING, "rungs": [{"keep": 0.5, "set": {"attack.step": 1}}]},
        {},
        "search.rungs.0: attack.step: expected a known key, got the unknown key 'step'; did you mean 'steps'?",
    ),
    (
        {**HALVING, "rungs": [{"keep": 0.5, "set": {"attack.steps": 5}}]},
        {},
        "expected an attack of its own, got the same as the full attack",
    ),
    (
        {**HALVING, "rungs": 2 * HALVING["rungs"]},
        {},
        "search.rungs.1.set: expected an attack of its own, got the same as rung 0",
    ),
    (
        HALVING,
        {"grid": {"attack.steps": [3, 4]}},
        "rungs.0.set.attack.steps: expected it here or in grid, got it in both",
    ),
    ({}, {"grid": {ALPHA: [0.1]}}, f"grid.{ALPHA}: expected it here or in search.space, got it in both"),
    ({}, {"grid": {"recipe.lr": [0.1]}}, "grid.recipe.lr: expected keys of the attacker beside search"),
    ({}, {"cells": [{"recipe.lr": 0.1}]}, "cells: expected none beside search"),
    ({}, {"baseline": {"recipe.lr": 0.1}}, "baseline.recipe.lr: expected a key of the grid"),
    ({}, {"baseline": {ALPHA: 3.0}}, "expected a number in (-inf, 1], got 3.0"),
    ({}, {"budget": {}}, "budget: expected device_hours or minutes, got neither"),
    ({"strategy": "random", "sampler": "gp"}, {}, "sampler: expected only with strategy optuna, got strategy random"),
    ({"first_seeds": 1}, {}, "first_seeds: expected only with strategy noise_aware, got strategy optuna"),
    (
        {"strategy": "noise_aware", "first_seeds": 3},
        {"seeds": [1, 2]},
        "search.first_seeds: expected at most 2, the number of seeds, got 3",
    ),
    (
        {"strategy": "noise_aware", "sampler": "gp"},
        {},
        "sampler: expected only with strategy optuna, got strategy noise_aware",
    ),
    (
        {"strategy": "noise_aware", "recipes": None},
        {},
        "recipes: expected how many to propose at most with strategy noise_aware",
    ),
    (
        {"objectives": {"test_acc": "max"}},
        {"reaudit": {"seeds": [3]}},
        "reaudit: expected an objective that is a leak, got none",
    ),
]


@pytest.mark.parametrize(("search", "changes", "words"), MISTAKES, ids=[words[:40] for _, _, words in MISTAKES])
def test_a_mistake_is_one_line_and_nothing_is_written(tmp_path, capsys, search, changes, words):
    path, store = sweep(tmp_path, search, **changes), tmp_path / "store"
    for door in ("run", "plan"):
        assert main([door, str(path), "--store", str(store)]) == 2
        [line] = capsys.readouterr().err.strip().splitlines()
        assert words in line
    assert not store.exists()


def test_a_search_without_a_strategy_is_noise_aware(tmp_path):
    path = sweep(tmp_path)
    path.write_text(path.read_text().replace("  strategy: optuna\n", ""))
    search = load_sweep(path).sweep.search
    assert (search.strategy, search.seeds_at_first, search.lag) == ("noise_aware", 1, 4)


def test_every_draw_of_a_consistent_space_is_a_valid_recipe(tmp_path):
    loaded = load_sweep(sweep(tmp_path))
    make = CellMaker(loaded)
    for number in range(60):
        values = loaded.sweep.search.dimensions.sample(np.random.default_rng(number))
        cell = make(values)
        assert cell.settings.recipe.defense.alpha == values[ALPHA]
        assert cell.axes["start"] == values.get(f"{SCHEDULE}start") and cell.settings.search is None
        assert list(cell.axes) == ["alpha", "kind", "start", "end"]


def test_structured_defenses_and_their_own_parameters(tmp_path):
    defenses = [{"kind": "label_smoothing"}, {"kind": "mid"}]
    given = {
        "recipe.defense": {"choices": defenses},
        "recipe.defense.beta": {"low": 1e-3, "high": 0.1, "log": True, "when": {"recipe.defense": [defenses[1]]}},
        ALPHA: {"choices": [-0.2, 0.0], "when": {"recipe.defense": [defenses[0]]}},
    }
    loaded = load_sweep(sweep(tmp_path, {"space": given}))
    make, seen = CellMaker(loaded), set()
    for number in range(20):
        values = loaded.sweep.search.dimensions.sample(np.random.default_rng(number))
        defense = make(values).settings.recipe.defense
        seen.add(defense.kind)
        assert (defense.parameters.get("beta"), defense.final_alpha) == (
            values.get("recipe.defense.beta"),
            values.get(ALPHA, 0.0),
        )
    assert seen == {"label_smoothing", "mid"}


def test_a_constraint_says_by_how_much_it_is_missed():
    assert Constraint(at_least=0.9).violation(0.8) == pytest.approx(0.1)
    assert Constraint(at_least=0.1, at_most=0.5).violation(0.7) == pytest.approx(0.2)
    assert Constraint(at_most=0.5).violation(0.4) < 0


def test_an_unlikely_recipe_is_no_mistake_but_a_space_without_any_is(tmp_path):
    with pytest.raises(InputError, match="lr_min: expected at most lr"):
        load_sweep(
            sweep(
                tmp_path,
                {
                    "space": {
                        "recipe.lr": {"choices": [0.001]},
                        "recipe.lr_schedule": {"choices": ["cosine"]},
                        "recipe.lr_min": {"choices": [0.1, 0.0]},
                    }
                },
            )
        )


def test_a_recipe_is_the_baseline_where_nothing_but_nulls_is_beside_it(tmp_path):
    keys = {ALPHA: [-0.2, 0.0], "recipe.stop_at_test_acc": [None, 0.9]}
    keys["recipe.defense.schedule"] = [None, {"kind": "linear"}]
    search = {"strategy": "grid", "space": {key: {"choices": values} for key, values in keys.items()}}
    raw = searchable("nulls", {**search, "objectives": {"embedder_acc1": "min"}}, baseline={ALPHA: 0.0})
    (tmp_path / "nulls.yaml").write_text(yaml.safe_dump(raw))
    make = CellMaker(load_sweep(tmp_path / "nulls.yaml"))
    for values in itertools.product(*([..., *of_key] for of_key in keys.values())):
        recipe = {key: value for key, value in zip(keys, values, strict=True) if value is not ...}
        stated = {key: value for key, value in recipe.items() if value is not None}
        assert make(recipe).is_baseline == (stated == {ALPHA: 0.0}), recipe
