"""Weight decay as a defense, so that it can be swept beside the others."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from smoothsweep.core.bounds import Positive
from smoothsweep.core.checks import require
from smoothsweep.core.defenses.base import Defense
from smoothsweep.core.defenses.strengths import Family, numbers
from smoothsweep.core.models.recipe import TrainingRecipe


@dataclass(frozen=True, kw_only=True)
class WeightDecay(Defense):
    """The optimizer's weight decay: torch adds value * parameter to every gradient.

    value: that factor, in place of `recipe.weight_decay`.
    """

    cites: ClassVar[tuple[str, ...]] = ("krogh1991simple",)
    family: ClassVar[Family | None] = Family(
        name="Weight decay", word="weight decay", parameter="", read=numbers("value"), starts_plain=True
    )

    value: Positive

    def adjust_recipe(self, recipe: TrainingRecipe) -> TrainingRecipe:
        """The recipe with this weight decay. Raises InputError if it has one of its own."""
        require(recipe.weight_decay == 0, "defense weight_decay", "a recipe without weight_decay", recipe.weight_decay)
        return dataclasses.replace(recipe, weight_decay=float(self.value))
