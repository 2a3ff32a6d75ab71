"""Every recipe against every other, by class and seed, corrected for how many comparisons that is.

What two recipes share under a seed or a class drops out of their difference. How far it varies is modelled in
`verdicts`, which also decides what that allows to be told.

The correction is Bonferroni's, made in a single step, so that an interval and its verdict always say the same. The
chance of one or more false verdicts among all pairs (the family-wise error) stays below 1 - level. Holm's steps and the
max-t bootstrap would tell a few more pairs; but the one has no intervals that agree with its verdicts, and the other
gains 2 to 3 % of an interval's width for answers that change with the order of recipes.

An accuracy is "not lost" (`is_kept`) only where an interval shows it. That is claimed as in trials of non-inferiority
(Piaggio and others, 2012, J. Am. Med. Assoc. 308): if the whole interval lies above minus a margin that was stated
beforehand.

The smallest of several noisy means is smaller than it deserves (the winner's curse). `selection_optimism` estimates by
how much from the audit that chose; `reaudit` measures it with fresh seeds, which had no part in the choice.

Both audits of `reaudit` take the attack that works best against the recipe by the numbers that it is then judged by. As
in `leak_comparisons` no bound trusts that choice: one that needs the strongest attack of an audit to be weak holds for
each of them, and one that rests on the attack that looks strongest pays for having looked at all.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.verdicts import (
    INCONCLUSIVE,
    LEAST_SEEDS,
    Bonferroni,
    Dunnett,
    Errors,
    Verdict,
    contrast_errors,
    turned,
    verdict,
)

_ROUNDING = 1e-12  # a spread this small beside the values themselves is rounding, not randomness


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Recipe `first` minus recipe `second`.

    Attributes:
        low, high: Simultaneous interval of the difference; None for one seed.
        verdict: Which way the interval points, "higher" or "lower" (first against second), or "inconclusive".
    """

    first: str
    second: str
    difference: float
    low: float | None
    high: float | None
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class Comparisons:
    """Every pair of recipes, compared.

    Attributes:
        means: Mean of each recipe over seeds and classes.
        pairs: Every unordered pair once, in the order of the recipes.
    """

    means: dict[str, float]
    pairs: tuple[Pair, ...]

    def between(self, first: str, second: str) -> Pair:
        """The pair of these two recipes in whichever order it is held. Raises InputError for an unknown recipe."""
        for pair in self.pairs:
            if {pair.first, pair.second} == {first, second}:
                return pair
        raise InputError(f"comparisons: no pair of {first!r} and {second!r}; recipes: {', '.join(self.means)}")


def compare_recipes(
    values: Mapping[str, ArrayLike],
    *,
    level: float = 0.95,
    among: int = 1,
    span: float | None = None,
    reference: str | None = None,
) -> Comparisons:
    """All pairwise differences of recipes with simultaneous intervals and verdicts that agree with them.

    Args:
        values: Recipe -> [seeds, classes], e.g. hit rates; the same seeds and classes in the same order for every
            recipe; [seeds, 1] for a metric without classes. One seed: differences, and no more.
        level: Confidence level, in (0, 1).
        among: How many comparisons these are part of, where that is more than their own number.
        span: The most that two values can differ by, which no interval leaves; None where nothing bounds them.
        reference: The recipe that the others are compared with first of all; its pairs are a family of their own, with
            Dunnett's quantile for as many as they are, and with the guard of `crossed_effects`.

    Raises InputError for fewer than two recipes, shapes that differ, or values that are not finite.
    """
    names, cells = stacked(values)
    if len(names) < 2:
        raise InputError(f"comparisons: expected at least 2 recipes, got {len(names)}")
    first, second = np.triu_indices(len(names), 1)
    means = cells.mean(axis=(1, 2))
    gaps = means[first] - means[second]
    gaps = np.where(np.abs(gaps) <= _ROUNDING * np.abs(cells).max(), 0.0, gaps)
    halves = np.full(len(gaps), np.nan)
    seeds = cells.shape[1]
    if seeds >= LEAST_SEEDS:
        errors = difference_errors(cells, first, second)
        halves = errors.half_widths(gaps, 1 - level, Bonferroni(comparisons=max(len(gaps), among)))
        if reference in names:
            planned = (first == names.index(reference)) | (second == names.index(reference))
            others = max(len(names) - 1, among)
            family = Dunnett(comparisons=others, recipes=others + 1)
            halves = np.where(planned, errors.half_widths(gaps, 1 - level, family), halves)
    columns = zip(first, second, gaps, halves, strict=True)
    return Comparisons(
        means=dict(zip(names, means.tolist(), strict=True)),
        pairs=tuple(_pair(names[j], names[k], *numbers, seeds=seeds, span=span) for j, k, *numbers in columns),
    )


