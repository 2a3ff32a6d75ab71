"""The recipes of several sweeps as if one sweep had tried them: what the one rule of comparison then says of them.

A recipe is its trained network: one that two sweeps hold under the same data is one recipe, and a trial that both have
counts once. A column whose judge differs from the first sweep's is left out for the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from smoothsweep.core.judges.columns import BY_KEY, metric_of
from smoothsweep.orchestrator.commands.reporting.several.pairing import measured_by_same_judge
from smoothsweep.orchestrator.commands.reporting.several.side import ComparedSweep, report_data
from smoothsweep.orchestrator.reading.numbers.estimates import images_column
from smoothsweep.orchestrator.reading.numbers.format import count, listing
from smoothsweep.orchestrator.reading.numbers.model import ReportData


@dataclass(frozen=True, kw_only=True)
class Merged:
    """The results of several sweeps as those of one.

    Attributes:
        data: The rows of all, as a report has them.
        notes: What a reader has to know of them, in sentences.
        recipes: Sweep and trial -> the name of its recipe in the comparison, which its own sweep may call otherwise.
    """

    data: ReportData
    notes: tuple[str, ...]
    recipes: Mapping[tuple[str, str], str]


def merged(sides: Sequence[ComparedSweep]) -> Merged:
    """The rows of sweeps that may be compared; the first one's baseline and thresholds hold."""
    first = sides[0]
    recipes, attacks = _names(sides)
    rows, per_class, notes = [], [], []
    taken: dict[tuple[str, str, int], int] = {}
    for side in sides:
        mine, left_out = _rows(side, first)
        if left_out:
            labels = listing(dict.fromkeys(metric_of(key).label for key in left_out))
            notes.append(f"Of {side.name} these numbers are left out, since another judge measured them: {labels}.")
        known, doubled = {note.trial: note for note in side.conditions.trials}, 0
        for row in mine.to_dict("records"):
            note = known[row["trial"]]
            place = note.recipe, note.attack, int(row["seed"])
            named = row | {"recipe": recipes[note.recipe], "attack": attacks[note.attack]}
            if place not in taken:
                taken[place] = len(rows)
                rows.append(named)
            else:
                doubled += 1
                if rows[taken[place]]["status"] != "done":
                    rows[taken[place]] = named
        if doubled:
            counted = f"{count(doubled, 'trial')} of {side.name} {'is' if doubled == 1 else 'are'} counted once"
            notes.append(f"{counted}: the same work is in another sweep.")
        if side.per_class is not None:
            per_class.append(side.per_class.drop(columns=[*left_out, *map(images_column, left_out)], errors="ignore"))
    kept_trials = {row["trial"] for row in rows}
    by_class = pd.concat(per_class, ignore_index=True) if per_class else None
    if by_class is not None:
        by_class = by_class[by_class["trial"].isin(kept_trials)].drop_duplicates(["trial", "class"])
    called = {(side.name, note.trial): recipes[note.recipe] for side in sides for note in side.conditions.trials}
    data = _data(sides, rows, by_class, recipes)
    return Merged(data=data, notes=(*notes, *_standing_notes(sides)), recipes=called)


def _names(sides: Sequence[ComparedSweep]) -> tuple[dict[str, str], dict[str, str]]:
    """Digest -> name of every recipe, and of every attack; a name that two of them have says the sweep too."""
    recipes: dict[str, str] = {}
    attacks: dict[str, str] = {}
    for side in sides:
        for note in side.conditions.trials:
            _name(recipes, note.recipe, note.label, side.name)
            _name(attacks, note.attack, side.conditions.attacks[note.attack].label, side.name)
    return recipes, attacks


def _name(names: dict[str, str], digest: str, label: str, side: str) -> None:
    if digest not in names:
        names[digest] = f"{label} ({side})" if label in names.values() else label


def _rows(side: ComparedSweep, first: ComparedSweep) -> tuple[pd.DataFrame, list[str]]:
    """The rows without the metrics of another judge than the first sweep's, and these."""
    measured = [key for key in BY_KEY if key in side.rows and side.rows[key].notna().any()]
    left_out = [] if side is first else [key for key in measured if not measured_by_same_judge(first, side, key)]
    return side.rows.assign(**dict.fromkeys(left_out, np.nan)), left_out


def _data(
    sides: Sequence[ComparedSweep], rows: Sequence[dict], per_class: pd.DataFrame | None, recipes: dict[str, str]
) -> ReportData:
    first = sides[0]
    notes = [note for side in sides for note in side.conditions.trials]
    baseline = next((n.recipe for n in first.conditions.trials if n.label == first.standing.baseline), "")
    min_accuracies = {side.standing.min_test_acc for side in sides}
    images = [side.standing.real_images for side in sides if side.standing.real_images is not None]
    standing = first.standing.model_copy(
        update={
            "baseline": recipes.get(baseline),
            "primary": first.summary.primary,
            "min_test_acc": min_accuracies.pop() if len(min_accuracies) == 1 else None,
            "real_images": min(images, default=None),
        }
    )
    return report_data(
        listing(side.name for side in sides),
        pd.DataFrame(list(rows)),
        per_class,
        standing,
        {note.trial: note.defense for note in notes if note.defense},
        reasons={key: why for key, why in first.comparison.reasons.items() if key in BY_KEY},
        links={trial: links for side in reversed(sides) for trial, links in side.links.items()},
    )


def _standing_notes(sides: Sequence[ComparedSweep]) -> list[str]:
    """Where the first sweep's settings hold for the others."""
    first, notes = sides[0], []
    for side in sides[1:]:
        if _reference(side) != _reference(first):
            theirs = side.standing.baseline or "none"
            notes.append(
                f"The baseline is that of {first.name} ({first.standing.baseline or 'none'}); "
                f"{side.name} has its own ({theirs})."
            )
    if len({side.standing.min_test_acc for side in sides}) > 1:
        notes.append("The sweeps ask for different test accuracies, so that none is asked for here.")
    if len({side.standing.accuracy_margin for side in sides}) > 1:
        margin = 100 * first.standing.accuracy_margin
        notes.append(f"A loss of test accuracy below {margin:g} points counts as none, as in {first.name}.")
    return notes


def _reference(side: ComparedSweep) -> str | None:
    return next((n.recipe for n in side.conditions.trials if n.label == side.standing.baseline), None)
