"""Which way a difference points: the one place where "higher", "lower" and "inconclusive" are decided.

A difference of two recipes varies with the seeds (training and attack are random) and with the classes (other people
would have given another mean). Both variances are estimated, the one of the seeds from very few numbers. Where the
variance of the seeds has at least `LEAST_POOLED` degrees of freedom, the two are added up, with the degrees of freedom
of Satterthwaite (1946, Biometrics Bull. 2). With fewer, that is too sure of itself where the few seeds happen to lie
close together: two recipes under two seeds were found to differ in 9 to 13 % of simulations without any difference, at
a nominal 5 %. So each variance is then stretched by its own quantile before it is added (Banerjee, 1961, Sankhya 23):

    difference +- sqrt(sum_i q(alpha; freedom_i)^2 variance_i)

which covers at least at its level for any ratio of the true variances. Where recipes are compared with a baseline, no
interval is narrower than that of a guard, made in the same way from the two recipes alone (`CrossedEffects`). One seed
says nothing of another training run, so it never tells; neither do equal differences without any spread, unless a sign
test would.

The model (`CrossedEffects`): seeds and classes are crossed random effects. A column is a recipe r under an attack a.
The leak of a column under seed s for class c is modelled as

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

Quantiles (`Dunnett`): recipes that are compared with the same baseline share its noise, so their differences correlate
by one half. Dunnett (1955, J. Am. Stat. Assoc. 50, 1096-1121) takes that into account, where Bonferroni's correction
does not:

    T_i = (Z_0 + Z_i) / sqrt(2) / U,    U = chi_f / sqrt(f),    q such that P(max |T_i| > q) = alpha

The probability is an expectation over the shared normal Z_0 (Gauss-Hermite) and over U (a grid of its logarithm). It is
tabulated once for every k, and interpolated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.polynomial import hermite_e

_NORMALS, _MASSES = hermite_e.hermegauss(61)
_MASSES = _MASSES / _MASSES.sum()
_INVERSES = np.linspace(0.0, 1.0, 41)  # of the degrees of freedom, from infinite to 1
_LOG_ALPHAS = np.linspace(np.log(1e-14), np.log(0.9999), 200)
_LOG_QUANTILES = np.linspace(np.log(1e-3), np.log(1e6), 1000)
# Of U, on the grid of the quantiles, so that q U is on it too and nothing need be interpolated.
_STEPS = np.arange(-770, 146)
_LOG_SCALES = _STEPS * (_LOG_QUANTILES[1] - _LOG_QUANTILES[0])


@dataclass(frozen=True, kw_only=True)
class Bonferroni:
    """Two-sided quantiles of Student's t that hold for `comparisons` statements at once, whatever their correlation."""

    comparisons: int = 1

    @property
    def of_recipes(self) -> None:
        """None: the comparisons have no reference that would share its noise with all of them."""
        return None

    def quantiles(self, freedom: np.ndarray | float, alpha: np.ndarray | float) -> np.ndarray:
        """Quantiles for degrees of freedom `freedom` and family-wise error `alpha`, broadcast against each other."""
        from scipy import special  # half a second of imports, for every command that reads a sweep file

        return -special.stdtrit(freedom, np.asarray(alpha) / (2 * self.comparisons))


@dataclass(frozen=True, kw_only=True)
class Dunnett:
    """Two-sided quantiles that hold for `comparisons` statements at once, each pair of them correlated by one half.

    recipes: how many are in the comparisons, the reference too; 0 where no guard is asked for.
    """

    comparisons: int = 1
    recipes: int = 0

    @property
    def of_recipes(self) -> Dunnett | None:
        """The correction of the guard (`verdicts.Errors`), which makes one statement of every recipe; None for none."""
        return Dunnett(comparisons=self.recipes) if self.recipes else None

    def quantiles(self, freedom: np.ndarray | float, alpha: np.ndarray | float) -> np.ndarray:
        """Quantiles for degrees of freedom `freedom` (at least 1) and family-wise error `alpha`, broadcast."""
        if self.comparisons == 1:
            return Bonferroni().quantiles(freedom, alpha)
        table = _table(self.comparisons)
        inverse = 1 / np.asarray(freedom, dtype=np.float64)
        row = np.minimum(np.maximum(inverse, 0), 1) * (len(_INVERSES) - 1)
        step = _LOG_ALPHAS[1] - _LOG_ALPHAS[0]
        column = np.minimum(np.maximum((np.log(alpha) - _LOG_ALPHAS[0]) / step, 0), len(_LOG_ALPHAS) - 1)
        above, left = (
            np.minimum(row.astype(int), len(_INVERSES) - 2),
            np.minimum(column.astype(int), table.shape[1] - 2),
        )
        down, right = row - above, column - left
        upper = (1 - right) * table[above, left] + right * table[above, left + 1]
        lower = (1 - right) * table[above + 1, left] + right * table[above + 1, left + 1]
        return np.exp((1 - down) * upper + down * lower)


