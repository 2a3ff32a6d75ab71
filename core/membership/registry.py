"""Membership attacks, and all of them by name. Reading the table loads no torch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.core.membership.base import Evidence, Flags, MembershipAttack, Numbers, log_probability
from smoothsweep.core.plugins import with_plugin_name, with_plugins

# Membership attacks by thresholds on the target's answers, without training another model.


_TINY = 1e-12  # of a class whose images all have one score


class Margin(MembershipAttack):
    """The true class's logit minus the largest other one."""

    title = "threshold on the margin"
    cites = ("yeom2018privacy",)
    needs = ("margin",)

    def score(self, evidence: Evidence) -> Numbers:
        return present(evidence.margin, "margin")


class Loss(MembershipAttack):
    """Cross entropy, small for members. It orders images as log odds do, which is what is returned: a loss of nearly 0
    has no digits left. Source: Yeom et al. 2018, adversary 2."""

    title = "threshold on the loss"
    cites = ("yeom2018privacy",)
    needs = ("phi",)

    def score(self, evidence: Evidence) -> Numbers:
        return present(evidence.phi, "phi")[0]


class MarginPerClass(Margin):
    """The margin with a threshold for each class: its distance from the class's mean over its standard deviation."""

    title = "margin, a threshold per class"

    def score(self, evidence: Evidence) -> Numbers:
        return standardised_by_class(present(evidence.margin, "margin"), evidence.labels)


class LossPerClass(Loss):
    """The loss with a threshold for each class, of log odds as `MarginPerClass`. Source: Song and Mittal 2021."""

    title = "loss, a threshold per class"

    def score(self, evidence: Evidence) -> Numbers:
        return standardised_by_class(present(evidence.phi, "phi")[0], evidence.labels)


def standardised_by_class(scores: Numbers, labels: np.ndarray) -> Numbers:
    """Scores [n] minus the mean of their class, over its standard deviation (all images, members or not)."""
    standardised = np.empty_like(scores)
    for label in np.unique(labels):
        own = scores[labels == label]
        standardised[labels == label] = (own - own.mean()) / max(float(own.std()), _TINY)
    return standardised


# Attacks that see the target's labels alone: scores that are masked do not lower them.


class LabelViews(MembershipAttack):
    """How often the label is right over shifted and mirrored copies. Source: Choquette-Choo et al. 2021, section 4.2.

    What the published attack learns by a shadow model, which copies matter, is not learnt: each counts alike.
    """

    title = "labels over views"
    cites = ("choquettechoo2021label",)
    access = "labels"
    needs = ("right_over_views",)

    def score(self, evidence: Evidence) -> Numbers:
        return np.asarray(present(evidence.right_over_views, "views").mean(axis=0), dtype=np.float64)


class LabelDistance(MembershipAttack):
    """How far the decision boundary lies, told by how often the label is right under growing noise.

    Source: Choquette-Choo et al. 2021, section 4.3, its cheap variant (random noise in the place of HopSkipJump). The
    fraction of right labels over the levels of noise grows with the distance.
    """

    title = "labels, distance to the boundary"
    cites = ("choquettechoo2021label",)
    access = "labels"
    needs = ("right_over_noise",)

    def score(self, evidence: Evidence) -> Numbers:
        return np.asarray(present(evidence.right_over_noise, "noise").mean(axis=0), dtype=np.float64)


# Attacks that compare the target's answer with those of shadow models: of the same recipe, with and without the image.
#
# All read `Evidence.shadow_phi`, log odds of the true class. With views of an image, densities of the views are
# multiplied, as in the published code of Carlini et al.


OWN_VARIANCE = 32
"""Shadow models on a side from which each image has a variance of its own (Carlini et al. 2022, section VI-B; as in
LeakPro, leakpro/attacks/mia_attacks/lira.py)."""

P_IN = 0.3  # how much the probability under models with an image follows from that under models without it
STRENGTH, WEIGHT = 4.0, 0.1  # models that BaVarIA's priors of the variance and of the mean count as
_SMALL = 1e-30  # added to standard deviations, as both implementations do


