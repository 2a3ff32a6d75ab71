"""Pictures of the first screen: training images, and what the strongest attack made of them under a few recipes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smoothsweep.orchestrator.result.data import ContactSheet, Tile
from smoothsweep.orchestrator.result.summary import Summary

UNNAMED_ATTACK = "Reconstructions"
"""Title of the contact sheet of a sweep that varies no attack."""


@dataclass(frozen=True, kw_only=True)
class Faces:
    """One group of pictures: a tile of each class that is shown.

    Attributes:
        recipe: None for the training images.
        roles: Why it is here, "lowest leak", "baseline", "highest leak".
        row: Its row of the summary's frame, under its strongest attack.
        attack: The strongest attack, "" where the sweep varies none.
        judge: Who says which tiles are recognised.
    """

    tiles: tuple[Tile | None, ...]
    classes: tuple[str, ...]
    recipe: str | None = None
    roles: tuple[str, ...] = ()
    row: int | None = None
    attack: str = ""
    judge: str = ""


def extremes(summary: Summary) -> dict[str, tuple[str, ...]]:
    """Recipe -> its roles: the baseline, and those with the lowest and the highest leak under their strongest attacks.

    The lowest is that of the recipes accurate enough, where the sweep asks for an accuracy. {} without a leak.
    """
    evidence = summary.evidence
    leaks = {} if evidence is None else summary.leaks(evidence.metric)
    if evidence is None or not leaks:
        return {}
    best = evidence.recommendation.best
    lowest = best if best in leaks else min(leaks, key=leaks.__getitem__)
    named = {summary.baseline_recipe: "baseline", lowest: "lowest leak"}
    roles: dict[str, tuple[str, ...]] = {name: (word,) for name, word in named.items() if name in leaks}
    if summary.baseline_recipe == lowest:
        roles = {lowest: ("baseline", "lowest leak")}
    highest = max(leaks, key=leaks.__getitem__)
    if leaks[highest] > leaks[lowest]:
        roles[highest] = (*roles.get(highest, ()), "highest leak")
    return roles


def faces(summary: Summary, sheets: Sequence[ContactSheet]) -> tuple[Faces, ...]:
    """The training images, then each recipe of `extremes` that has pictures, under the attack that works best on it.

    () without pictures of any of them.
    """
    by_attack = {sheet.title: sheet for sheet in sheets}
    groups = []
    for recipe, roles in extremes(summary).items():
        row = summary.rows(summary.deciding)[recipe]
        attack = str(summary.frame.loc[row, "attack"])
        sheet = by_attack.get(attack or UNNAMED_ATTACK)
        if sheet is not None and recipe in sheet.columns:
            column = sheet.columns.index(recipe)
            tiles = tuple(row_of_sheet.reconstructions[column] for row_of_sheet in sheet.rows)
            classes = tuple(row_of_sheet.name for row_of_sheet in sheet.rows)
            group = Faces(
                tiles=tiles, classes=classes, recipe=recipe, roles=roles, row=row, attack=attack, judge=sheet.judge
            )
            groups.append((group, sheet))
    if not groups:
        return ()
    sheet = groups[0][1]
    real = Faces(
        tiles=tuple(row_of_sheet.real for row_of_sheet in sheet.rows),
        classes=tuple(row_of_sheet.name for row_of_sheet in sheet.rows),
    )
    return (real, *(group for group, _ in groups))
