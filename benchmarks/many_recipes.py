"""The quickstart's sweep with as many recipes and seeds as a benchmark asks for, under two attacks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

QUICKSTART = Path(__file__).resolve().parent.parent / "sweeps" / "quickstart.yaml"
ATTACKS = ("poincare", "cross_entropy")


def many_recipes(alphas: Sequence[float], *, seeds: int) -> dict[str, Any]:
    """The file's mapping: a recipe for every smoothing factor, seeds 1 to `seeds`, nothing to compare with."""
    settings = yaml.safe_load(QUICKSTART.read_text())
    grid = {"recipe.defense.alpha": list(alphas), "attack.loss": list(ATTACKS)}
    return settings | {"seeds": list(range(1, seeds + 1)), "baseline": {}, "grid": grid}