def stacked(values: Mapping[str, ArrayLike]) -> tuple[list[str], np.ndarray]:
    """Names and values [recipes, seeds, classes]. Raises InputError as `compare_recipes`."""
    matrices = {name: np.asarray(cells, dtype=np.float64) for name, cells in values.items()}
    for name, matrix in matrices.items():
        if matrix.ndim != 2 or not matrix.size:
            raise InputError(f"recipe {name}: expected values [seeds, classes], got shape {list(matrix.shape)}")
        if not np.isfinite(matrix).all():
            raise InputError(f"recipe {name}: expected finite values, got NaN or infinity")
    shapes = {matrix.shape for matrix in matrices.values()}
    if len(shapes) != 1:
        raise InputError(
            "recipes: expected the same seeds and classes for all, got "
            + (", ".join(str(list(shape)) for shape in sorted(shapes)) or "no recipe")
        )
    return list(matrices), np.stack(list(matrices.values()))


def joint_deviations(cells: np.ndarray, resamples: int, seed: int, *, students: bool = False) -> np.ndarray:
    """How far the means of recipes may lie from the truth, [resamples, recipes], for cells [recipes, seeds, classes].

    Every resample draws classes once, for all recipes (paired bootstrap), and adds for every recipe its own normal
    deviation with the pooled variance over seeds. What all recipes share under a seed is left out: only differences
    between columns mean something. A single class or a single seed adds nothing. students: gives either part the tails
    of Student's t, by a common factor per resample, since with few numbers the variance itself is uncertain.
    """
    recipes, seeds, classes = cells.shape
    generator = np.random.default_rng(seed)
    weights = generator.multinomial(classes, np.full(classes, 1 / classes), size=resamples) / classes
    by_class = cells.mean(axis=1)
    centred = by_class - by_class.mean(axis=1, keepdims=True)
    over_classes = weights @ centred.T * np.sqrt(classes / max(1, classes - 1))
    over_seeds = generator.normal(size=(resamples, recipes)) * np.sqrt(_pooled_seed_part(cells) / 2)
    if students:
        factors = np.random.default_rng((seed, 1))
        over_classes *= _student_factor(factors, classes - 1, resamples)
        over_seeds *= _student_factor(factors, (recipes - 1) * (seeds - 1), resamples)
    return over_classes + over_seeds


def _student_factor(generator: np.random.Generator, freedom: int, resamples: int) -> np.ndarray | float:
    return np.sqrt(freedom / generator.chisquare(freedom, size=(resamples, 1))) if freedom else 1.0


def difference_errors(
    cells: np.ndarray, first: Sequence[int] | np.ndarray, second: Sequence[int] | np.ndarray
) -> Errors:
    """What the differences of recipes first[i] and second[i] vary by, as `crossed_effects` models it.

    cells: [..., recipes, seeds, classes], at least two seeds.
    """
    weights = np.zeros((len(first), cells.shape[-3], 1))
    rows = np.arange(len(first))
    weights[rows, first] += 1
    weights[rows, second] -= 1
    return contrast_errors(cells[..., :, None, :, :], weights)


