"""The model behind every comparison of recipes: seeds and classes as crossed random effects.

A column is a recipe r under an attack a. The leak of a column under seed s for class c is modelled as

    x[r, a, s, c] = mean[r, a] + seed[r, a, s] + class[r, a, c] + residual[r, a, s, c]

where every effect is random with expectation 0 and effects of different kinds are independent. Effects of the same kind
may correlate between columns: recipes that share a seed share the order of their data, and columns of one recipe share
a training. A contrast is a weighted sum of columns, t[s, c] = sum w[r, a] x[r, a, s, c]. From its table over S seeds
and C classes follow three mean squares (Cornfield and Tukey, 1956, Ann. Math. Stat. 27, 907-949):

    MS_S = C  var over seeds of the means over classes
    MS_C = S  var over classes of the means over seeds
    MS_E = residual sum of squares / ((S - 1) (C - 1))
    Var(mean of t) = MS_S / (S C) + max(0, MS_C - MS_E) / (S C)

which counts the interaction of seeds and classes once. With two to five seeds, a contrast's own MS_S and MS_E are too
uncertain to rest on. So both come from products pooled over columns by kind: the same recipe and attack; the same
recipe, other attacks; other recipes, the same attack; other recipes and attacks. MS_C is the contrast's own. A guard
protects against a recipe whose trainings vary more than the others': MS_S is at least that of the two recipes of the
contrast alone, averaged over all attacks. The variance is never less than what seeds or classes alone say.

`Errors` (in `verdicts`) turns variances and degrees of freedom into intervals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from core.metrics.verdicts import Errors

_ROUNDING = 1e-12  # a spread this small beside the values themselves is rounding, not randomness


@dataclass(frozen=True, kw_only=True)
class MeanSquares:
    """Mean squares of contrasts, from which their variances follow.

    Attributes:
        seeds: MS_S pooled over all recipes, [..., contrasts].
        seeds_own: MS_S of the two recipes alone, averaged over all attacks.
        classes: MS_C of the contrast itself; None for a single class.
        residual: MS_E pooled over all recipes; None for a single class.
    """

    seeds: np.ndarray
    seeds_own: np.ndarray
    classes: np.ndarray | None
    residual: np.ndarray | None

    def variances(self, seeds: int, classes: int) -> np.ndarray:
        """Of the mean of a contrast over so many seeds and classes, [parts, ..., contrasts]: the part of the seeds
        under its guard, and that of the classes."""
        guarded = np.maximum(self.seeds, self.seeds_own)
        if self.classes is None or self.residual is None:
            return guarded[None] / seeds
        beyond = np.maximum(np.maximum(0.0, self.classes - self.residual), self.classes - guarded)
        return np.stack([guarded, beyond]) / (seeds * classes)


def freedoms_of(recipes: int, seeds: int, classes: int) -> np.ndarray:
    """Degrees of freedom of the part of the seeds and, with several classes, of the part of the classes, [parts]."""
    freedoms = [max(1, recipes - 1) * (seeds - 1), classes - 1]
    return np.array(freedoms if classes > 1 else freedoms[:1], dtype=np.float64)


def contrast_errors(cells: np.ndarray, weights: np.ndarray) -> Errors:
    """Estimate what contrasts of columns vary by.

    cells: [..., recipes, attacks, seeds, classes], at least two seeds. weights: [contrasts, recipes, attacks]; every
    contrast holds columns of one or two recipes, and its weights sum to 0.

    Raises ValueError for a contrast of more than two recipes.
    """
    recipes, _, seeds, classes = cells.shape[-4:]
    variances = mean_squares(cells, weights).variances(seeds, classes)
    flat = np.sqrt(variances.sum(axis=0)) <= _ROUNDING * float(np.abs(cells).max())
    return Errors(
        variances=variances, freedoms=freedoms_of(recipes, seeds, classes), flat=flat, numbers=seeds * classes
    )


def mean_squares(cells: np.ndarray, weights: np.ndarray) -> MeanSquares:
    """Estimate the mean squares of contrasts. cells, weights, `Raises`: as `contrast_errors`."""
    recipes, attacks, seeds, classes = cells.shape[-4:]
    first, second = _recipes_of(weights)
    by_seed = cells.mean(axis=-1)
    by_seed = by_seed - by_seed.mean(axis=-1, keepdims=True)
    scale = classes / (seeds - 1)
    own = _sums_by_pair(by_seed, first, second) / _pairs_of_columns(np.where(first == second, 1, 2), attacks)
    pooled = _sums(by_seed)[..., None, :] / _pairs_of_columns(recipes, attacks)
    found = MeanSquares(
        seeds=scale * _of_contrasts(weights, pooled), seeds_own=scale * _of_contrasts(weights, own),
        classes=None, residual=None,
    )  # fmt: skip
    if classes == 1:
        return found
    over_seeds = cells.mean(axis=-2)
    of_classes = seeds * np.einsum("nra,...rac->...nc", weights, over_seeds).var(axis=-1, ddof=1)
    residual = cells - cells.mean(axis=-1, keepdims=True) - over_seeds[..., None, :]
    residual = residual + cells.mean(axis=(-2, -1), keepdims=True)
    flattened = residual.reshape(*residual.shape[:-2], seeds * classes)
    products = _sums(flattened)[..., None, :] / ((seeds - 1) * (classes - 1)) / _pairs_of_columns(recipes, attacks)
    return replace(found, classes=of_classes, residual=_of_contrasts(weights, products))


def _recipes_of(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last recipe that each contrast holds, [contrasts] each."""
    held = (weights != 0).any(axis=-1)
    if (held.sum(axis=-1) > 2).any():
        raise ValueError("contrast: expected columns of one or two recipes")
    return held.argmax(axis=-1), held.shape[-1] - 1 - held[:, ::-1].argmax(axis=-1)


