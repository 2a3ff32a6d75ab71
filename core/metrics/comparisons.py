"""Every recipe against every other, by class and seed, corrected for how many comparisons that is.

As in `intervals`, a difference varies with the seeds and with the classes, what two recipes share under a seed or a
class drops out, and its interval has the width of Student's t with Satterthwaite's degrees of freedom. The few seeds
one can afford are enough for one comparison at 95 %, not for the far tails that many comparisons need: with each
pair's own variance, five recipes under three seeds got a false claim in up to 23 % of simulations at nominal 5 %, now
2 to 5 %. For that, the variance over seeds is pooled over all recipes, and a pair keeps its own where that is
larger. The price: recipes that vary less over seeds than the others do are told apart less readily, and where one
recipe of six varies four times as much as the others, false claims still reach 8 to 10 %.

Two corrections come out side by side:

* p-values after Holm (1979): the chance of one or more false claims among all pairs (the family-wise error) stays
  below the level, whatever the dependence between the pairs. Verdicts follow these.
* intervals that hold for all pairs at once, by the max-t bootstrap (Westfall and Young, 1993; Romano and Wolf, 2005)
  over classes, with normal draws for the seeds, of which there are too few to resample; never wider than Bonferroni's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from core.errors import InputError

_ROUNDING = 1e-12  # a spread this small beside the values themselves is rounding, not randomness


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Recipe `first` minus recipe `second`.

    low, high: simultaneous interval of the difference; None where the data cannot tell (one seed and one class).
    p: of this comparison alone; p_corrected: after Holm over all pairs; both None with the interval. verdict:
    "higher" or "lower" (first against second) if p_corrected is at most 1 - level, else "cannot tell".
    """

    first: str
    second: str
    difference: float
    low: float | None
    high: float | None
    p: float | None
    p_corrected: float | None
    verdict: str


@dataclass(frozen=True, kw_only=True)
class Comparisons:
    """means: by recipe, over seeds and classes. pairs: every unordered pair once, in the order of the recipes.
    pair_level: the level that each single interval has so that all hold together at `level`. resampled: as in
    `intervals.Interval`.
    """

    means: dict[str, float]
    pairs: tuple[Pair, ...]
    level: float
    pair_level: float
    n_seeds: int
    n_classes: int
    resampled: str

    def between(self, first: str, second: str) -> Pair:
        """The pair of these two recipes in whichever order it is held. Raises InputError for an unknown recipe."""
        for pair in self.pairs:
            if {pair.first, pair.second} == {first, second}:
                return pair
        raise InputError(f"comparisons: no pair of {first!r} and {second!r}; recipes: {', '.join(self.means)}")


def compare_recipes(
    values: Mapping[str, ArrayLike], *, level: float = 0.95, resamples: int = 2000, seed: int
) -> Comparisons:
    """All pairwise differences of recipes with simultaneous intervals and p-values after Holm.

    values: recipe -> [seeds, classes], e.g. hit rates; the same seeds and classes in the same order for every recipe
    (see `on_common_seeds`); [seeds, 1] for a metric without classes. One seed: the randomness of training and attack
    is left out, and `resampled` says so. Differences without any spread have intervals of width 0 and p 0 (or 1, if
    they are 0). level: in (0, 1). seed: of the bootstrap. Raises InputError for fewer than two recipes, shapes that
    differ, values that are not finite, or impossible options.
    """
    names, cells = stacked(values)
    if len(names) < 2:
        raise InputError(f"comparisons: expected at least 2 recipes, got {len(names)}")
    check_options(level, resamples)
    first, second = np.triu_indices(len(names), 1)
    means = cells.mean(axis=(1, 2))
    gaps = means[first] - means[second]
    halves = p_values = corrected = np.full(len(gaps), np.nan)
    alpha = (1 - level) / len(gaps)
    if cells.shape[1] * cells.shape[2] > 1:
        errors, freedoms = difference_errors(cells, first, second)
        gaps = np.where(np.abs(gaps) <= _ROUNDING * _scale(cells), 0.0, gaps)
        p_values = _p_values(gaps, errors, freedoms)
        corrected = holm(p_values)
        alpha = _pair_alpha(cells, first, second, 1 - level, resamples, seed)
        halves = stats.t.isf(alpha / 2, freedoms) * errors
    columns = zip(first, second, gaps, halves, p_values, corrected, strict=True)
    pairs = tuple(_pair(names[j], names[k], *numbers, level=level) for j, k, *numbers in columns)
    return Comparisons(
        means=dict(zip(names, means.tolist(), strict=True)),
        pairs=pairs,
        level=level,
        pair_level=1 - alpha,
        n_seeds=cells.shape[1],
        n_classes=cells.shape[2],
        resampled=_what_varies(cells.shape[1], cells.shape[2]),
    )


