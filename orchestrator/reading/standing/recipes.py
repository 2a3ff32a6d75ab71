"""Compare the leaks of the baseline and of the recipe that leaks least with chance, control, reach and ceiling."""

from __future__ import annotations

from dataclasses import dataclass, replace

from smoothsweep.orchestrator.reading.numbers.decision import decide
from smoothsweep.orchestrator.reading.numbers.format import named
from smoothsweep.orchestrator.reading.numbers.summary import Summary
from smoothsweep.orchestrator.reading.standing.judged import FIRST, Standing, limited, standings, verified_sentence


@dataclass(frozen=True, kw_only=True)
class RecipeStanding:
    """One recipe under the attack that works best against it. judged: one entry per way of judging."""

    recipe: str
    attack: str
    judged: tuple[Standing, ...]


def recipe_standings(summary: Summary) -> tuple[RecipeStanding, ...]:
    """The standing of the baseline, then of the recipe that leaks least; empty where no recipes are compared."""
    if summary.primary is None or summary.by_setting:
        return ()
    choice = decide(summary)
    rows = dict.fromkeys(row for row in (choice.reference, choice.best) if row is not None)
    standings_of_recipes = (
        RecipeStanding(
            recipe=str(summary.frame.loc[row, "recipe"]),
            attack=str(summary.frame.loc[row, "attack"]),
            judged=tuple(filter(_beside_anything, standings(summary, row, control_of(summary, row), summary.people))),
        )
        for row in rows
    )
    return tuple(standing for standing in standings_of_recipes if standing.judged)


def _beside_anything(standing: Standing) -> bool:
    return any(number.value is not None for name, number in standing.numbers.items() if name != "leak")


def control_of(summary: Summary, row: int) -> int | None:
    """The row of the control with the largest leak by the deciding judge, for the recipe of `row`; may be None."""
    frame, metric = summary.frame, summary.deciding
    same = frame["control"] & (frame["recipe"] == frame.loc[row, "recipe"]) & frame[metric].notna()
    return int((summary.spec.sign * frame.loc[same, metric]).idxmax()) if same.any() else None


def standing_sentences(summary: Summary) -> tuple[str, ...]:
    """Sentences on verification of the recipe that leaks least, compared with the baseline, and the prior's limit."""
    standings = recipe_standings(summary)
    if not standings:
        return ()
    *others, last = (replace(one, judged=tuple(way for way in one.judged if way.told)) for one in standings)
    comparisons = (
        f"{way.value_text('leak')} of that from {named(other.recipe)}"
        for other in others
        for way in other.judged
        if way.metric == FIRST
    )
    sentences = verified_sentence(
        last.judged, f"what is reconstructed from {named(last.recipe)}", first=tuple(comparisons)
    )
    return (*sentences, *limited(last.judged))
