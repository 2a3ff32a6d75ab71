"""How every output words a comparison of leaks: one table from the word to its text, one way to write a reduction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.equivalence import is_kept
from smoothsweep.core.metrics.leak_comparisons import HIDES, LEAKS_MORE, REDUCES, LeakComparison, Word
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.metrics.power import MOST_SEEDS
from smoothsweep.core.metrics.verdicts import INCONCLUSIVE, LEAST_SEEDS
from smoothsweep.orchestrator.reading.numbers.estimates import Comparison
from smoothsweep.orchestrator.reading.numbers.format import count, difference, number, points, signed, signed_interval

Look = Literal["good", "bad", "unclear", ""]


@dataclass(frozen=True, kw_only=True)
class Wording:
    """How a word is shown.

    Attributes:
        meaning: What it says of a recipe beside the baseline; the tooltip of pages, the legend of documents.
        look: Good or bad for the owner of the model, or unclear: the colour on pages.
        as_verb: The predicate of a sentence: "alpha 0.1 ...".
    """

    meaning: str
    look: Look
    as_verb: str


WORDING: Mapping[Word, Wording] = {
    REDUCES: Wording(
        meaning="the strongest attack tried finds less than in the baseline: the whole interval lies above zero",
        look="good",
        as_verb="reduces the leak",
    ),
    HIDES: Wording(
        meaning="published attacks find less than in the baseline, the strongest attack tried does not",
        look="bad",
        as_verb="hides the leak from published attacks",
    ),
    LEAKS_MORE: Wording(
        meaning="the strongest attack tried finds more than in the baseline: the whole interval lies below zero",
        look="bad",
        as_verb="leaks more",
    ),
    INCONCLUSIVE: Wording(
        meaning="the interval holds zero: the numbers are too few, or the difference is too small",
        look="unclear",
        as_verb="is inconclusive",
    ),
}
"""Word -> its text on the terminal, on pages, in PDF, MLflow and JSON."""

LEGEND = "reduction: leak of the baseline minus leak of the recipe; positive leaks less"
"""What the sign means, for the foot of a table."""


def reduction_cell(spec: Metric, comparison: LeakComparison) -> str:
    """`+20.5 [+2, +39]`: a reduction and its interval in a table; percentage points for rates."""
    return f"{signed(spec, comparison.reduction)} {signed_interval(spec, comparison.low, comparison.high)}".strip()


def reduction_words(spec: Metric, comparison: LeakComparison) -> str:
    """`+20.5 points [+2, +39]`: the same in a sentence."""
    return difference(spec, comparison.reduction, comparison.low, comparison.high)


def needed_words(comparison: LeakComparison) -> str:
    """What might settle an inconclusive comparison, with 80 % power: `8 seeds`, `8 seeds x 48 classes` where these are
    more classes than now, or that no number of seeds would; empty where it is settled or nothing is known."""
    if comparison.word != INCONCLUSIVE:
        return ""
    if comparison.seeds < LEAST_SEEDS:
        return f"at least {LEAST_SEEDS} seeds"
    if comparison.needed is None:
        return ""
    if comparison.needed.seeds is None:
        return f"no number of seeds up to {MOST_SEEDS}"
    classes = comparison.needed.classes if comparison.needed.more_classes else None
    more = "" if classes is None else f" x {count(classes, 'class', 'classes')}"
    return f"{count(comparison.needed.seeds, 'seed')}{more}"


def settling(comparison: LeakComparison) -> str:
    """A phrase such as `8 seeds might settle it`, or that no number would; empty where `needed_words` is."""
    needed = needed_words(comparison)
    how = "would" if needed.startswith("no number") else "might"
    return f"{needed} {how} settle it" if needed else ""


def row_reduction(spec: Metric, gap: Comparison) -> tuple[str, Word | None]:
    """The reduction of a row of the frame beside its baseline's row under its own attack, as `reduction_cell`, and the
    word; None where there is nothing to compare."""
    if not gap.verdict:
        return "", None
    value = -spec.sign * gap.difference
    ends = sorted((-spec.sign * gap.low, -spec.sign * gap.high))
    word = INCONCLUSIVE if gap.verdict == INCONCLUSIVE else REDUCES if value > 0 else LEAKS_MORE
    return f"{signed(spec, value)} {signed_interval(spec, *ends)}".strip(), word


def hits_in_words(spec: Metric, people: int | None) -> str:
    """What follows a rate in a sentence: ` of its reconstructions are matched among 20 (chance: 5 %)`."""
    if spec.ceiling is None:
        return ""
    if spec.verifies:
        return " of its reconstructions are recognised"
    among = f" among {people} (chance: {number(spec, 1 / people)})" if people else ""
    return f" of its reconstructions are matched{among}"


SPEC = metric_of("test_acc")


def accuracy_kept(gap: Comparison, margin: float) -> bool:
    """Whether the whole interval of the difference lies above minus the margin."""
    return gap.n > 0 and is_kept(gap.low, gap.high, margin)


def accuracy_gap(gap: Comparison) -> str:
    """A difference as text, such as `-0.6 points [-1.6, +0.5]`."""
    return difference(SPEC, gap.difference, gap.low, gap.high)


def margin_words(margin: float) -> str:
    """A margin as text, such as `1.0 point`."""
    return points(SPEC, margin)