def _pooled_seed_part(cells: np.ndarray) -> np.ndarray:
    """Variance that the seeds give to the difference of two recipes, on average over all pairs, [...] for cells
    [..., recipes, seeds, classes]."""
    recipes, seeds = cells.shape[-3:-1]
    if seeds == 1 or recipes == 1:
        return np.zeros(cells.shape[:-3])
    by_seed = cells.mean(axis=-1)
    residual = by_seed - by_seed.mean(axis=-2, keepdims=True) - by_seed.mean(axis=-1, keepdims=True)
    residual += by_seed.mean(axis=(-2, -1), keepdims=True)
    return 2 * (residual**2).sum(axis=(-2, -1)) / ((recipes - 1) * (seeds - 1)) / seeds


def _pair(first: str, second: str, gap: float, half: float, *, seeds: int, span: float | None) -> Pair:
    """NaN in `half`: one seed, or too few numbers for an interval."""
    most = np.inf if span is None else span
    low, high = (None, None) if np.isnan(half) else (max(float(gap - half), -most), min(float(gap + half), most))
    return Pair(
        first=first,
        second=second,
        difference=float(gap),
        low=low,
        high=high,
        verdict=verdict(low, high, seeds=seeds),
    )


ACCURACY_MARGIN = 0.01
"""The loss of accuracy that counts as none where a sweep file states no other: one percentage point."""


def is_kept(low: float | None, high: float | None, margin: float = ACCURACY_MARGIN) -> bool:
    """Whether a difference (positive: better) with this interval is no loss of `margin` or more.

    low, high: None or NaN without an interval. One without width is no proof: values without any spread do not say how
    far they may lie from the truth. Raises ValueError for a margin that is not above 0.
    """
    if not margin > 0:
        raise ValueError(f"margin: expected a number above 0, got {margin}")
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return False
    return -margin < low < high


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """Which recipe leaks least among those that meet the constraint, and how sure that is.

    Attributes:
        best: The allowed recipe with the smallest mean leak (on a tie the first given); None if none is allowed.
        allowed: Recipes that meet the constraint, in the order given.
        runners_up: Allowed recipes that are not significantly worse than the best after correction, by rising leak;
            with the best they hold the truly best recipe in at least `level` of all audits.
        probability_best: Probability of each allowed recipe to be the best, sums to 1: a share of resamples around the
            observed means, so among truly equal recipes the one ahead gets more than its due; beside runners-up at most
            `level`, since resamples are not corrected for how many recipes there are; None for one seed.
    """

    best: str | None
    allowed: tuple[str, ...]
    runners_up: tuple[str, ...]
    probability_best: dict[str, float] | None


def recommend(
    leak: Mapping[str, ArrayLike],
    comparisons: Comparisons | None,
    *,
    accuracy: Mapping[str, float] | None = None,
    min_accuracy: float | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int,
) -> Recommendation:
    """The recipe of least leak among those with enough accuracy, with its uncertainty.

    Args:
        leak: Recipe -> [seeds, classes], smaller is better (negate distances), aligned as in `compare_recipes`.
        comparisons: Of all these recipes; their verdicts say which leaks are distinguishable. None for fewer than two.
        accuracy: Recipe -> mean test accuracy, used with `min_accuracy` only; equal to it is enough. The constraint is
            taken at the mean accuracy: the uncertainty of accuracy itself does not enter.

    Raises InputError for a constraint without the accuracy of every recipe, and as `compare_recipes`.
    """
    names, cells = stacked(leak)
    kept = [index for index, name in enumerate(names) if _accurate_enough(name, accuracy, min_accuracy)]
    if not kept:
        return Recommendation(best=None, allowed=(), runners_up=(), probability_best=None)
    allowed, cells = tuple(names[index] for index in kept), cells[kept]
    means = cells.mean(axis=(1, 2))
    best = int(means.argmin())
    tied: set[str] = set()
    if comparisons is not None:
        unclear = [{pair.first, pair.second} for pair in comparisons.pairs if pair.verdict == INCONCLUSIVE]
        tied = set().union(*(pair for pair in unclear if allowed[best] in pair)) - {allowed[best]}
        tied &= set(allowed)
    shares = _probability_best(allowed, cells, resamples, seed)
    return Recommendation(
        best=allowed[best],
        allowed=allowed,
        runners_up=tuple(allowed[i] for i in np.argsort(means, kind="stable") if allowed[i] in tied),
        probability_best=_at_most(level, shares, allowed[best], tied) if shares and tied else shares,
    )


