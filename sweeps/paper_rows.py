"""What tells the rows of one table apart beyond the recipe: whose target did a stage, which attack variant ran."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from smoothsweep.sweeps.imported import ImportedClassifier
from smoothsweep.sweeps.resolved import resolved

if TYPE_CHECKING:
    from smoothsweep.sweeps.schema import InversionSweep

Rows = Mapping[str, Mapping[str, Any]]
COUNTS = ("attack.pool.size",)


def row_settings(
    settings: InversionSweep, table: str, *, by_target: Rows, by_variant: Rows, usual: Mapping[str, Any]
) -> dict[str, Any]:
    """Setting of a printed row (`PaperNumber.setting`) -> this cell's; None where no row can have it.

    by_target: table -> setting -> the attack's setting that names the target. by_variant: table -> variant -> leaves
    that it has otherwise than `usual`, the official ones ({}: of a data set that the table does not have).
    """
    factors: dict[str, Any] = {name: _factor(settings, role) for name, role in by_target.get(table, {}).items()}
    if table in by_variant:
        factors["variant"] = variant_of(resolved(settings), by_variant[table], usual) if usual else None
    return factors


def _factor(settings: InversionSweep, role: str) -> float | None:
    """The smoothing factor of the target that does a stage; None where it differs from the attacked one in more."""
    other = settings.swapped_targets().get(role)
    if other is not None and not _alike(settings, other):
        return None
    stated = (other or settings).recipe.stated_defense
    return stated.get("alpha") if stated and stated["kind"] in ("none", "label_smoothing") else None


def _alike(first: InversionSweep, other: InversionSweep) -> bool:
    """Whether two targets differ in their defense at most, as far as the training of others can be told."""
    if isinstance(first.recipe, ImportedClassifier) or isinstance(other.recipe, ImportedClassifier):
        return first.recipe.architecture == other.recipe.architecture and first.data == other.data
    trainings = [settings.recipe.model_dump(exclude={"defense"}) for settings in (first, other)]
    return trainings[0] == trainings[1] and first.data == other.data


def variant_of(ours: Mapping[str, Any], variants: Rows, usual: Mapping[str, Any]) -> str | None:
    """The variant whose leaves these are; None for a mixture.

    A count stands for the largest stated one that it reaches: a sweep at reduced counts keeps its rows, and departs.
    """
    varied = {key for changes in variants.values() for key in changes}
    for name, changes in variants.items():
        if all(_snapped(key, ours.get(key), variants, usual) == changes.get(key, usual.get(key)) for key in varied):
            return name
    return None


def _snapped(key: str, value: Any, variants: Rows, usual: Mapping[str, Any]) -> Any:
    if key not in COUNTS or not isinstance(value, int):
        return value
    stated = sorted(changes.get(key, usual[key]) for changes in variants.values())
    return max((printed for printed in stated if printed <= value), default=stated[0])
