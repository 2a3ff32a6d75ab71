"""A Gaussian process over recipes whose trials are noisy: what is expected of every recipe, and how sure that is.

One objective y under recipe r and seed s is y[r, s] = f(r) + b[s] + e[r, s]: f a Gaussian process (Matern 5/2, a length
scale per dimension), b the effect that a seed has on all recipes, e the noise of one trial, with a variance per recipe.
A recipe's variance is its own sample variance shrunk to the pooled one (Smyth, 2004, "Linear models and empirical Bayes
methods"), since two or three seeds tell little of it. Length scales and variances maximise the posterior density.
Optuna's Gaussian process has one variance for all recipes, and no way to give it another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize

PRIOR_DF = 4.0  # degrees of freedom that the pooled variance counts beside a recipe's own
LEAST_NOISE = 1e-4  # variance of a trial, of standardised values
JITTER = 1e-8  # variance added so that a covariance has a Cholesky factor, of standardised values
PRIORS = {"length": (0.6, 0.8), "signal": (1.0, 0.7), "noise": (0.1, 1.2), "seed": (0.02, 1.2)}
"""Log-normal priors: median and standard deviation of the logarithm. Positions are in [0, 1], values standardised."""


@dataclass(frozen=True, kw_only=True)
class SeenTrials:
    """The trials seen, by one objective.

    Attributes:
        places: [r, d] positions of the recipes, each in [0, 1].
        groups: [d] the dimension that each column belongs to, from 0: columns of one dimension share a length scale.
        recipe: [n] row of `places` that each trial belongs to. Every row has a trial.
        seed: [n] the seed of each trial.
        values: [n] what each trial measured.
    """

    places: np.ndarray
    groups: np.ndarray
    recipe: np.ndarray
    seed: np.ndarray
    values: np.ndarray


@dataclass(frozen=True, kw_only=True)
class NoiseModel:
    """The fitted process.

    Attributes:
        lengths: [g] a length scale per dimension.
        signal: variance of f; like all variances here, of values that are standardised by `shift` and `scale`.
        noise: [r] variance of one trial of each recipe.
        seed: variance of the effect that a seed has on all recipes.
    """

    seen: SeenTrials
    lengths: np.ndarray
    signal: float
    noise: np.ndarray
    seed: float
    shift: float
    scale: float

    def posterior(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean [m] and covariance [m, m] of f at positions [m, d], in the units of the values."""
        seen = self.seen
        lower = np.linalg.cholesky(_covariance(seen, self.lengths, self.signal, self.noise, self.seed))
        lengths = self.lengths[seen.groups]
        across = self.signal * matern(places, seen.places, lengths)[:, seen.recipe]
        weights = cho_solve((lower, True), (seen.values - self.shift) / self.scale)
        half = solve_triangular(lower, across.T, lower=True)
        covariance = self.signal * matern(places, places, lengths) - half.T @ half
        return self.shift + self.scale * (across @ weights), self.scale**2 * covariance

    def draws(self, places: np.ndarray, normals: np.ndarray) -> np.ndarray:
        """Joint draws [s, m] of f at positions [m, d] from standard normal numbers [s, m]."""
        mean, covariance = self.posterior(places)
        lower = np.linalg.cholesky(covariance + JITTER * self.scale**2 * np.eye(len(places)))
        return mean + normals @ lower.T


def fit(seen: SeenTrials) -> NoiseModel:
    """The model of the trials seen."""
    shift, scale = _standard(seen)
    values = (seen.values - shift) / scale
    kinds = ["length"] * (int(seen.groups.max()) + 1) + ["signal", "noise", "seed"]
    centre = np.log([PRIORS[kind][0] for kind in kinds])
    width = np.array([PRIORS[kind][1] for kind in kinds])
    seeds_differ = len(np.unique(seen.seed)) > 1  # with one seed its effect is part of the mean

    def minus_log_density(logs: np.ndarray) -> float:
        lengths, signal, noise, seed = np.exp(logs[:-3]), *np.exp(logs[-3:])
        noises = np.full(len(seen.places), noise + LEAST_NOISE)
        lower = np.linalg.cholesky(_covariance(seen, lengths, signal, noises, seed * seeds_differ))
        rest = solve_triangular(lower, values, lower=True)
        return float(0.5 * rest @ rest + np.log(np.diag(lower)).sum() + 0.5 * (((logs - centre) / width) ** 2).sum())

    bounds = list(zip(centre - 5 * width, centre + 5 * width, strict=True))
    optimum = minimize(minus_log_density, centre, method="L-BFGS-B", bounds=bounds, options={"maxiter": 60}).x
    signal, noise, seed = (float(value) for value in np.exp(optimum[-3:]))
    return NoiseModel(
        seen=seen,
        lengths=np.exp(optimum[:-3]),
        signal=signal,
        seed=seed * seeds_differ,
        shift=shift,
        scale=scale,
        noise=shrunk_variances(values, seen.recipe, seen.seed, noise + LEAST_NOISE),
    )


def shrunk_variances(values: np.ndarray, recipe: np.ndarray, seed: np.ndarray, pooled: float) -> np.ndarray:
    """Variance of a trial of each recipe [r]: its own, from what seeds do not share, shrunk to the pooled one.

    Args:
        values, recipe, seed: [n] of each trial. A recipe that one seed alone has met has the pooled variance.
    """
    rest = values
    for _ in range(20):  # two-way means of an unbalanced table, by turns
        rest = rest - _means(rest, recipe)[recipe]
        seeds = np.unique(seed, return_inverse=True)[1]
        rest = rest - _means(rest, seeds)[seeds]
    rest = rest - _means(rest, recipe)[recipe]
    freedom = np.bincount(recipe) - 1
    return (PRIOR_DF * pooled + np.bincount(recipe, weights=rest**2)) / (PRIOR_DF + freedom)


def matern(first: np.ndarray, other: np.ndarray, lengths: Sequence[float] | np.ndarray) -> np.ndarray:
    """Matern 5/2 correlation [n, m] of positions [n, d] and [m, d]. lengths: [d]."""
    gaps = (first[:, None, :] - other[None, :, :]) / lengths
    distance = np.sqrt(5 * (gaps**2).sum(axis=2))
    return (1 + distance + distance**2 / 3) * np.exp(-distance)


def _covariance(seen: SeenTrials, lengths: np.ndarray, signal: float, noise: np.ndarray, seed: float) -> np.ndarray:
    """[n, n] of the trials seen."""
    recipes = signal * matern(seen.places, seen.places, lengths[seen.groups])
    trials = recipes[np.ix_(seen.recipe, seen.recipe)] + seed * (seen.seed[:, None] == seen.seed[None, :])
    return trials + np.diag(noise[seen.recipe])


def _standard(seen: SeenTrials) -> tuple[float, float]:
    """Mean and standard deviation of the recipes' means."""
    means = _means(seen.values, seen.recipe)
    return float(means.mean()), float(means.std()) or 1.0


def _means(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    return np.bincount(group, weights=values) / np.bincount(group)
