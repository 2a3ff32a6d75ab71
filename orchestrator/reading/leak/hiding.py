"""The verdict on each recipe relative to the baseline, the evidence for it, and the leak that it hides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.leak_comparisons import HIDES, LeakComparison
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.metrics.reduction import Bounded
from smoothsweep.core.metrics.verdicts import INCONCLUSIVE, LEAST_SEEDS
from smoothsweep.orchestrator.reading.findings.display import with_interval
from smoothsweep.orchestrator.reading.numbers.format import (
    aligned,
    ascii_text,
    listing,
    named,
    points,
    signed,
    signed_interval,
    start,
)
from smoothsweep.orchestrator.reading.numbers.summary import Summary
from smoothsweep.orchestrator.reading.numbers.wording import (
    LEGEND,
    WORDING,
    needed_words,
    reduction_cell,
    reduction_words,
    settling,
)


@dataclass(frozen=True, kw_only=True)
class HidingVerdicts:
    """The verdicts of a sweep.

    Attributes:
        verdicts: Recipe -> its comparison with its baseline, in the order of the sweep.
        baselines: Recipes that others are compared with.
        attacks: The portfolio that the verdicts rest on.
        published: Attacks of the portfolio that follow gradients as published.
        left_out: Recipes that lack an attack or a seed.
        reason: Why no verdict can say that a recipe hides its leak; None where one can.
    """

    verdicts: Mapping[str, LeakComparison] = field(default_factory=dict)
    baselines: tuple[str, ...] = ()
    attacks: tuple[str, ...] = ()
    published: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    reason: str | None = None


def hiding_verdicts(summary: Summary) -> HidingVerdicts:
    """The verdicts of a sweep by the metric that decides."""
    if summary.primary is None:
        return HidingVerdicts(reason="no leak can be told" if summary.checks else "no leak was measured")
    by_recipe = {recipe: summary.verdict(recipe) for recipe in summary.recipes}
    verdicts = {recipe: verdict for recipe, verdict in by_recipe.items() if verdict is not None}
    cases = summary.cases(summary.primary)
    references = summary.references
    return HidingVerdicts(
        verdicts=verdicts,
        baselines=tuple(dict.fromkeys(references[recipe] for recipe in verdicts)),
        attacks=tuple(cases.attacks),
        published=tuple(attack for attack in summary.published if attack in cases.attacks),
        left_out=tuple(recipe for recipe in summary.recipes if recipe in cases.missing),
        reason=_reason(summary, verdicts, cases.attacks),
    )


def _reason(summary: Summary, verdicts: Mapping[str, LeakComparison], met: tuple[str, ...]) -> str | None:
    """Why no verdict can say that a recipe hides its leak; None where one can."""
    published, attacks = summary.published, summary.attacks
    if not summary.references:
        return "no leak was measured of a baseline, or of any other recipe"
    if not published or len(published) == len(attacks):
        kind = "a published one that follows gradients" if published else "an adapted one or one without gradients"
        return f"every attack of this sweep is {kind}: hiding shows where both kinds are tried"
    if not verdicts:
        return "too few recipes have results of all attacks under the same seeds"
    if all(verdict.hidden is None for verdict in verdicts.values()):
        both = 0 < len([attack for attack in published if attack in met]) < len(met)
        kinds = "the attacks tried so far are not of both kinds, published and adapted"
        return "the sweep has several baselines" if both else kinds
    return None


def hiding_sentences(summary: Summary, sweep_verdicts: HidingVerdicts) -> tuple[str, ...]:
    """A sentence per recipe with a significant verdict, one on the inconclusive recipes, one on the evidence."""
    clear = {recipe: verdict for recipe, verdict in sweep_verdicts.verdicts.items() if verdict.word != INCONCLUSIVE}
    unclear = {recipe: verdict for recipe, verdict in sweep_verdicts.verdicts.items() if verdict.word == INCONCLUSIVE}
    lines = [_sentence(summary, recipe, verdict) for recipe, verdict in clear.items()]
    if unclear:
        parts = [f"{named(recipe)} ({_inconclusive(summary, verdict)})" for recipe, verdict in unclear.items()]
        lines.append(f"Inconclusive: {listing(parts)}.")
    if sweep_verdicts.reason:
        return (*lines, f"Whether a recipe hides its leak cannot be said: {sweep_verdicts.reason}.")
    adapted = [attack for attack in sweep_verdicts.attacks if attack not in sweep_verdicts.published]
    lines.append(
        f"A reduction is an upper bound: a stronger attack than the {len(sweep_verdicts.attacks)} tried may lower it. "
        f"Adapted attacks, or attacks without gradients, among them: {listing(map(named, adapted))}."
    )
    return tuple(lines)


def _sentence(summary: Summary, recipe: str, verdict: LeakComparison) -> str:
    spec, hidden = summary.spec, verdict.hidden
    size = reduction_words(spec, verdict)
    first = f"{named(recipe)} {WORDING[verdict.word].as_verb}"
    if verdict.word == HIDES and hidden is not None:
        return start(
            f"{first}: they find {points(spec, hidden.claimed)} less than in the baseline, but the attack that works "
            f"best against it ({verdict.attack}) does not (reduction {size}). "
            f"Hidden: {bounded_cell(spec, hidden.part)}."
        )
    more = ""
    if hidden is not None and hidden.is_clear:
        more = f"; it also hides {bounded_cell(spec, hidden.part)} from the published attacks"
    return start(f"{first}: {size} under the attack that works best against it ({verdict.attack}){more}.")


def _inconclusive(summary: Summary, verdict: LeakComparison) -> str:
    small = "it is too small to matter" if verdict.seeds >= LEAST_SEEDS and verdict.low is not None else ""
    return "; ".join(part for part in (reduction_words(summary.spec, verdict), settling(verdict) or small) if part)


def bounded_cell(spec: Metric, number: Bounded) -> str:
    """A number with its interval in the unit of the leak, such as `+32.0 [+12, +44]`."""
    return f"{signed(spec, number.value)} {signed_interval(spec, number.low, number.high)}".strip()


def verdict_text(summary: Summary, sweep_verdicts: HidingVerdicts) -> str:
    """The verdicts as a table for a terminal, a line per recipe under its strongest attack; else why there are none."""
    if not sweep_verdicts.verdicts:
        return f"no recipe is compared with a baseline: {ascii_text(sweep_verdicts.reason or 'too few numbers')}"
    hides = sweep_verdicts.reason is None
    head = [
        "each recipe under its strongest attack",
        metric_of("test_acc").label,
        summary.spec.label,
        "reduction",
        *(["hidden"] if hides else []),
        "strongest attack",
        "verdict",
        "n needed",
    ]
    rows = summary.rows(summary.deciding)
    lines = [_line(summary, sweep_verdicts, recipe, row, hides=hides) for recipe, row in rows.items()]
    words = {0, *range(len(head) - 3, len(head))}
    table = aligned([[ascii_text(cell) for cell in row] for row in (head, *lines)], words)
    unsaid = [f"hiding: not looked for, {ascii_text(sweep_verdicts.reason)}"] if sweep_verdicts.reason else []
    return "\n".join([*table, LEGEND, *unsaid])


def _line(summary: Summary, sweep_verdicts: HidingVerdicts, recipe: str, row: int, *, hides: bool) -> list[str]:
    cells, verdict = summary.cells[row], sweep_verdicts.verdicts.get(recipe)
    measured = [with_interval(spec, cells) for spec in (metric_of("test_acc"), summary.spec)]
    size = "" if verdict is None else reduction_cell(summary.spec, verdict)
    part = "" if verdict is None or verdict.hidden is None else bounded_cell(summary.spec, verdict.hidden.part)
    word = verdict.word if verdict else "baseline" if recipe in sweep_verdicts.baselines else ""
    needed = "" if verdict is None else needed_words(verdict)
    return [recipe, *measured, size, *([part] if hides else []), cells["attack"], word, needed]


def verdict_frame(summary: Summary, sweep_verdicts: HidingVerdicts) -> pd.DataFrame:
    """One row per recipe, as `verdicts.parquet` holds it; fractions, positive leaks less. What would settle a recipe
    are whole numbers, missing where nothing would. `removed`, `removed_low`,
    `removed_high`, `strongest` and `strongest_baseline` are earlier names of other columns."""
    rows = []
    for recipe, verdict in sweep_verdicts.verdicts.items():
        hidden, part = (
            verdict.hidden,
            verdict.hidden.part if verdict.hidden else Bounded(value=float("nan"), low=None, high=None),
        )
        rows.append(
            {
                "recipe": recipe,
                "baseline": summary.references[recipe],
                "verdict": verdict.word,
                "reduction": verdict.reduction,
                "reduction_low": verdict.low,
                "reduction_high": verdict.high,
                "p": verdict.p,
                "comparisons": verdict.comparisons,
                "attack": verdict.attack,
                "attack_baseline": verdict.attack_reference,
                "seeds": verdict.seeds,
                "seeds_needed": verdict.needed and verdict.needed.seeds,
                "classes_needed": verdict.needed and verdict.needed.classes,
                "claimed": hidden.claimed if hidden else None,
                "hidden": part.value,
                "hidden_low": part.low,
                "hidden_high": part.high,
                "published": hidden.published if hidden else None,
                "published_baseline": hidden.published_baseline if hidden else None,
                "portfolio": list(sweep_verdicts.attacks),
                "removed": verdict.reduction,
                "removed_low": verdict.low,
                "removed_high": verdict.high,
                "strongest": verdict.attack,
                "strongest_baseline": verdict.attack_reference,
            }
        )
    frame = pd.DataFrame(rows)
    return frame.astype({name: "Int64" for name in ("seeds_needed", "classes_needed") if name in frame})
