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

Those two recipes alone have fewer degrees of freedom than all, and where one of them varies more, it alone has a say.
So comparisons with a baseline have a second guard, an interval by itself. Let v_1 and v_2 be what the products of
columns within either recipe say of the contrast's MS_S, half of it each, averaged over all attacks:

    guard's MS_S = MS_S of the two recipes + |v_1 - v_2|    (the larger of v_1 and v_2, for both)
    its freedoms = (S - 1) A / (1 + (A - 1) rho^2)          (Satterthwaite's, of A equally correlated mean squares)

with rho the correlation of two attacks over the trainings of a recipe, from products pooled over all recipes. Its
quantile is for as many statements as there are recipes, the baseline too: leaks are bounded, so means over few
trainings are skewed, and with as many as there are comparisons, errors of one side exceed their half.

`Errors` (in `verdicts`) turns variances and degrees of freedom into intervals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from smoothsweep.core.metrics.verdicts import Errors

_ROUNDING = 1e-12  # a spread this small beside the values themselves is rounding, not randomness


@dataclass(frozen=True, kw_only=True)
class MeanSquares:
    """Mean squares of contrasts, from which their variances follow.

    Attributes:
        seeds: MS_S pooled over all recipes, [..., contrasts].
        seeds_own: MS_S of the two recipes alone, averaged over all attacks.
        seeds_alone: MS_S of the second guard, the larger of the two recipes' own for both.
        classes: MS_C of the contrast itself; None for a single class.
        residual: MS_E pooled over all recipes; None for a single class.
    """

    seeds: np.ndarray
    seeds_own: np.ndarray
    seeds_alone: np.ndarray
    classes: np.ndarray | None
    residual: np.ndarray | None

    def variances(self, seeds: int, classes: int) -> np.ndarray:
        """Variances of a contrast's mean over so many seeds and classes, [parts, ..., contrasts]: the part of the seeds
        under its guard, and that of the classes."""
        return self._parts(np.maximum(self.seeds, self.seeds_own), seeds, classes)

    def guard_variances(self, seeds: int, classes: int) -> np.ndarray:
        """These variances from the two recipes alone, as the second guard has them."""
        return self._parts(self.seeds_alone, seeds, classes)

    def _parts(self, of_seeds: np.ndarray, seeds: int, classes: int) -> np.ndarray:
        if self.classes is None or self.residual is None:
            return of_seeds[None] / seeds
        beyond = np.maximum(np.maximum(0.0, self.classes - self.residual), self.classes - of_seeds)
        return np.stack([of_seeds, beyond]) / (seeds * classes)


def freedoms_of(recipes: int, seeds: int, classes: int) -> np.ndarray:
    """Degrees of freedom of the part of the seeds and, with several classes, of the part of the classes, [parts]."""
    freedoms = [max(1, recipes - 1) * (seeds - 1), classes - 1]
    return np.array(freedoms if classes > 1 else freedoms[:1], dtype=np.float64)


def contrast_errors(cells: np.ndarray, weights: np.ndarray) -> Errors:
    """Estimate what contrasts of columns vary by.

    cells: [..., recipes, attacks, seeds, classes], at least two seeds. weights: [..., contrasts, recipes, attacks], or
    the same for all cells; every contrast holds columns of one or two recipes, and its weights sum to 0.

    Raises ValueError for a contrast of more than two recipes.
    """
    return CrossedEffects(cells=cells).errors(weights)


def mean_squares(cells: np.ndarray, weights: np.ndarray) -> MeanSquares:
    """Estimate the mean squares of contrasts. cells, weights, `Raises`: as of `contrast_errors`."""
    return CrossedEffects(cells=cells).mean_squares(weights)


@dataclass(frozen=True, kw_only=True)
class CrossedEffects:
    """Cells [..., recipes, attacks, seeds, classes] and the mean squares that all contrasts of them share, which are
    computed once."""

    cells: np.ndarray

    def errors(self, weights: np.ndarray) -> Errors:
        """As `contrast_errors`."""
        recipes, _, seeds, classes = self.cells.shape[-4:]
        squares = self.mean_squares(weights)
        guard = self._errors(squares.guard_variances(seeds, classes), self._freedoms_alone)
        return replace(
            self._errors(squares.variances(seeds, classes), freedoms_of(recipes, seeds, classes)), guard=guard
        )

    def _errors(self, variances: np.ndarray, freedoms: np.ndarray) -> Errors:
        seeds, classes = self.cells.shape[-2:]
        scale = np.abs(self.cells).max(axis=(-4, -3, -2, -1))[..., None]
        flat = np.sqrt(variances.sum(axis=0)) <= _ROUNDING * scale
        return Errors(variances=variances, freedoms=freedoms, flat=flat, numbers=seeds * classes)

    def mean_squares(self, weights: np.ndarray) -> MeanSquares:
        """Estimate the mean squares of contrasts. weights, `Raises`: as of `contrast_errors`."""
        recipes, attacks, seeds, classes = self.cells.shape[-4:]
        first, second = _recipes_of(weights)
        outer = np.broadcast_shapes(self._seeds_by_pair.shape[:-2], weights.shape[:-3])
        both = np.broadcast_to(first * recipes + second, (*outer, weights.shape[-3]))
        own = np.take_along_axis(self._seeds_by_pair, both[..., None], axis=-2)
        own = own / _pairs_of_columns(np.where(first == second, 1, 2), attacks)
        pair = _of_contrasts(weights, own)
        of_first, other = (self._seeds_within(weights, recipe) for recipe in (first, second))
        squares = MeanSquares(
            seeds=classes * _of_contrasts(weights, self._seeds_pooled),
            seeds_own=classes * pair,
            seeds_alone=classes * (pair + np.abs(of_first - other)),
            classes=None,
            residual=None,
        )
        if classes == 1:
            return squares
        columns = self._over_seeds.reshape(*self._over_seeds.shape[:-3], recipes * attacks, classes)
        tables = weights.reshape(*weights.shape[:-2], recipes * attacks) @ columns
        residual = _of_contrasts(weights, self._residual_pooled)
        return replace(squares, classes=seeds * tables.var(axis=-1, ddof=1), residual=residual)

    def _seeds_within(self, weights: np.ndarray, recipe: np.ndarray) -> np.ndarray:
        """Half of what the products of columns within recipes give to a contrast's mean square over seeds, if both of
        its recipes were as `recipe` [..., contrasts] is."""
        same = (weights**2).sum(axis=(-2, -1))
        of_recipe = (weights.sum(axis=-1) ** 2).sum(axis=-1) - same
        outer = np.broadcast_shapes(self._seeds_by_recipe[0].shape[:-1], recipe.shape[:-1])
        at = np.broadcast_to(recipe, (*outer, recipe.shape[-1]))
        square, products = (np.take_along_axis(each, at, axis=-1) for each in self._seeds_by_recipe)
        return (same * square + of_recipe * products) / 2

    @cached_property
    def _seeds_by_recipe(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean squares of the seeds of each recipe, averaged over attacks, and mean products of two attacks,
        [..., recipes] each."""
        attacks, seeds = self.cells.shape[-3:-1]
        squares = (self._by_seed**2).sum(axis=(-2, -1))
        products = (self._by_seed.sum(axis=-2) ** 2).sum(axis=-1) - squares
        return squares / ((seeds - 1) * attacks), products / ((seeds - 1) * max(1, attacks * (attacks - 1)))

    @cached_property
    def _freedoms_alone(self) -> np.ndarray:
        """Degrees of freedom of the guard, [parts, ..., 1]: of one recipe's mean square over seeds, seeds - 1 times the
        effective number of attacks, since those share a training; and of the classes."""
        attacks, seeds, classes = self.cells.shape[-3:]
        squares, products = (each.mean(axis=-1, keepdims=True) for each in self._seeds_by_recipe)
        shared = np.clip(products / np.where(squares > 0, squares, 1.0), 0.0, 1.0)
        freedom = (seeds - 1) * attacks / (1 + (attacks - 1) * shared**2)
        return np.stack([freedom, np.full(freedom.shape, classes - 1.0)] if classes > 1 else [freedom])

    @cached_property
    def _by_seed(self) -> np.ndarray:
        """Means over classes, as deviations from those over seeds too, [..., recipes, attacks, seeds]."""
        by_seed = self.cells.mean(axis=-1)
        return by_seed - by_seed.mean(axis=-1, keepdims=True)

    @cached_property
    def _seeds_pooled(self) -> np.ndarray:
        """Mean products of the seeds' deviations by kind of columns, over all recipes, [..., 1, 4]."""
        recipes, attacks, seeds, _ = self.cells.shape[-4:]
        return _sums(self._by_seed)[..., None, :] / (seeds - 1) / _pairs_of_columns(recipes, attacks)

    @cached_property
    def _seeds_by_pair(self) -> np.ndarray:
        """Sums of the products by kind of columns, over every pair of recipes, [..., recipes x recipes, 4]."""
        recipes, _, seeds, _ = self.cells.shape[-4:]
        first, second = np.divmod(np.arange(recipes**2), recipes)
        return _sums_by_pair(self._by_seed, first, second) / (seeds - 1)

    @cached_property
    def _over_seeds(self) -> np.ndarray:
        """[..., recipes, attacks, classes]."""
        return self.cells.mean(axis=-2)

    @cached_property
    def _residual_pooled(self) -> np.ndarray:
        """Mean products of the residuals by kind of columns, over all recipes, [..., 1, 4]."""
        recipes, attacks, seeds, classes = self.cells.shape[-4:]
        residual = self.cells - self.cells.mean(axis=-1, keepdims=True) - self._over_seeds[..., None, :]
        residual += self.cells.mean(axis=(-2, -1), keepdims=True)
        products = _sums(residual.reshape(*residual.shape[:-2], seeds * classes))[..., None, :]
        return products / ((seeds - 1) * (classes - 1)) / _pairs_of_columns(recipes, attacks)


def _recipes_of(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last recipe that each contrast holds, [..., contrasts] each."""
    held = (weights != 0).any(axis=-1)
    if (held.sum(axis=-1) > 2).any():
        raise ValueError("contrast: expected columns of one or two recipes")
    return held.argmax(axis=-1), held.shape[-1] - 1 - held[..., ::-1].argmax(axis=-1)


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
