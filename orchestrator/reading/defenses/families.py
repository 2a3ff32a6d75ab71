"""Group recipes by defense: each defense is a curve over its strength, and each recipe a point on a curve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from smoothsweep.core.checks import present
from smoothsweep.core.defenses.labels import SMOOTHING, RecipeWords, family_of, known_defenses
from smoothsweep.core.metrics.leak_comparisons import LeakComparison
from smoothsweep.orchestrator.reading.numbers.estimates import NOTHING, Comparison
from smoothsweep.orchestrator.reading.numbers.summary import Summary

CHEAP = 0.02
"""Test accuracy that most owners would give up for less leak."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One recipe of a family."""

    recipe: str
    words: RecipeWords


@dataclass(frozen=True, kw_only=True)
class Arm:
    """Points of a family in order of strength, to be joined. name: what they share beside the family, empty for the
    family's main curve. The weakest end may be a point of another family: plain training, or smoothing alone."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, kw_only=True)
class DefenseFamily:
    """One defense in one setting.

    Attributes:
        points: Its own recipes, weakest first, combinations last.
        starts_plain: Whether plain training is the weak end of its curve.
        why: Why it is not, in words; empty where it is.
    """

    key: str
    name: str
    points: tuple[Point, ...]
    arms: tuple[Arm, ...]
    starts_plain: bool
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class DefenseGroup:
    """All defenses in one setting (the defender's other axes in words, empty without any).

    Attributes:
        plain: The recipe without any defense, if the sweep has it.
        reference: The recipe that differences refer to, the sweep's baseline or else plain training.
    """

    setting: str
    families: tuple[DefenseFamily, ...]
    plain: Point | None = None
    reference: str | None = None

    @property
    def points(self) -> tuple[Point, ...]:
        """Every recipe of the group, plain training first."""
        family_points = tuple(point for family in self.families for point in family.points)
        return family_points if self.plain is None else (self.plain, *family_points)

    @property
    def parts(self) -> list[tuple[str, tuple[Point, ...]]]:
        """(name, recipes) of every section of a table that is grouped by defense."""
        first = [("No defense", (self.plain,))] if self.plain else []
        return [*first, *((family.name, family.points) for family in self.families)]


@dataclass(frozen=True, kw_only=True)
class Versus:
    """A recipe against the group's reference, each under the attack that works best against it."""

    leak: LeakComparison | None = None
    accuracy: Comparison = NOTHING


def defense_groups(summary: Summary) -> tuple[DefenseGroup, ...]:
    """One group per setting; empty where the sweep tries fewer than two families, as nothing is there to group."""
    if len(family_keys(summary)) < 2:
        return ()
    by_setting: dict[str, list[Point]] = {}
    for recipe, defended in summary.defenses.items():
        by_setting.setdefault(defended.setting, []).append(Point(recipe=recipe, words=defended.words))
    return tuple(_group(summary, setting, points) for setting, points in by_setting.items())


def family_keys(summary: Summary) -> list[str]:
    """The families that the sweep tries, in the order of the table of defenses, then others in order of appearance.

    Plain training is no family.
    """
    met = dict.fromkeys(defended.words.family for defended in summary.defenses.values() if not defended.words.plain)
    places = {key: _place(key) for key in met}
    known = sorted((key for key in met if places[key] is not None), key=lambda key: present(places[key], key))
    return [*known, *(key for key in met if places[key] is None)]


def family_index(summary: Summary, key: str) -> int:
    """The index of a family's colour and marker, the same in every report for defenses of the table."""
    place = _place(key)
    if place is not None:
        return place
    strangers = [other for other in family_keys(summary) if _place(other) is None]
    return len(known_defenses()) + strangers.index(key)


def _place(key: str) -> int | None:
    """Position of a family in the table of defenses, smoothing first; None for a family outside the table."""
    if key == SMOOTHING:
        return 0  # the first of the table; reading the table would import torch
    known = known_defenses()
    return known.index(key) if key in known else None


def versus(summary: Summary, group: DefenseGroup) -> dict[str, Versus]:
    """Recipe -> how it compares with the reference; recipes without a measured leak are left out."""
    if summary.primary is None or summary.primary not in summary.measured:
        return {}
    rows = summary.rows(summary.primary)
    reference = rows.get(group.reference)
    by_recipe = dict.fromkeys((point.recipe for point in group.points if point.recipe in rows), Versus())
    for recipe in by_recipe:
        if reference not in (None, rows[recipe]):
            leak = summary.reduction(summary.primary, recipe, present(group.reference, "reference"))
            by_recipe[recipe] = Versus(leak=leak, accuracy=summary.compare("test_acc", rows[recipe], reference))
    return by_recipe


def accuracy_floor(summary: Summary, group: DefenseGroup) -> float | None:
    """The test accuracy that a family's best recipe needs: `min_test_acc`, else `CHEAP` below the reference's."""
    if summary.min_test_acc is not None:
        return summary.min_test_acc
    frame = summary.frame
    known = frame.loc[frame["recipe"] == group.reference, "test_acc"].dropna()
    return float(known.iloc[0]) - CHEAP if len(known) else None


def best_point(summary: Summary, group: DefenseGroup, points: Iterable[Point]) -> tuple[Point, bool] | None:
    """The point that leaks least among those that reach the accuracy floor; where none does, the most accurate one.

    The bool says whether it reaches the floor. None where no leak was measured.
    """
    rows = summary.rows(summary.primary) if summary.primary in summary.measured else {}
    known = [point for point in points if point.recipe in rows]
    if not known:
        return None
    floor, accuracy = accuracy_floor(summary, group), summary.frame["test_acc"].fillna(-1.0)
    enough = [point for point in known if floor is None or accuracy[rows[point.recipe]] >= floor]
    if not enough:
        return max(known, key=lambda point: accuracy[rows[point.recipe]]), False
    return min(enough, key=lambda point: summary.leak(rows[point.recipe])), True


def _group(summary: Summary, setting: str, points: Sequence[Point]) -> DefenseGroup:
    plain = next((point for point in points if point.words.plain), None)
    mine = {point.recipe for point in points}
    stated = summary.frame.loc[summary.frame["is_baseline"] & summary.frame["recipe"].isin(mine), "recipe"].unique()
    reference = str(stated[0]) if len(stated) == 1 else plain.recipe if plain else None
    by_label = {point.words.label: point for point in points}
    by_family = {
        key: [p for p in points if p.words.family == key and not p.words.plain] for key in family_keys(summary)
    }
    families = tuple(_family(key, members, plain, by_label) for key, members in by_family.items() if members)
    return DefenseGroup(setting=setting, families=families, plain=plain, reference=reference)


def _family(key: str, defended: Sequence[Point], plain: Point | None, by_label: Mapping[str, Point]) -> DefenseFamily:
    ordered = sorted(defended, key=_rank)
    arms: dict[str, list[Point]] = {}
    for point in ordered:
        arms.setdefault(point.words.arm, []).append(point)
    words, known = ordered[0].words, None if key == SMOOTHING else family_of(key)
    return DefenseFamily(
        key=key,
        name=words.name,
        points=tuple(ordered),
        starts_plain=words.starts_plain,
        arms=tuple(part for name, points in arms.items() for part in _arms(name, points, plain, by_label)),
        why=known.why if known else "" if words.starts_plain else "its weakest setting is not known here",
    )


def _rank(point: Point) -> tuple:
    words = point.words
    return (words.combined, words.arm, words.order is None, words.order or (), words.strength)


def _arms(name: str, points: Sequence[Point], plain: Point | None, by_label: Mapping[str, Point]) -> list[Arm]:
    """Curves through the points: one where all parameters grow together, else one for each value of the others."""
    loose = [Arm(name=name, points=(point,)) for point in points if point.words.order is None]
    known = [point for point in points if point.words.order is not None]
    chains = [known]
    if not all(_grows(_order(a), _order(b)) for a, b in pairwise(known)):
        apart = dict.fromkeys(_order(point)[:-1] for point in known)
        chains = [[point for point in known if _order(point)[:-1] == others] for others in apart]
    return [Arm(name=name, points=_with_start(chain, plain, by_label)) for chain in chains if chain] + loose


def _order(point: Point) -> tuple[float, ...]:
    return present(point.words.order, "order")


def _grows(weaker: Sequence[float], stronger: Sequence[float]) -> bool:
    return len(weaker) == len(stronger) and all(a <= b for a, b in zip(weaker, stronger, strict=True))


def _with_start(chain: Sequence[Point], plain: Point | None, by_label: Mapping[str, Point]) -> tuple[Point, ...]:
    """The chain with the recipe that its defense fades into: plain training, or the smoothing it is combined with."""
    words = chain[0].words
    start = by_label.get(words.smoothing) if words.combined else plain
    if start is None or not words.starts_plain:
        return tuple(chain)
    nothing = replace(start, words=replace(start.words, order=tuple(0.0 for _ in _order(chain[0]))))
    return tuple(sorted((nothing, *chain), key=_order))
