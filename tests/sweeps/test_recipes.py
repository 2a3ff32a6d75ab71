"""The recipes that a search is checked by are kept for whoever plans it."""

import pytest
import yaml
from tiny import searchable, write_tiny

from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.loaded import SearchRecipes

ALPHA, KIND = "recipe.defense.alpha", "recipe.defense.schedule.kind"
SEARCH = {
    "strategy": "random",
    "recipes": 6,
    "space": {ALPHA: {"low": -0.5, "high": 0.3, "step": 0.1}, KIND: {"choices": ["constant", "ramp"]}},
    "objectives": {"test_acc": "max", "embedder_acc1": "min"},
}


def test_the_recipes_that_a_search_was_checked_by_are_kept(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(searchable("s", SEARCH, baseline={ALPHA: 0.0}), sort_keys=False))
    found = load_sweep(path).recipes
    defenses = [settings.recipe.defense for settings in found.choices]
    assert {defense.alpha for defense in defenses} >= {-0.5, 0.3}
    assert {defense.schedule.kind for defense in defenses if defense.schedule} == {"constant", "ramp"}
    assert found.baseline == {ALPHA: 0.0} and found.stated == {ALPHA: 0.0, KIND: "constant"}


def test_a_grid_has_no_search_no_looks_and_no_reaudit(tmp_path):
    loaded = load_sweep(write_tiny(tmp_path))
    assert loaded.recipes == SearchRecipes()
    for part in ("search", "looks", "reaudit"):
        with pytest.raises(ValueError, match=f"^{part}: expected it to be given, got none$"):
            getattr(loaded, part)