def _pairs_of_columns(recipes: np.ndarray | int, attacks: int) -> np.ndarray:
    """How many ordered pairs of columns there are of each kind, [..., 4]; at least 1, since sums over none are 0."""
    recipes = np.asarray(recipes)
    columns = recipes * attacks
    counts = [columns, columns * (attacks - 1), columns * (recipes - 1), columns * (recipes - 1) * (attacks - 1)]
    return np.maximum(1, np.stack(counts, axis=-1)).astype(np.float64)


def _sums(deviations: np.ndarray) -> np.ndarray:
    """Sums of products over all ordered pairs of columns of each kind, [..., 4], for deviations [..., recipes,
    attacks, n]."""
    same = (deviations**2).sum(axis=(-3, -2, -1))
    of_recipe = (deviations.sum(axis=-2) ** 2).sum(axis=(-2, -1)) - same
    of_attack = (deviations.sum(axis=-3) ** 2).sum(axis=(-2, -1)) - same
    rest = (deviations.sum(axis=(-3, -2)) ** 2).sum(axis=-1) - same - of_recipe - of_attack
    return np.stack([same, of_recipe, of_attack, rest], axis=-1)


def _sums_by_pair(deviations: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """`_sums` over the columns of recipes first[i] and second[i] alone, [..., contrasts, 4]; of the one recipe where
    the two are the same."""
    total = deviations.sum(axis=-2)
    squares = (deviations**2).sum(axis=(-2, -1))
    totals = np.einsum("...rs,...qs->...rq", total, total)
    shared = np.einsum("...ras,...qas->...rq", deviations, deviations)
    whole = np.diagonal(totals, axis1=-2, axis2=-1)
    other = (first != second).astype(np.float64)
    same = squares[..., first] + other * squares[..., second]
    of_recipe = whole[..., first] + other * whole[..., second] - same
    of_attack = other * 2 * shared[..., first, second]
    rest = other * 2 * totals[..., first, second] - of_attack
    return np.stack([same, of_recipe, of_attack, rest], axis=-1)


def _of_contrasts(weights: np.ndarray, products: np.ndarray) -> np.ndarray:
    """Variances of contrasts [..., contrasts] from mean products of columns by kind, [..., contrasts or 1, 4]."""
    same = (weights**2).sum(axis=(-2, -1))
    of_recipe = (weights.sum(axis=-1) ** 2).sum(axis=-1) - same
    of_attack = (weights.sum(axis=-2) ** 2).sum(axis=-1) - same
    rest = weights.sum(axis=(-2, -1)) ** 2 - same - of_recipe - of_attack
    return np.maximum(0.0, (np.stack([same, of_recipe, of_attack, rest], axis=-1) * products).sum(axis=-1))
