"""Sentences on the uncertainty of the choice: the reduction, the probability of being best, the runners-up."""

from __future__ import annotations

import math

from smoothsweep.core.checks import present
from smoothsweep.core.metrics.leak_comparisons import HIDES, LeakComparison
from smoothsweep.core.metrics.recommendation import Optimism, selection_optimism
from smoothsweep.core.metrics.verdicts import LEAST_SEEDS
from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.reading.numbers.evidence import Evidence
from smoothsweep.orchestrator.reading.numbers.format import count, listing, named, points, significant
from smoothsweep.orchestrator.reading.numbers.summary import Summary
from smoothsweep.orchestrator.reading.numbers.wording import WORDING, reduction_words, settling

NAMED = 3
"""The most runners-up that a sentence names."""


def gap_of(summary: Summary, row: int, reference: int) -> LeakComparison | None:
    """Compare the recipes of two rows by the metric that decides; None where they were not compared."""
    return summary.reduction(summary.deciding, *(summary.frame.loc[at, "recipe"] for at in (row, reference)))


def gap_words(summary: Summary, gap: LeakComparison | None) -> str:
    """A remark such as ` (reduction +10.2 points [+4, +17])`; empty without a comparison."""
    return "" if gap is None else f" (reduction {reduction_words(summary.spec, gap)})"


def p_words(p: float) -> str:
    """A p-value as text, such as `p = 0.03`; never 0, which no finite sample can prove."""
    return f"p{NBSP}<{NBSP}0.001" if p < 0.001 else f"p{NBSP}={NBSP}{p:.2g}"


def uncertainty_words(summary: Summary, gap: LeakComparison | None) -> str:
    """The end of a sentence on the uncertainty of a reduction."""
    if gap is None:
        return "the two have no seed in common, so their difference has no interval."
    sample = sample_words(summary, gap.seeds)
    if gap.seeds < LEAST_SEEDS:
        return f"at {sample} this is inconclusive: another training run may turn the difference round."
    if gap.low == gap.high == 0:
        return f"at {sample} there is no difference between the two."
    if gap.is_clear:
        return f"at {sample} it {WORDING[gap.word].as_verb}{_counted(gap)}."
    if gap.word == HIDES:
        open_ = f"whether the strongest attack finds less is inconclusive{_counted(gap)}"
        return f"at {sample} it {WORDING[HIDES].as_verb}; {open_}."
    return f"at {sample} this is inconclusive{_counted(gap)}{': ' if settling(gap) else ''}{settling(gap)}."


def sample_words(summary: Summary, seeds: int) -> str:
    """The sample as text, such as `n = 2 seeds and 48 classes`."""
    classes = summary.evidence.classes if summary.evidence is not None else None
    return f"n = {count(seeds, 'seed')}" + (f" and {count(classes, 'class', 'classes')}" if classes else "")


def _counted(gap: LeakComparison) -> str:
    """A remark such as ` (p = 0.01, corrected for 6 comparisons)`."""
    if gap.p is None:
        return ""
    corrected = f", corrected for {gap.comparisons:,} comparisons" if gap.comparisons > 1 else ""
    return f" ({p_words(gap.p)}{corrected})"


def standing(summary: Summary) -> tuple[str, ...]:
    """Sentences on the probability that the choice is the best of all, and on recipes that may leak as little."""
    evidence = summary.evidence
    if evidence is None or evidence.recommendation.best is None or len(evidence.recommendation.allowed) < 2:
        return ()
    choice, shares = evidence.recommendation, evidence.recommendation.probability_best
    many, best = len(choice.allowed), named(evidence.recommendation.best)
    ruled_out = [recipe for recipe in choice.allowed if recipe not in (choice.best, *choice.runners_up)]
    if shares is None:
        return (f"With one seed per recipe, how probable it is that {best} is the best of {many} is not known.",)
    capped = bool(choice.runners_up) and shares[present(choice.best, "best recipe")] >= summary.settings.level
    bound = "at most " if capped else ""
    sentence = (
        f"The probability that {best} is the best of the {many} is {bound}{share(shares[present(choice.best, 'best')])}"
    )
    if not choice.runners_up:
        every = "the other" if many == 2 else "each of the others"
        return (f"{sentence}; it leaks less than {every}.",)
    names = [f"{named(recipe)} ({share(shares[recipe])})" for recipe in choice.runners_up[:NAMED]]
    rest = len(choice.runners_up) - NAMED
    corrected = ", corrected for all pairs" if evidence.pairs > 1 else ""
    if not ruled_out and rest > 0:
        return (f"{sentence}; inconclusive against each of the others{corrected}. Next come {listing(names)}.",)
    others = listing([*names, f"{count(rest, 'other')}"]) if rest > 0 else listing(names)
    return (f"{sentence}; inconclusive against {others}{corrected}.",)


def share(probability: float) -> str:
    """A probability in whole per cents, never 0 or 100."""
    if probability < 0.01:
        return f"below 1{NBSP}%"
    return f"above 99{NBSP}%" if probability > 0.99 else f"{100 * probability:.0f}{NBSP}%"


def optimism(evidence: Evidence, resamples: int, seed: int) -> Optimism | None:
    """The bias of the lowest leak, which is chosen among noisy ones; None with fewer than two recipes."""
    allowed = evidence.recommendation.allowed
    if len(allowed) < 2:
        return None
    chosen_among = {recipe: evidence.values[recipe] for recipe in allowed}
    return selection_optimism(chosen_among, resamples=resamples, seed=seed)


def flattery(summary: Summary) -> tuple[str, ...]:
    """A caution that the lowest of several noisy leaks is biased, with the size of the bias."""
    evidence, spec = summary.compared, summary.spec
    bias = optimism(evidence, summary.settings.resamples, summary.settings.seed)
    if bias is None or len(evidence.recommendation.allowed) < 3:
        return ()
    many = len(evidence.recommendation.allowed)
    if math.isnan(bias.optimism):
        return (f"The smallest of {many} noisy numbers tends to be too small; by how much is not known.",)
    if bias.optimism < 0.0005 and spec.unit == "percent":
        return (
            f"The smallest of {many} noisy numbers tends to be too small; here they differ too much for that to "
            "matter.",
        )
    size = points(spec, bias.optimism) if spec.unit == "percent" else significant(bias.optimism)
    return (
        f"The smallest of {many} noisy numbers tends to be too small, here by about {size}. Only fresh seeds "
        "show what it really leaks.",
    )
