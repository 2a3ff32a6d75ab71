"""Attacks that compare the target's answer with those of shadow models: of the same recipe, with and without the image.

All read `Evidence.shadow_phi`, log odds of the true class. With views of an image, densities of the views are
multiplied, as in the published code of Carlini et al.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smoothsweep.core.bounds import Fraction, Positive
from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.core.membership.base import MembershipAttack
from smoothsweep.core.membership.evidence import Evidence, Flags, Numbers, log_probability

OWN_VARIANCE = 32
"""Shadow models on a side from which each image has a variance of its own (Carlini et al. 2022, section VI-B; as in
LeakPro, leakpro/attacks/mia_attacks/lira.py)."""

_TINY = 1e-30  # added to standard deviations, as both implementations do


@dataclass(frozen=True, kw_only=True)
class ShadowAttack(MembershipAttack):
    """What all of them read."""

    needs: ClassVar[tuple[str, ...]] = ("phi", "shadow_phi", "inside")


@dataclass(frozen=True, kw_only=True)
class Lira(ShadowAttack):
    """Likelihood ratio of two Gaussians per image, of models with and without it (online LiRA).

    Source: Carlini et al. 2022, algorithm 1. With fewer than 32 models on a side, one variance for all images.
    """

    title: ClassVar[str] = "LiRA, online"
    cites: ClassVar[tuple[str, ...]] = ("carlini2022membership",)

    def score(self, evidence: Evidence) -> Numbers:
        phi, (inner, outer) = present(evidence.phi, "phi"), sides(evidence)
        return (_normal(phi, *inner) - _normal(phi, *outer)).sum(axis=0)


@dataclass(frozen=True, kw_only=True)
class LiraOffline(ShadowAttack):
    """The one-sided tail of the Gaussian of models without the image: -log P(Z > phi), which orders images as
    P(Z < phi) does and keeps its digits far out. Source: Carlini et al. 2022, equation 4."""

    title: ClassVar[str] = "LiRA, offline"
    cites: ClassVar[tuple[str, ...]] = ("carlini2022membership",)

    def score(self, evidence: Evidence) -> Numbers:
        phi, (_, (mean, deviation)) = present(evidence.phi, "phi"), sides(evidence)
        from scipy.special import log_ndtr  # here: reading a sweep file needs none of it

        return -log_ndtr(-(phi - mean) / (deviation + _TINY)).sum(axis=0)


@dataclass(frozen=True, kw_only=True)
class Rmia(ShadowAttack):
    """The fraction of population images z whose ratio p(z | target) / p(z) the image's own exceeds gamma times.

    p(x) is the mean over models with and without the image. The population is all other candidate images, of which an
    attacker need not know which are members. Source: Zarifzadeh et al. 2024, equations 2 to 4 and 10.
    gamma: how many times larger the image's ratio must be.
    """

    title: ClassVar[str] = "RMIA, online"
    cites: ClassVar[tuple[str, ...]] = ("zarifzadeh2024low",)

    gamma: Positive = 1.0

    def score(self, evidence: Evidence) -> Numbers:
        ratio = log_probability(present(evidence.phi, "phi")[0]) - np.log(self.expected(evidence))
        return dominated(ratio, ratio, gamma=self.gamma, same=True)

    def expected(self, evidence: Evidence) -> Numbers:
        """p(x), [n]."""
        p, inside = _probabilities(evidence)
        return (_mean(p, inside) + _mean(p, ~inside)) / 2


@dataclass(frozen=True, kw_only=True)
class RmiaOffline(Rmia):
    """RMIA where only models without the image are trained: p(x) = ((1 + a) p_out + (1 - a)) / 2.

    a: how p_in follows from p_out, 0.3 as in privacy_meter's configuration. Source: appendix B.2.2.
    """

    title: ClassVar[str] = "RMIA, offline"

    a: Fraction = 0.3

    def expected(self, evidence: Evidence) -> Numbers:
        p, inside = _probabilities(evidence)
        return ((1 + self.a) * _mean(p, ~inside) + (1 - self.a)) / 2


@dataclass(frozen=True, kw_only=True)
class BavariaT(ShadowAttack):
    """LiRA with a normal-inverse-gamma prior on each image's mean and variance: ratio of Student's t predictives.

    The prior's variance is the mean over images of the variance within an image, its mean that of all images of the
    side, so that few shadow models need no switch between a shared and an own variance. Source: BaVarIA, arXiv
    2603.11799; the strengths of the prior here are ours.

    Attributes:
        strength: Models that the prior of the variance counts as.
        weight: Models that the prior of the mean counts as.
    """

    title: ClassVar[str] = "BaVarIA, Student's t"
    cites: ClassVar[tuple[str, ...]] = ("brannvall2026exponential",)

    strength: Positive = 4.0
    weight: Positive = 0.1

    def score(self, evidence: Evidence) -> Numbers:
        phi, inside = present(evidence.phi, "phi"), present(evidence.inside, "inside")
        shadow = present(evidence.shadow_phi, "shadow_phi")
        return (self._density(phi, shadow, inside) - self._density(phi, shadow, ~inside)).sum(axis=0)

    def _density(self, phi: Numbers, shadow: Numbers, chosen: Flags) -> Numbers:
        """Log density of the target's log odds [views, n], given those of the chosen models."""
        count, mean, spread = _moments(shadow, chosen)
        centre = mean.mean(axis=-1, keepdims=True)
        pooled = spread.sum(axis=-1, keepdims=True) / np.maximum(count - 1, 0).sum()
        weight, shape = self.weight + count, (self.strength + count) / 2
        shift = self.weight * count / weight * (mean - centre) ** 2
        scale = (self.strength * pooled + spread + shift) / 2  # of the inverse gamma
        where = (self.weight * centre + count * mean) / weight
        return self._predictive(phi - where, shape, scale, weight)

    def _predictive(self, gap: Numbers, shape: Numbers, scale: Numbers, weight: Numbers) -> Numbers:
        freedom, squared = 2 * shape, scale * (weight + 1) / (weight * shape)
        squared = squared + _TINY
        from scipy.special import gammaln  # here: reading a sweep file needs none of it

        constant = gammaln((freedom + 1) / 2) - gammaln(freedom / 2) - np.log(freedom * np.pi * squared) / 2
        return np.asarray(constant - (freedom + 1) / 2 * np.log1p(gap**2 / (freedom * squared)), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class BavariaN(BavariaT):
    """BaVarIA with a Gaussian whose variance is the posterior's mean. Source: arXiv 2603.11799."""

    title: ClassVar[str] = "BaVarIA, Gaussian"

    def _predictive(self, gap: Numbers, shape: Numbers, scale: Numbers, weight: Numbers) -> Numbers:
        variance = scale / (shape - 1) + _TINY  # shape is above 1: two models and a strength above 0
        return np.asarray(-(np.log(2 * np.pi * variance) + gap**2 / variance) / 2, dtype=np.float64)


def sides(evidence: Evidence) -> tuple[tuple[Numbers, Numbers], tuple[Numbers, Numbers]]:
    """(mean [views, n], standard deviation) of models with each image, and of those without it."""
    shadow, inside = present(evidence.shadow_phi, "shadow_phi"), present(evidence.inside, "inside")
    return _side(shadow, inside), _side(shadow, ~inside)


def dominated(ratio: Numbers, population: Numbers, *, gamma: float, same: bool = False) -> Numbers:
    """The fraction of the population's log ratios [m] that each log ratio [n] exceeds by log(gamma) or more.

    same: the population is these images themselves, of which none counts for itself.
    """
    ordered = np.sort(population)
    below = np.searchsorted(ordered, ratio - np.log(gamma), side="right").astype(np.float64)
    if not same:
        return below / len(population)
    return (below - (gamma <= 1)) / (len(population) - 1)


def _side(shadow: Numbers, chosen: Flags) -> tuple[Numbers, Numbers]:
    count, mean, spread = _moments(shadow, chosen)
    own = np.sqrt(spread / count)
    weights = np.broadcast_to(chosen[:, None], shadow.shape)
    shared = np.array([shadow[:, view][weights[:, view]].std() for view in range(shadow.shape[1])])[:, None]
    return mean, np.where(count >= OWN_VARIANCE, own, shared)


def _normal(phi: Numbers, mean: Numbers, deviation: Numbers) -> Numbers:
    deviation = deviation + _TINY
    return -(((phi - mean) / deviation) ** 2) / 2 - np.log(deviation) - np.log(2 * np.pi) / 2


def _moments(shadow: Numbers, chosen: Flags) -> tuple[Numbers, Numbers, Numbers]:
    """Number of the chosen models [n], their mean and their sum of squared deviations [views, n]."""
    count = chosen.sum(axis=0).astype(np.float64)
    if not count.min() >= 2:
        expected = "expected every image inside two shadow models and outside two (more of them, or share 0.5)"
        raise InputError(f"judges.membership.shadows: {expected}, got one with {int(count.min())}")
    weights = chosen[:, None].astype(np.float64)
    mean = (shadow * weights).sum(axis=0) / count
    return count, mean, ((shadow - mean) ** 2 * weights).sum(axis=0)


def _probabilities(evidence: Evidence) -> tuple[Numbers, Flags]:
    """p of the true class by shadow models, of the image itself, [models, n]."""
    shadow = present(evidence.shadow_phi, "shadow_phi")[:, 0]
    return np.exp(log_probability(shadow)), present(evidence.inside, "inside")


def _mean(p: Numbers, chosen: Flags) -> Numbers:
    return np.maximum((p * chosen).sum(axis=0) / chosen.sum(axis=0), _TINY)