class ShadowAttack(MembershipAttack):
    """What all of them read."""

    needs = ("phi", "shadow_phi", "inside")


class Lira(ShadowAttack):
    """Likelihood ratio of two Gaussians per image, of models with and without it (online LiRA).

    Source: Carlini et al. 2022, algorithm 1. With fewer than 32 models on a side, one variance for all images.
    """

    title = "LiRA, online"
    cites = ("carlini2022membership",)

    def score(self, evidence: Evidence) -> Numbers:
        phi, (inner, outer) = present(evidence.phi, "phi"), sides(evidence)
        return (_normal(phi, *inner) - _normal(phi, *outer)).sum(axis=0)


class LiraOffline(ShadowAttack):
    """The one-sided tail of the Gaussian of models without the image: -log P(Z > phi), which orders images as
    P(Z < phi) does and keeps its digits far out. Source: Carlini et al. 2022, equation 4."""

    title = "LiRA, offline"
    cites = ("carlini2022membership",)

    def score(self, evidence: Evidence) -> Numbers:
        phi, (_, (mean, deviation)) = present(evidence.phi, "phi"), sides(evidence)
        from scipy.special import log_ndtr  # here: reading a sweep file needs none of it

        return -log_ndtr(-(phi - mean) / (deviation + _SMALL)).sum(axis=0)


class Rmia(ShadowAttack):
    """The fraction of population images z whose ratio p(z | target) / p(z) the image's own reaches.

    p(x) is the mean over models with and without the image. The population is all other candidate images, of which an
    attacker need not know which are members. Source: Zarifzadeh et al. 2024, equations 2 to 4 and 10, gamma 1.
    """

    title = "RMIA, online"
    cites = ("zarifzadeh2024low",)

    def score(self, evidence: Evidence) -> Numbers:
        ratio = log_probability(present(evidence.phi, "phi")[0]) - np.log(self.expected(evidence))
        below = np.searchsorted(np.sort(ratio), ratio, side="right").astype(np.float64)
        return (below - 1) / (len(ratio) - 1)  # none counts for itself

    def expected(self, evidence: Evidence) -> Numbers:
        """p(x), [n]."""
        p, inside = _probabilities(evidence)
        return (_mean(p, inside) + _mean(p, ~inside)) / 2


class RmiaOffline(Rmia):
    """RMIA where only models without the image are trained: p(x) = ((1 + a) p_out + (1 - a)) / 2, a = 0.3 as in
    privacy_meter's configuration. Source: appendix B.2.2."""

    title = "RMIA, offline"

    def expected(self, evidence: Evidence) -> Numbers:
        p, inside = _probabilities(evidence)
        return ((1 + P_IN) * _mean(p, ~inside) + (1 - P_IN)) / 2


class BavariaT(ShadowAttack):
    """LiRA with a normal-inverse-gamma prior on each image's mean and variance: ratio of Student's t predictives.

    The prior's variance is the mean over images of the variance within an image, its mean that of all images of the
    side, so that few shadow models need no switch between a shared and an own variance. Source: BaVarIA, arXiv
    2603.11799; the strengths of the prior here are ours.
    """

    title = "BaVarIA, Student's t"
    cites = ("brannvall2026exponential",)

    def score(self, evidence: Evidence) -> Numbers:
        phi, inside = present(evidence.phi, "phi"), present(evidence.inside, "inside")
        shadow = present(evidence.shadow_phi, "shadow_phi")
        return (self._density(phi, shadow, inside) - self._density(phi, shadow, ~inside)).sum(axis=0)

    def _density(self, phi: Numbers, shadow: Numbers, chosen: Flags) -> Numbers:
        """Log density of the target's log odds [views, n], given those of the chosen models."""
        count, mean, spread = _moments(shadow, chosen)
        centre = mean.mean(axis=-1, keepdims=True)
        pooled = spread.sum(axis=-1, keepdims=True) / np.maximum(count - 1, 0).sum()
        weight, shape = WEIGHT + count, (STRENGTH + count) / 2
        shift = WEIGHT * count / weight * (mean - centre) ** 2
        scale = (STRENGTH * pooled + spread + shift) / 2  # of the inverse gamma
        where = (WEIGHT * centre + count * mean) / weight
        return self._predictive(phi - where, shape, scale, weight)

    def _predictive(self, gap: Numbers, shape: Numbers, scale: Numbers, weight: Numbers) -> Numbers:
        freedom, squared = 2 * shape, scale * (weight + 1) / (weight * shape)
        squared = squared + _SMALL
        from scipy.special import gammaln  # here: reading a sweep file needs none of it

        constant = gammaln((freedom + 1) / 2) - gammaln(freedom / 2) - np.log(freedom * np.pi * squared) / 2
        return np.asarray(constant - (freedom + 1) / 2 * np.log1p(gap**2 / (freedom * squared)), dtype=np.float64)


