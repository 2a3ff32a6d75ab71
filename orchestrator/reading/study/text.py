"""What a study's answers show, as lines for a terminal and as JSON values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from smoothsweep.core.text import shortened
from smoothsweep.orchestrator.reading.numbers.format import aligned, ascii_text, listing
from smoothsweep.orchestrator.reading.study.shares import LEVEL, ByAnnotator, Share, StudyResult

BANDS = ((0.0, "none"), (0.2, "slight"), (0.4, "fair"), (0.6, "moderate"), (0.8, "substantial"))
"""Fleiss' kappa up to which agreement is called so (Landis and Koch, 1977)."""


def study_text(result: StudyResult) -> str:
    """The whole result: by recipe, by annotator, agreement, and whom the attention checks leave out."""
    names = [ascii_text(shortened(name)) for name in result.recipes]
    theirs = any(value is not None for value in result.published)
    heads = ("looks least like the person", "by most votes", "by single answers", *(("paper",) if theirs else ()))
    columns = [
        (
            name,
            _share(result.preferred[place]),
            _share(result.answers[place]),
            *((_percent(result.published[place]),) if theirs else ()),
        )
        for place, name in enumerate(names)
    ]
    by_recipe = [heads, *columns]
    people = ("annotator", "answered", *names, "attention checks")
    by_annotator = [people, *map(_by_annotator, result.annotators)]
    tables = [aligned(rows, range(len(rows[0]))) for rows in (by_recipe, by_annotator)]
    return "\n".join([*tables[0], "", *_notes(result), "", *tables[1]])


def study_json(result: StudyResult) -> dict[str, Any]:
    """The whole result as JSON values; what could not be told is null."""
    return {"level": LEVEL, **asdict(result)}


def _notes(result: StudyResult) -> list[str]:
    decided = result.preferred[0].of if result.preferred else 0
    level = f"{100 * LEVEL:g} %"
    lines = [
        f"{decided} {'person' if decided == 1 else 'people'} decided, {result.undecided} level and left out",
        f"{level} intervals in brackets: Wilson's over people; of single answers over annotators and people",
    ]
    if result.agreement is None:
        lines.append("agreement: not known with fewer than two annotators, or where all chose one recipe")
    else:
        lines.append(f"agreement: Fleiss' kappa {result.agreement:.2f} ({agreement_words(result.agreement)})")
    absent = [annotator for annotator in result.annotators if not annotator.attentive]
    if absent:
        names = listing(
            f"{shortened(annotator.name)} ({annotator.failed} of {annotator.checks} failed)" for annotator in absent
        )
        lines.append(f"left out, because their attention checks look like guessing: {names}")
    return lines


def agreement_words(kappa: float) -> str:
    """Landis and Koch's word for a kappa."""
    return next((word for most, word in BANDS if kappa <= most), "almost perfect")


def _by_annotator(annotator: ByAnnotator) -> tuple[str, ...]:
    doubt = "" if annotator.attentive else ": guessing?"
    passed = f"{annotator.checks - annotator.failed} of {annotator.checks} passed{doubt}"
    return (
        ascii_text(shortened(annotator.name)),
        f"{annotator.answered} of {annotator.questions}",
        *map(_share, annotator.shares),
        passed,
    )


def _share(share: Share) -> str:
    if share.value is None:
        return "-"
    ends = "" if share.low is None or share.high is None else f" [{100 * share.low:.0f}, {100 * share.high:.0f}]"
    return _percent(share.value) + ends


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
