"""Which recipe to take: the least leak among those accurate enough, how sure that is, and what choosing cost.

The smallest of several noisy means is smaller than it deserves (the winner's curse). `selection_optimism` estimates
by how much from the audit that chose; `reaudit` measures it with fresh seeds, which had no part in the choice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from core.errors import InputError
from core.metrics.comparisons import (
    Comparisons,
    check_options,
    compare_recipes,
    difference_errors,
    joint_deviations,
    stacked,
)


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """best: the allowed recipe with the smallest mean leak (on a tie the first given); None if none is allowed.
    allowed: recipes that meet the constraint, in the order given. runners_up: allowed recipes that are not
    significantly worse than the best after correction, by rising leak; with the best they hold the truly best recipe
    in at least `level` of all audits. probability_best: by allowed recipe, sums to 1: a share of resamples around the
    observed means, so among truly equal recipes the one ahead gets more than its due; None where the data cannot tell
    (one seed and one class). comparisons: among the allowed and those beside them, None for fewer than two.
    """

    best: str | None
    allowed: tuple[str, ...]
    runners_up: tuple[str, ...]
    probability_best: dict[str, float] | None
    comparisons: Comparisons | None


@dataclass(frozen=True, kw_only=True)
class Optimism:
    """selected: the recipe of the smallest mean. apparent: that mean. optimism: by how much it is expected to be too
    small because it was selected, at least 0. corrected: apparent + optimism.
    """

    selected: str
    apparent: float
    optimism: float
    corrected: float


@dataclass(frozen=True, kw_only=True)
class Reaudit:
    """selected, fresh: mean leak in the audit that chose and in the one with fresh seeds. bias: fresh minus selected;
    low, high: its interval, None where the data cannot tell. verdict: "higher" or "lower" if the interval leaves 0
    out ("higher": the first audit made the recipe look better than it is), else "cannot tell".
    """

    selected: float
    fresh: float
    bias: float
    low: float | None
    high: float | None
    level: float
    verdict: str


def recommend(
    leak: Mapping[str, ArrayLike],
    *,
    accuracy: Mapping[str, float] | None = None,
    min_accuracy: float | None = None,
    beside: Collection[str] = (),
    level: float = 0.95,
    resamples: int = 2000,
    seed: int,
) -> Recommendation:
    """The recipe of least leak among those with enough accuracy, with its uncertainty.

    leak: recipe -> [seeds, classes], smaller is better (negate distances), aligned as in `compare_recipes`.
    accuracy: recipe -> mean test accuracy, used with `min_accuracy` only; equal to it is enough. The constraint is
    taken at the mean accuracy: the uncertainty of accuracy itself does not enter. beside: recipes that are compared
    with the others though they may not be allowed, e.g. the baseline; the correction counts them. Raises InputError
    for a constraint without the accuracy of every recipe, and as `compare_recipes`.
    """
    names, cells = stacked(leak)
    check_options(level, resamples)
    kept = [index for index, name in enumerate(names) if _accurate_enough(name, accuracy, min_accuracy)]
    met = [index for index, name in enumerate(names) if index in kept or name in beside]
    if not kept:
        return Recommendation(best=None, allowed=(), runners_up=(), probability_best=None, comparisons=None)
    found = None
    if len(met) > 1:
        found = compare_recipes({names[i]: cells[i] for i in met}, level=level, resamples=resamples, seed=seed)
    allowed, cells = tuple(names[index] for index in kept), cells[kept]
    means = cells.mean(axis=(1, 2))
    best = int(means.argmin())
    tied: set[str] = set()
    if found is not None:
        unclear = [{pair.first, pair.second} for pair in found.pairs if pair.verdict == "cannot tell"]
        tied = set().union(*(pair for pair in unclear if allowed[best] in pair)) - {allowed[best]}
        tied &= set(allowed)
    return Recommendation(
        best=allowed[best],
        allowed=allowed,
        runners_up=tuple(allowed[i] for i in np.argsort(means, kind="stable") if allowed[i] in tied),
        probability_best=_probability_best(allowed, cells, resamples, seed),
        comparisons=found,
    )


def selection_optimism(leak: Mapping[str, ArrayLike], *, resamples: int = 2000, seed: int) -> Optimism:
    """By how much the smallest mean leak is too small because it is the smallest: a bootstrap estimate.

    leak: recipe -> [seeds, classes] of the recipes that were chosen among, as in `compare_recipes`. Every resample
    takes means and adds deviations, selects anew, and shows how far the selected one's deviation helped it; the
    optimism is the average. The means are first drawn together by the part of their spread that the deviations alone
    explain (as in empirical Bayes): observed means lie further apart than true ones, and a bootstrap around them
    finds too little: 0.26 of a true 0.37 in a simulation of six equal recipes, this way 0.33. Recipes that are truly
    far apart give about 0. It counts only what differs between recipes, not a class or a seed that was easy for all.
    One seed and one class give NaN: the data cannot tell. Raises InputError as `compare_recipes`.
    """
    names, cells = stacked(leak)
    check_options(0.5, resamples)
    means = cells.mean(axis=(1, 2))
    best = int(means.argmin())
    optimism = float("nan")
    if cells.shape[1] * cells.shape[2] > 1:
        deviations = joint_deviations(cells, resamples, seed)
        deviations -= deviations.mean(axis=1, keepdims=True)
        chosen = (_drawn_together(means, deviations) + deviations).argmin(axis=1)
        optimism = max(0.0, float(-deviations[np.arange(resamples), chosen].mean()))
    return Optimism(
        selected=names[best],
        apparent=float(means[best]),
        optimism=optimism,
        corrected=float(means[best]) + optimism,
    )


def reaudit(selected: ArrayLike, fresh: ArrayLike, *, level: float = 0.95) -> Reaudit:
    """The same recipe in the audit that chose it and in one with fresh seeds, paired by class.

    selected, fresh: [seeds, classes] on the same classes in the same order; the seeds are others, and may be more or
    fewer. For the bias of a whole frontier give the average over its recipes. The interval is Student's t: variances
    over the seeds of either audit (Welch) and over the classes of their difference, Satterthwaite's degrees of
    freedom. An audit of a single seed adds nothing to the former. If the fresh audit also uses another attack, the
    difference holds both. Raises InputError for other classes, values that are not finite, or an impossible level.
    """
    (before,), (after,) = stacked({"selected": selected})[1], stacked({"fresh": fresh})[1]
    if before.shape[1] != after.shape[1]:
        raise InputError(f"re-audit: expected the same classes, got {before.shape[1]} and {after.shape[1]} of them")
    check_options(level, 1)
    classes = before.shape[1]
    samples = [(cells.mean(axis=1), len(cells)) for cells in (before, after)]
    samples.append((after.mean(axis=0) - before.mean(axis=0), classes))
    parts = [(sample.var(ddof=1) / count, count - 1) for sample, count in samples if count > 1]
    variance = float(sum(part for part, _ in parts))
    bias = float(after.mean() - before.mean())
    low = high = None
    if parts:
        weighted = sum(part**2 / freedom for part, freedom in parts)
        freedom = variance**2 / weighted if weighted > 0 else 1.0
        half = float(stats.t.isf((1 - level) / 2, freedom) * np.sqrt(variance))
        low, high = bias - half, bias + half
    verdict = "cannot tell"
    if low is not None and high is not None and not low <= 0 <= high:
        verdict = "higher" if low > 0 else "lower"
    return Reaudit(
        selected=float(before.mean()),
        fresh=float(after.mean()),
        bias=bias,
        low=low,
        high=high,
        level=level,
        verdict=verdict,
    )


def _accurate_enough(name: str, accuracy: Mapping[str, float] | None, least: float | None) -> bool:
    if least is None:
        return True
    if accuracy is None or name not in accuracy or not np.isfinite(accuracy[name]):
        raise InputError(f"recommendation: min_accuracy {least} needs the test accuracy of recipe {name}")
    return accuracy[name] >= least


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
    """Share of resamples in which each recipe leaks least; equal ones share theirs.

    A common factor per resample gives the deviations the tails of Student's t, with the median degrees of freedom of
    the differences: with few seeds the variance itself is uncertain.
    """
    if len(names) == 1:
        return {names[0]: 1.0}
    if cells.shape[1] * cells.shape[2] == 1:
        return None
    _, freedoms = difference_errors(cells, *np.triu_indices(len(names), 1))
    freedom = float(np.median(freedoms))
    factor = np.sqrt(freedom / np.random.default_rng((seed, 1)).chisquare(freedom, size=(resamples, 1)))
    means = cells.mean(axis=(1, 2)) + factor * joint_deviations(cells, resamples, seed)
    least = means == means.min(axis=1, keepdims=True)
    shares = (least / least.sum(axis=1, keepdims=True)).mean(axis=0)
    return dict(zip(names, shares.tolist(), strict=True))