def holm(p_values: ArrayLike) -> np.ndarray:
    """p-values [m] corrected by Holm's step-down procedure, [m] in [0, 1], in the order given.

    Rejecting where the result is at most a keeps the family-wise error at most a under any dependence. Raises
    InputError for values outside [0, 1].
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise InputError("p-values: expected a list of numbers between 0 and 1")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate((len(p) - np.arange(len(p))) * p[order])
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(1.0, stepped)
    return corrected


def on_common_seeds(values: Mapping[str, Mapping[int, ArrayLike]]) -> tuple[tuple[int, ...], dict[str, np.ndarray]]:
    """The seeds that every recipe has, ascending, and recipe -> [seeds, classes] of those.

    values: recipe -> seed -> [classes]. Raises InputError if the recipes share no seed.
    """
    shared = sorted(set.intersection(*(set(by_seed) for by_seed in values.values()))) if values else []
    if not shared:
        raise InputError("comparisons: the recipes have no seed in common")
    return tuple(shared), {name: np.stack([by_seed[s] for s in shared]) for name, by_seed in values.items()}


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


def check_options(level: float, resamples: int) -> None:
    """Raises InputError for a level outside (0, 1) or fewer than 1 resample."""
    if not 0 < level < 1:
        raise InputError(f"level: expected a number between 0 and 1, got {level}")
    if resamples < 1:
        raise InputError(f"resamples: expected at least 1, got {resamples}")


def joint_deviations(cells: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """How far the means of recipes may lie from the truth, [resamples, recipes], for cells [recipes, seeds, classes].

    Every resample draws classes once, for all recipes (paired bootstrap), and adds for every recipe its own normal
    deviation with the pooled variance over seeds. What all recipes share under a seed is left out: only differences
    between columns mean something. A single class or a single seed adds nothing.
    """
    recipes, _, classes = cells.shape
    generator = np.random.default_rng(seed)
    weights = generator.multinomial(classes, np.full(classes, 1 / classes), size=resamples) / classes
    by_class = cells.mean(axis=1)
    centred = by_class - by_class.mean(axis=1, keepdims=True)
    deviations = weights @ centred.T * np.sqrt(classes / max(1, classes - 1))
    noise = generator.normal(size=(resamples, recipes))
    return deviations + noise * np.sqrt(_pooled_seed_part(cells) / 2)


def difference_errors(
    cells: np.ndarray, first: Sequence[int] | np.ndarray, second: Sequence[int] | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Standard error and degrees of freedom, [pairs] each, of the differences of recipes first[i] and second[i].

    cells: [recipes, seeds, classes], more than one seed or class. The variance is that of the seed means over S plus
    that of the class means over C, which counts the interaction twice, on the safe side; the degrees of freedom are
    Satterthwaite's, as in `intervals`. The part of the seeds is the pair's own or the pooled one, whichever is larger,
    with the degrees of freedom of the pooled one. A spread at the size of rounding is 0, with 1 degree of freedom.
    """
    first, second = np.asarray(first), np.asarray(second)
    recipes, seeds, classes = cells.shape
    variance, weighted = np.zeros(len(first)), np.zeros(len(first))
    for axis, count, freedom, least in (
        (2, seeds, (recipes - 1) * (seeds - 1), _pooled_seed_part(cells)),
        (1, classes, classes - 1, 0.0),
    ):
        if count > 1:
            means = cells.mean(axis=axis)
            part = np.maximum(least, (means[first] - means[second]).var(axis=1, ddof=1) / count)
            variance += part
            weighted += part**2 / freedom
    flat = np.sqrt(variance) <= _ROUNDING * _scale(cells)
    freedoms = np.divide(variance**2, weighted, out=np.ones_like(variance), where=~flat & (weighted > 0))
    return np.where(flat, 0.0, np.sqrt(variance)), freedoms


def _pooled_seed_part(cells: np.ndarray) -> float:
    """Variance that the seeds give to the difference of two recipes, on average over all pairs."""
    recipes, seeds, _ = cells.shape
    if seeds == 1 or recipes == 1:
        return 0.0
    by_seed = cells.mean(axis=2)
    residual = by_seed - by_seed.mean(axis=0) - by_seed.mean(axis=1, keepdims=True) + by_seed.mean()
    return float(2 * (residual**2).sum() / ((recipes - 1) * (seeds - 1)) / seeds)


def _p_values(gaps: np.ndarray, errors: np.ndarray, freedoms: np.ndarray) -> np.ndarray:
    """Two-sided p-values; without any spread 1 for a difference of 0, else 0."""
    t = np.divide(np.abs(gaps), errors, out=np.where(gaps == 0, 0.0, np.inf), where=errors > 0)
    return np.minimum(1.0, 2 * stats.t.sf(t, freedoms))


def _pair_alpha(
    cells: np.ndarray, first: np.ndarray, second: np.ndarray, alpha: float, resamples: int, seed: int
) -> float:
    """The error that each interval may have so that all hold together with 1 - alpha.

    The largest standardised deviation over the pairs, at its 1 - alpha quantile over resamples, read as a normal
    quantile. Bounded by Bonferroni's correction below and no correction above.
    """
    deviations = joint_deviations(cells, resamples, seed)
    worst = np.zeros(resamples)
    for j in np.unique(first):  # one recipe at a time: all pairs at once need resamples x recipes squared
        gaps = deviations[:, [j]] - deviations[:, second[first == j]]
        spread = gaps.std(axis=0)
        varying = spread > _ROUNDING * _scale(cells)
        if varying.any():
            worst = np.maximum(worst, np.abs(gaps[:, varying] / spread[varying]).max(axis=1))
    found = 2 * stats.norm.sf(np.quantile(worst, 1 - alpha))
    return float(np.clip(found, alpha / len(first), alpha))


def _pair(first: str, second: str, gap: float, half: float, p: float, p_corrected: float, *, level: float) -> Pair:
    """NaN in `half` and the p-values: the data cannot tell."""
    known = not np.isnan(half)
    told = known and p_corrected <= 1 - level
    return Pair(
        first=first,
        second=second,
        difference=float(gap),
        low=float(gap - half) if known else None,
        high=float(gap + half) if known else None,
        p=float(p) if known else None,
        p_corrected=float(p_corrected) if known else None,
        verdict=("higher" if gap > 0 else "lower") if told else "cannot tell",
    )


def _scale(cells: np.ndarray) -> float:
    return float(np.abs(cells).max())


def _what_varies(seeds: int, classes: int) -> str:
    names = [name for name, count in (("seeds", seeds), ("classes", classes)) if count > 1]
    return "+".join(names) or "nothing"