def selection_optimism(leak: Mapping[str, ArrayLike], *, resamples: int = 2000, seed: int) -> float:
    """How much too small the smallest mean leak is expected to be because it is the smallest, at least 0, by bootstrap.

    leak: recipe -> [seeds, classes] of the recipes that were chosen among, as in `compare_recipes`. Every resample
    takes means and adds deviations, selects anew, and shows how far the selected one's deviation helped it; the
    optimism is the average. The means are first drawn together by the part of their spread that the deviations alone
    explain (as in empirical Bayes): observed means lie further apart than true ones, and a bootstrap around them
    finds too little: 0.26 of a true 0.37 in a simulation of six equal recipes, this way 0.33. Recipes that are truly
    far apart give about 0. It counts only what differs between recipes, not a class or a seed that was easy for all.
    One seed gives NaN. Raises InputError as `compare_recipes`.
    """
    _, cells = stacked(leak)
    if cells.shape[1] < LEAST_SEEDS:
        return float("nan")
    deviations = joint_deviations(cells, resamples, seed)
    deviations -= deviations.mean(axis=1, keepdims=True)
    chosen = (_drawn_together(cells.mean(axis=(1, 2)), deviations) + deviations).argmin(axis=1)
    return max(0.0, float(-deviations[np.arange(resamples), chosen].mean()))


def _accurate_enough(name: str, accuracy: Mapping[str, float] | None, min_accuracy: float | None) -> bool:
    if min_accuracy is None:
        return True
    if accuracy is None or name not in accuracy or not np.isfinite(accuracy[name]):
        raise InputError(f"recommendation: min_accuracy {min_accuracy} needs the test accuracy of recipe {name}")
    return accuracy[name] >= min_accuracy