Correction = Bonferroni | Dunnett


@lru_cache(maxsize=64)
def _table(comparisons: int) -> np.ndarray:
    """Logarithms of the quantiles, [degrees of freedom, alphas]."""
    normal = _tail_of_normals(np.exp(_LOG_QUANTILES), comparisons)
    rows = [normal, *_tails_of_students(normal, 1 / _INVERSES[1:]).T]
    # np.interp wants rising abscissae, and tails fall.
    return np.stack([np.interp(-_LOG_ALPHAS, -np.log(np.maximum(row, 1e-300)), _LOG_QUANTILES) for row in rows])


def _tail_of_normals(quantiles: np.ndarray, comparisons: int) -> np.ndarray:
    """P(max |(Z_0 + Z_i) / sqrt(2)| > q), [quantiles]."""
    from scipy import special

    reach = np.sqrt(2) * quantiles[:, None]
    outside = special.ndtr(_NORMALS - reach) + special.ndtr(-_NORMALS - reach)
    largest = -np.expm1(comparisons * np.log1p(-np.minimum(outside, 1 - 1e-16)))
    return largest @ _MASSES


def _tails_of_students(normal: np.ndarray, freedoms: np.ndarray) -> np.ndarray:
    """Tail probabilities of t-variables, [quantiles, freedoms]: the normal tail at q U, averaged over U."""
    from scipy import special

    log_density = freedoms * (_LOG_SCALES[:, None] - np.exp(2 * _LOG_SCALES[:, None]) / 2)
    masses = np.exp(log_density - special.logsumexp(log_density, axis=0))
    at = np.arange(len(normal))[:, None] + _STEPS
    tails = np.where(at < 0, 1.0, np.where(at < len(normal), normal[np.clip(at, 0, len(normal) - 1)], 0.0))
    return tails @ masses


Verdict = Literal["higher", "lower", "inconclusive"]
HIGHER: Verdict = "higher"
LOWER: Verdict = "lower"
INCONCLUSIVE: Literal["inconclusive"] = "inconclusive"

LEAST_SEEDS = 2
"""Least seeds with which a difference can be significant."""

LEAST_POOLED = 4
"""Degrees of freedom of the seeds' variance from which on Satterthwaite's approximation holds its level."""

ALONE = Bonferroni()
"""No correction: one planned comparison."""

_SMALLEST_P = 1e-14
_HALVINGS = 45  # of log p between 1 and the smallest: to 1e-12 of its value