class BavariaN(BavariaT):
    """BaVarIA with a Gaussian whose variance is the posterior's mean. Source: arXiv 2603.11799."""

    title = "BaVarIA, Gaussian"

    def _predictive(self, gap: Numbers, shape: Numbers, scale: Numbers, weight: Numbers) -> Numbers:
        variance = scale / (shape - 1) + _SMALL  # shape is above 1: two models and a strength above 0
        return np.asarray(-(np.log(2 * np.pi * variance) + gap**2 / variance) / 2, dtype=np.float64)


def sides(evidence: Evidence) -> tuple[tuple[Numbers, Numbers], tuple[Numbers, Numbers]]:
    """(mean [views, n], standard deviation) of models with each image, and of those without it."""
    shadow, inside = present(evidence.shadow_phi, "shadow_phi"), present(evidence.inside, "inside")
    return _side(shadow, inside), _side(shadow, ~inside)


def _side(shadow: Numbers, chosen: Flags) -> tuple[Numbers, Numbers]:
    count, mean, spread = _moments(shadow, chosen)
    own = np.sqrt(spread / count)
    weights = np.broadcast_to(chosen[:, None], shadow.shape)
    shared = np.array([shadow[:, view][weights[:, view]].std() for view in range(shadow.shape[1])])[:, None]
    return mean, np.where(count >= OWN_VARIANCE, own, shared)


def _normal(phi: Numbers, mean: Numbers, deviation: Numbers) -> Numbers:
    deviation = deviation + _SMALL
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
    return np.maximum((p * chosen).sum(axis=0) / chosen.sum(axis=0), _SMALL)


def _same_title(name: str, attack: type[MembershipAttack], known: Mapping[str, type[MembershipAttack]]) -> str | None:
    """Why a plugin's attack cannot stand beside those before it; None where it can."""
    again = attack.title in {other_kind.title for other_kind in known.values()}
    return f"expected a title that no other membership attack has, got {attack.title!r}" if again else None


_OWN: dict[str, type[MembershipAttack]] = {
    "margin": Margin,
    "margin_per_class": MarginPerClass,
    "loss": Loss,
    "loss_per_class": LossPerClass,
    "label_views": LabelViews,
    "label_distance": LabelDistance,
    "lira": Lira,
    "lira_offline": LiraOffline,
    "rmia": Rmia,
    "rmia_offline": RmiaOffline,
    "bavaria_t": BavariaT,
    "bavaria_n": BavariaN,
}

MEMBERSHIP_ATTACKS: dict[str, type[MembershipAttack]] = with_plugins("membership", _OWN, MembershipAttack, _same_title)

VERSION = max(attack.since for attack in _OWN.values())
"""Version of the stage that makes them all: another attack of ours is another version, a plugin's is in settings."""


def title_of(kind: str) -> str:
    """What pages call the attack, and whose it is."""
    return with_plugin_name(MEMBERSHIP_ATTACKS[kind].title, "membership", kind)