def _drawn_together(means: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """Means [recipes] moved towards their average until they spread as the true ones are expected to."""
    recipes = len(means)
    observed = means.var(ddof=1) if recipes > 1 else 0.0
    if observed == 0:
        return means
    # Deviations are centred, which takes one of the recipes' degrees of freedom.
    explained = deviations.var(axis=0).sum() / (recipes - 1)
    return means.mean() + np.sqrt(max(0.0, 1 - explained / observed)) * (means - means.mean())


def _probability_best(names: tuple[str, ...], cells: np.ndarray, resamples: int, seed: int) -> dict[str, float] | None:
    """Share of resamples in which each recipe leaks least; equal ones share theirs."""
    if len(names) == 1:
        return {names[0]: 1.0}
    if cells.shape[1] < LEAST_SEEDS:
        return None
    means = cells.mean(axis=(1, 2)) + joint_deviations(cells, resamples, seed, students=True)
    is_best = means == means.min(axis=1, keepdims=True)
    shares = (is_best / is_best.sum(axis=1, keepdims=True)).mean(axis=0)
    return dict(zip(names, shares.tolist(), strict=True))


def _at_most(level: float, shares: Mapping[str, float], best: str, tied: Collection[str]) -> dict[str, float]:
    """The shares with the best one's cut to `level`; the recipes tied with it get what it loses, in equal parts."""
    spare = max(0.0, shares[best] - level)
    return {
        name: share - spare if name == best else share + spare / len(tied) if name in tied else share
        for name, share in shares.items()
    }


@dataclass(frozen=True, kw_only=True)
class Reaudit:
    """A selected recipe's leak under fresh seeds, beside the leak that it was selected by.

    Attributes:
        selected, fresh: Mean leak in the audit that chose and in the one with fresh seeds, each under its strongest
            attack.
        bias: `fresh` minus `selected`.
        low, high: Its interval, None for one seed on either side.
        verdict: "higher" or "lower" if the interval leaves 0 out ("higher": the first audit made the recipe look better
            than it is), else "inconclusive".
    """

    selected: float
    fresh: float
    bias: float
    low: float | None
    high: float | None
    verdict: Verdict

    @property
    def turned(self) -> Reaudit:
        """The comparison in a unit in which small values are leaks, such as a distance."""
        low, high = (None if end is None else -end for end in (self.high, self.low))
        return replace(
            self,
            selected=-self.selected,
            fresh=-self.fresh,
            bias=-self.bias,
            low=low,
            high=high,
            verdict=turned(self.verdict),
        )


def reaudit(
    selected: Mapping[str, ArrayLike], fresh: Mapping[str, ArrayLike], *, among: int = 1, level: float = 0.95
) -> Reaudit:
    """Compare a recipe in the audit that chose it and in one with fresh seeds, paired by class.

    Args:
        selected, fresh: Attack -> [seeds, classes], large is bad; the same attacks, and the same classes in the same
            order; the seeds are others, and may be more or fewer.
        among: Recipes whose intervals are to hold together.

    The interval of one attack is as in `verdicts.Errors`: from the variance over seeds, pooled over both audits since
    the recipe is the same, and that over the classes of their difference. Of several attacks the bias is at least what
    the attack that looks strongest with fresh seeds has beside every one of the first audit, and the other way round,
    under Bonferroni's correction for the attacks. No interval where either audit has one seed.

    Raises InputError for other attacks or classes, or values that are not finite.
    """
    before, after = _cells(selected, "selected"), _cells(fresh, "fresh")
    if list(selected) != list(fresh):
        raise InputError(f"re-audit: expected the same attacks, got {list(selected)} and {list(fresh)}")
    if before.shape[2] != after.shape[2]:
        raise InputError(f"re-audit: expected the same classes, got {before.shape[2]} and {after.shape[2]} of them")
    means = [cells.mean(axis=(1, 2)).max() for cells in (before, after)]
    seeds = min(before.shape[1], after.shape[1])
    low, high = _bounds(before, after, (1 - level) / among) if seeds >= LEAST_SEEDS else (None, None)
    return Reaudit(
        selected=float(means[0]),
        fresh=float(means[1]),
        bias=float(means[1] - means[0]),
        low=low,
        high=high,
        verdict=verdict(low, high, seeds=seeds),
    )


def _cells(values: Mapping[str, ArrayLike], name: str) -> np.ndarray:
    """[attacks, seeds, classes]."""
    return stacked({name if len(values) == 1 else f"{name}, {attack}": cells for attack, cells in values.items()})[1]


def _bounds(before: np.ndarray, after: np.ndarray, alpha: float) -> tuple[float | None, float | None]:
    attacks = len(before)
    gaps = after.mean(axis=(1, 2))[:, None] - before.mean(axis=(1, 2))
    halves = _errors(before, after).half_widths(gaps, alpha, Bonferroni(comparisons=attacks))
    halves = np.where(np.isnan(halves), np.inf, halves)
    low, high = (gaps - halves).min(axis=1).max(), (gaps + halves).max(axis=0).min()
    return (float(low), float(high)) if np.isfinite(low) and np.isfinite(high) else (None, None)


def _errors(before: np.ndarray, after: np.ndarray) -> Errors:
    """The errors of comparing every attack of the fresh audit with every attack of the first, [fresh, first]."""
    sides, classes = [before.mean(axis=2), after.mean(axis=2)], before.shape[2]
    freedom = sum(side.shape[1] - 1 for side in sides)
    squares = [((side - side.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) for side in sides]
    of_seed = (squares[0] + squares[1]) / freedom  # [attacks]
    parts = [(of_seed[:, None] / after.shape[1] + of_seed / before.shape[1], freedom)]
    if classes > 1:
        differences = after.mean(axis=1)[:, None] - before.mean(axis=1)[None]
        parts.append((differences.var(axis=2, ddof=1) / classes, classes - 1))
    return Errors(
        variances=np.stack([variance for variance, _ in parts]),
        freedoms=np.array([free for _, free in parts], float),
        flat=np.all([variance == 0 for variance, _ in parts], axis=0),
        numbers=min(before.shape[1], after.shape[1]) * classes,
    )
