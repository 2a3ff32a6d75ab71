"""The search of a sweep file: its mistakes are one line each, and what it may draw is valid."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import yaml
from tiny import searchable

from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.expand import CellMaker
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.search import Constraint

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


def sweep(folder: Path, search=None, **changes) -> Path:
    given = searchable("s", {**SEARCH, **(search or {})}, **changes)
    path = folder / "s.yaml"
    path.write_text("# What it finds.\n" + yaml.safe_dump(given, sort_keys=False))
    return path


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
