"""Sentences on the look at which each recipe was decided, for terminal, page and MLflow."""

from __future__ import annotations

from smoothsweep.core.checks import present
from smoothsweep.orchestrator.reading.numbers.format import (
    ascii_text,
    count,
    listing,
    named,
    points,
    signed,
    signed_interval,
    start,
)
from smoothsweep.orchestrator.reading.numbers.looks import Stop
from smoothsweep.orchestrator.reading.numbers.summary import Summary

SPENT = {"pocock": "Pocock", "obrien-fleming": "O'Brien and Fleming"}


def look_words(summary: Summary, stop: Stop) -> str:
    """A phrase such as `decided at look 1 of 3 (3 seeds)`."""
    looks = present(summary.looks, "looks")
    where = f"look {stop.look} of {len(looks.looks)} ({count(stop.seeds, 'seed')})"
    if stop.answer == "small":
        return f"smaller than {points(summary.spec, looks.smallest)} either way at {where}"
    return {"told": f"decided at {where}", "open": f"open after {where}", "undecided": f"undecided after {where}"}[
        stop.answer
    ]


def look_sentences(summary: Summary) -> tuple[str, ...]:
    """Sentences on the looks, one per recipe, and on recipes that could not be tested; empty without looks."""
    if summary.looks is None or summary.primary is None:
        return ()
    looks, last = summary.looks, summary.stops(summary.primary)
    shares = [f"{100 * error:.2g}\u00a0%" for error in looks.design.errors]
    errors = shares[0] if len(set(shares)) == 1 else f"{listing(shares)}, one after the other"
    first = (
        f"Every recipe was compared with the baseline at {looks.looks[0]} seeds, those still undecided again at "
        f"{listing(map(str, looks.looks[1:]))}, each time with an error of {errors} "
        f"({100 * looks.alpha:g}\u00a0% in all, {SPENT[looks.spend]}). These intervals hold although seeds were added."
        if len(looks.looks) > 1
        else f"There is one look, at {looks.looks[0]} seeds."
    )
    lines = [first, *(start(f"{named(recipe)}: {_stop_sentence(summary, stop)}.") for recipe, stop in last.items())]
    missing = [recipe for recipe in summary.recipes if recipe not in last and recipe != summary.baseline_recipe]
    if missing:
        lines.append(f"Not asked yet, since seeds of the first look are missing: {listing(map(named, missing))}.")
    return tuple(lines)


def _stop_sentence(summary: Summary, stop: Stop) -> str:
    interval = stop.reduction
    reduction = (
        f"{signed(summary.spec, interval.value)} {signed_interval(summary.spec, interval.low, interval.high)}".strip()
    )
    return f"{look_words(summary, stop)}, reduction {reduction}"


def look_text(summary: Summary) -> str:
    """The sentences on looks as text for a terminal; empty without looks."""
    return "\n".join(ascii_text(line) for line in look_sentences(summary))
