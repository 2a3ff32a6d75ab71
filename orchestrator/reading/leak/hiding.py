"""Does each recipe remove what leaks, or hide it from the published attacks? A word per recipe, and its grounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from smoothsweep.core.metrics.hiding import HidingVerdict, hides_or_removes
from smoothsweep.core.metrics.needed import Needed
from smoothsweep.core.metrics.power import MOST_SEEDS
from smoothsweep.core.metrics.reduction import Bounded
from smoothsweep.core.metrics.table import metric_of
from smoothsweep.orchestrator.reading.findings.tables import with_interval
from smoothsweep.orchestrator.reading.findings.uncertainty import named, start
from smoothsweep.orchestrator.reading.numbers.format import aligned, ascii_text, count, listing, signed, signed_interval
from smoothsweep.orchestrator.reading.numbers.summary import Summary

MEANING = {
    "removes": "the strongest attack tried finds clearly less",
    "hides": "published attacks find less, the strongest attack tried does not",
    "removes and hides": "the strongest attack tried finds clearly less, and published attacks clearly less than that",
    "leaks more": "the strongest attack tried finds clearly more",
    "cannot tell": "the numbers are too few or too close",
}
"""Word of a verdict -> what it says of a recipe beside the baseline."""


@dataclass(frozen=True, kw_only=True)
class Hidings:
    """verdicts: recipe -> its verdict against `baseline`. attacks: the portfolio they are measured with, published:
    those of it that follow gradients as published. left_out: recipes that lack an attack, or a seed under one.
    reason: why there are no verdicts, None where there are.
    """

    verdicts: Mapping[str, HidingVerdict] = field(default_factory=dict)
    baseline: str = ""
    attacks: tuple[str, ...] = ()
    published: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    reason: str | None = None


def hidings(summary: Summary) -> Hidings:
    """The verdicts of a sweep by the metric that decides."""
    baseline, attacks = summary.baseline_recipe, summary.attacks
    counted = summary.frame[~summary.frame["control"]]
    published = tuple(dict.fromkeys(counted.loc[counted["published"], "attack"]))
    if summary.primary is None or baseline is None or len(summary.recipes) < 2:
        return Hidings(reason="there is no baseline recipe, or nothing beside it, that a leak was measured of")
    if not published or len(published) == len(attacks):
        kind = "a published one that follows gradients" if published else "an adapted one or one without gradients"
        return Hidings(reason=f"every attack of this sweep is {kind}: hiding shows where both kinds are tried")
    cases = summary.cases(summary.primary)
    left_out = tuple(recipe for recipe in summary.recipes if recipe in cases.missing)
    if baseline not in cases.recipes or len(cases.recipes) < 2:
        return Hidings(reason="too few recipes were met by all attacks under the same seeds", left_out=left_out)
    attacks = list(cases.attacks)
    published = tuple(attack for attack in published if attack in attacks)
    if not published or len(published) == len(attacks):
        kinds = "the attacks tried so far are not of both kinds, published and adapted"
        return Hidings(reason=kinds, left_out=left_out)
    if summary.looks is not None:
        verdicts = _at_looks(summary, published)
    else:
        verdicts = hides_or_removes(
            summary.leaks_of(summary.primary, cases), baseline=baseline, published=published,
            level=summary.settings.level, span=summary.spec.span, available=summary.people,
        )  # fmt: skip
    return Hidings(
        verdicts=verdicts, baseline=baseline, attacks=tuple(attacks), published=published, left_out=left_out
    )


def _at_looks(summary: Summary, published: tuple[str, ...]) -> dict[str, HidingVerdict]:
    """Each recipe's verdict at its last look, over that look's seeds and at its error."""
    last = summary.stops(summary.primary)
    asked = {stop.look: stop for stop in last.values()}
    told = {
        look: hides_or_removes(
            summary.leaks_at(summary.primary, stop), baseline=summary.baseline_recipe, published=published,
            level=1 - stop.error, span=summary.spec.span, among=stop.among, smallest=summary.looks.smallest,
            available=summary.people,
        )
        for look, stop in asked.items()
    }  # fmt: skip
    return {recipe: told[last[recipe].look][recipe] for recipe in summary.recipes if recipe in last}


def hiding_sentences(summary: Summary, found: Hidings) -> tuple[str, ...]:
    """One sentence per recipe that has a clear word, one on those that have none, one on what it rests on."""
    if found.reason:
        return (f"Whether a recipe removes what leaks or hides it cannot be said: {found.reason}.",)
    told = {recipe: verdict for recipe, verdict in found.verdicts.items() if verdict.word != "cannot tell"}
    untold = [recipe for recipe in found.verdicts if recipe not in told]
    lines = [_sentence(summary, recipe, verdict) for recipe, verdict in told.items()]
    if untold:
        lines.append(f"Of {listing(named(recipe) for recipe in untold)} it cannot be told: {_needed(found, untold)}.")
    adaptive = [attack for attack in found.attacks if attack not in found.published]
    lines.append(
        f"What is removed is an upper bound: it was measured with {count(len(found.attacks), 'attack')}, beyond those "
        f"that follow gradients as published {listing(map(named, adaptive))}; a stronger attack may lower it."
    )
    return tuple(lines)


def _sentence(summary: Summary, recipe: str, verdict: HidingVerdict) -> str:
    strongest = f"under the attack that works best against it ({verdict.strongest})"
    return start(
        f"{named(recipe)} {verdict.word}: of {signed(summary.spec, verdict.claimed)} that the published attacks lose, "
        f"{shown(summary, verdict.removed)} are gone {strongest}, {shown(summary, verdict.hidden)} only hidden."
    )


def shown(summary: Summary, number: Bounded) -> str:
    """`+32.0 [12.1, 44.0]` in the unit of the leak, the interval where there is one."""
    return f"{signed(summary.spec, number.value)} {signed_interval(summary.spec, number.low, number.high)}".strip()


def _needed(found: Hidings, untold: list[str]) -> str:
    if all(found.verdicts[recipe].removed.low is None for recipe in untold):
        return "one seed tells nothing"
    needs = {recipe: one for recipe in untold if (one := found.verdicts[recipe].needed) is not None}
    if not needs:
        return "the differences are too small to matter"
    return listing(f"{needed_words(one)} would settle {named(recipe)}" for recipe, one in needs.items())


def needed_words(needed: Needed) -> str:
    """`8 seeds`, `8 seeds x 48 classes` where the classes are more than now, or that no number of seeds would do."""
    if needed.seeds is None:
        return f"no number of seeds up to {MOST_SEEDS}"
    more = f" x {count(needed.classes, 'class', 'classes')}" if needed.more_classes else ""
    return f"{count(needed.seeds, 'seed')}{more}"


def hiding_text(summary: Summary, found: Hidings) -> str:
    """The verdicts as a table for a terminal, a line per recipe under the attack that works best against it; one line
    saying why there are none."""
    if found.reason:
        return f"removes or hides: cannot be said, {ascii_text(found.reason)}"
    head = ["worst attack on each recipe", metric_of("test_acc").label, summary.spec.label, "removed", "hidden",
            "strongest attack", "verdict"]  # fmt: skip
    rows = [_line(summary, found, recipe) for recipe in summary.recipes if recipe not in found.left_out]
    return "\n".join(aligned([[ascii_text(cell) for cell in row] for row in (head, *rows)], {0, 5, 6}))


def _line(summary: Summary, found: Hidings, recipe: str) -> list[str]:
    if recipe == found.baseline:
        any_verdict = next(iter(found.verdicts.values()))
        strongest, removed, hidden, word = any_verdict.strongest_baseline, "", "", "baseline"
    else:
        one = found.verdicts[recipe]
        strongest, word = one.strongest, one.word
        word += f" ({needed_words(one.needed)} would settle it)" if one.needed else ""
        removed, hidden = shown(summary, one.removed), shown(summary, one.hidden)
    cells = summary.frame[(summary.frame["recipe"] == recipe) & (summary.frame["attack"] == strongest)].iloc[0]
    measured = [with_interval(spec, cells) for spec in (metric_of("test_acc"), summary.spec)]
    return [recipe, *measured, removed, hidden, strongest, word]


def hiding_frame(found: Hidings) -> pd.DataFrame:
    """One row per recipe, as `verdicts.parquet` holds it; fractions, large is bad."""
    return pd.DataFrame([
        {
            "recipe": recipe, "baseline": found.baseline, "verdict": one.word, "claimed": one.claimed,
            "removed": one.removed.value, "removed_low": one.removed.low, "removed_high": one.removed.high,
            "hidden": one.hidden.value, "hidden_low": one.hidden.low, "hidden_high": one.hidden.high,
            "strongest": one.strongest, "strongest_baseline": one.strongest_baseline, "published": one.published,
            "published_baseline": one.published_baseline, "seeds_needed": one.needed and one.needed.seeds,
            "classes_needed": one.needed and one.needed.classes,
            "portfolio": list(found.attacks),
        }
        for recipe, one in found.verdicts.items()
    ])  # fmt: skip