@dataclass(frozen=True, kw_only=True)
class Errors:
    """What differences [..., pairs] vary by.

    Attributes:
        variances: Variances of the mean difference by every part, [parts, ..., pairs], in its squared unit; the first
            is that of the seeds.
        freedoms: [parts], or [parts, ..., 1] by sweep, degrees of freedom.
        flat: [..., pairs], where no spread was seen.
        numbers: Differences that each mean is over (seeds times classes), for the sign test of those without spread.
        guard: Errors from the recipes of each difference alone, which no interval may be narrower than where the
            correction says for how many recipes (`Dunnett.of_recipes`); None for no guard.
    """

    variances: np.ndarray
    freedoms: np.ndarray
    flat: np.ndarray
    numbers: int
    guard: Errors | None = None

    def of(self, chosen: np.ndarray) -> Errors:
        """The errors of some rows of pairs. chosen: bool [...], of the dimensions before the pairs."""
        freedoms = self.freedoms
        if freedoms.ndim > 1:
            freedoms = np.broadcast_to(freedoms, (len(freedoms), *chosen.shape, 1))[:, chosen]
        guard = None if self.guard is None else self.guard.of(chosen)
        return replace(
            self, variances=self.variances[:, chosen], flat=self.flat[chosen], freedoms=freedoms, guard=guard
        )

    def half_widths(self, gaps: np.ndarray, alpha: float, correction: Correction = ALONE) -> np.ndarray:
        """Half the width of each interval with error `alpha`, [..., pairs], for all comparisons of `correction` at
        once. NaN, no interval, for a difference other than 0 that showed no spread and is in too few numbers for a sign
        test to tell at `alpha`."""
        halves = np.sqrt(self._stretched(alpha, correction))
        untold = self.flat & (gaps != 0) & (correction.comparisons * self._sign_test > alpha)
        return np.where(untold, np.nan, np.where(self.flat, 0.0, halves))

    def p_values(self, gaps: np.ndarray, correction: Correction = ALONE) -> np.ndarray:
        """The largest error at which each interval leaves 0 out, [..., pairs], by halving log p."""
        low, high = np.full(gaps.shape, np.log(_SMALLEST_P)), np.zeros(gaps.shape)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            outside = gaps**2 > self._stretched(np.exp(middle), correction)
            low, high = np.where(outside, low, middle), np.where(outside, middle, high)
        sign_test = min(1.0, correction.comparisons * self._sign_test)
        return np.where(self.flat, np.where(gaps == 0, 1.0, sign_test), np.exp(high))

    def _stretched(self, alpha: float | np.ndarray, correction: Correction) -> np.ndarray:
        """The squared half width: the variances times squared quantiles, and at least the guard's."""
        few = self.freedoms[0] < LEAST_POOLED
        if few.all():
            own = self._banerjee(alpha, correction)
        elif few.any():
            own = np.where(few, self._banerjee(alpha, correction), self._satterthwaite(alpha, correction))
        else:
            own = self._satterthwaite(alpha, correction)
        if self.guard is None or correction.of_recipes is None:
            return own
        return np.maximum(own, self.guard._stretched(alpha, correction.of_recipes))

    def _banerjee(self, alpha: float | np.ndarray, correction: Correction) -> np.ndarray:
        """Every variance times its own squared quantile."""
        freedoms = self.freedoms.reshape(*self.freedoms.shape, *[1] * (self.variances.ndim - self.freedoms.ndim))
        return (correction.quantiles(freedoms, alpha) ** 2 * self.variances).sum(axis=0)

    def _satterthwaite(self, alpha: float | np.ndarray, correction: Correction) -> np.ndarray:
        """The sum of the variances times the squared quantile of its degrees of freedom."""
        total, freedom = self._pooled
        return correction.quantiles(freedom, alpha) ** 2 * total

    @cached_property
    def _pooled(self) -> tuple[np.ndarray, np.ndarray]:
        """The sum of the variances, and its degrees of freedom: those of the first where there is no variance."""
        total = self.variances.sum(axis=0)
        parts = zip(self.freedoms, self.variances, strict=True)
        spread = sum(variance**2 / freedom for freedom, variance in parts)
        return total, np.where(spread > 0, total**2 / np.where(spread > 0, spread, 1.0), self.freedoms[0])

    @property
    def _sign_test(self) -> float:
        """Two-sided p of differences that all point the same way."""
        return float(max(2.0 ** (1 - self.numbers), _SMALLEST_P))


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """An estimate and a simultaneous interval of it.

    Attributes:
        low, high: None for one seed, which bounds nothing.
        p: The largest error at which the interval leaves out 0, in view of all comparisons made; None for one seed.
    """

    value: float
    low: float | None
    high: float | None
    p: float | None = None

    @property
    def above_zero(self) -> bool:
        """Whether it is clearly above zero."""
        return self.low is not None and self.low > 0

    @property
    def below_zero(self) -> bool:
        """Whether it is clearly below zero."""
        return self.high is not None and self.high < 0


def verdict(low: float | None, high: float | None, *, seeds: int) -> Verdict:
    """Which way a difference with this interval points; "inconclusive" where it holds 0, where there is none, and for
    fewer than `LEAST_SEEDS` seeds, whatever the interval."""
    if seeds < LEAST_SEEDS or low is None or high is None:
        return INCONCLUSIVE
    return HIGHER if low > 0 else LOWER if high < 0 else INCONCLUSIVE


def turned(which: Verdict) -> Verdict:
    """The verdict on the difference with its sign turned."""
    return {HIGHER: LOWER, LOWER: HIGHER, INCONCLUSIVE: INCONCLUSIVE}[which]


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
