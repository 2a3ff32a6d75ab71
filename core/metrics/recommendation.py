"""Which recipe to take: the least leak among those accurate enough, how sure that is, and what choosing cost.

The smallest of several noisy means is smaller than it deserves (the winner's curse). `selection_optimism` estimates
by how much from the audit that chose; `core.metrics.second_audit` measures it with fresh seeds, which had no part in
the choice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.comparisons import Comparisons, check_options, compare_recipes, joint_deviations, stacked
from smoothsweep.core.metrics.verdicts import INCONCLUSIVE, LEAST_SEEDS


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
        comparisons: Comparisons among the allowed and those beside them, None for fewer than two.
    """

    best: str | None
    allowed: tuple[str, ...]
    runners_up: tuple[str, ...]
    probability_best: dict[str, float] | None
    comparisons: Comparisons | None


@dataclass(frozen=True, kw_only=True)
class Optimism:
    """How much too small the leak of a selected recipe looks because it was selected.

    Attributes:
        selected: The recipe of the smallest mean.
        apparent: The mean leak of that recipe.
        optimism: How much too small `apparent` is expected to be because the recipe was selected, at least 0.
        corrected: `apparent` plus `optimism`.
    """

    selected: str
    apparent: float
    optimism: float
    corrected: float


def recommend(
    leak: Mapping[str, ArrayLike],
    *,
    accuracy: Mapping[str, float] | None = None,
    min_accuracy: float | None = None,
    beside: Collection[str] = (),
    reference: str | None = None,
    comparisons: Comparisons | None = None,
    span: float | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int,
) -> Recommendation:
    """The recipe of least leak among those with enough accuracy, with its uncertainty.

    Args:
        leak: Recipe -> [seeds, classes], smaller is better (negate distances), aligned as in `compare_recipes`.
        accuracy: Recipe -> mean test accuracy, used with `min_accuracy` only; equal to it is enough. The constraint is
            taken at the mean accuracy: the uncertainty of accuracy itself does not enter.
        beside: Recipes that are compared with the others though they may not be allowed, e.g. the baseline; the
            correction counts them.
        reference: As in `compare_recipes`.
        comparisons: Comparisons of all these recipes, where known already, as of leaks under the strongest attack; None
            to make them here.
        span: As in `compare_recipes`.

    Raises InputError for a constraint without the accuracy of every recipe, and as `compare_recipes`.
    """
    names, cells = stacked(leak)
    check_options(level, resamples)
    kept = [index for index, name in enumerate(names) if _accurate_enough(name, accuracy, min_accuracy)]
    met = [index for index, name in enumerate(names) if index in kept or name in beside]
    compared = {names[i]: cells[i] for i in met}
    of_compared = comparisons
    if of_compared is None and len(met) > 1:
        of_compared = compare_recipes(compared, level=level, reference=reference, span=span)
    if not kept:
        return Recommendation(best=None, allowed=(), runners_up=(), probability_best=None, comparisons=of_compared)
    allowed, cells = tuple(names[index] for index in kept), cells[kept]
    means = cells.mean(axis=(1, 2))
    best = int(means.argmin())
    tied: set[str] = set()
    if of_compared is not None:
        unclear = [{pair.first, pair.second} for pair in of_compared.pairs if pair.verdict == INCONCLUSIVE]
        tied = set().union(*(pair for pair in unclear if allowed[best] in pair)) - {allowed[best]}
        tied &= set(allowed)
    shares = _probability_best(allowed, cells, resamples, seed)
    return Recommendation(
        best=allowed[best],
        allowed=allowed,
        runners_up=tuple(allowed[i] for i in np.argsort(means, kind="stable") if allowed[i] in tied),
        probability_best=_at_most(level, shares, allowed[best], tied) if shares and tied else shares,
        comparisons=of_compared,
    )


def selection_optimism(leak: Mapping[str, ArrayLike], *, resamples: int = 2000, seed: int) -> Optimism:
    """Estimate by bootstrap how much too small the smallest mean leak is because it is the smallest.

    leak: recipe -> [seeds, classes] of the recipes that were chosen among, as in `compare_recipes`. Every resample
    takes means and adds deviations, selects anew, and shows how far the selected one's deviation helped it; the
    optimism is the average. The means are first drawn together by the part of their spread that the deviations alone
    explain (as in empirical Bayes): observed means lie further apart than true ones, and a bootstrap around them
    finds too little: 0.26 of a true 0.37 in a simulation of six equal recipes, this way 0.33. Recipes that are truly
    far apart give about 0. It counts only what differs between recipes, not a class or a seed that was easy for all.
    One seed gives NaN. Raises InputError as `compare_recipes`.
    """
    names, cells = stacked(leak)
    check_options(0.5, resamples)
    means = cells.mean(axis=(1, 2))
    best = int(means.argmin())
    optimism = float("nan")
    if cells.shape[1] >= LEAST_SEEDS:
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
