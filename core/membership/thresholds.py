"""Membership attacks by thresholds on the target's answers, without training another model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smoothsweep.core.checks import present
from smoothsweep.core.membership.base import MembershipAttack
from smoothsweep.core.membership.evidence import Evidence, Numbers

_TINY = 1e-12  # of a class whose images all have one score


@dataclass(frozen=True, kw_only=True)
class Margin(MembershipAttack):
    """The true class's logit minus the largest other one."""

    title: ClassVar[str] = "threshold on the margin"
    cites: ClassVar[tuple[str, ...]] = ("yeom2018privacy",)
    needs: ClassVar[tuple[str, ...]] = ("margin",)

    def score(self, evidence: Evidence) -> Numbers:
        return present(evidence.margin, "margin")


@dataclass(frozen=True, kw_only=True)
class Loss(MembershipAttack):
    """Cross entropy, small for members. It orders images as log odds do, which is what is returned: a loss of nearly 0
    has no digits left. Source: Yeom et al. 2018, adversary 2."""

    title: ClassVar[str] = "threshold on the loss"
    cites: ClassVar[tuple[str, ...]] = ("yeom2018privacy",)
    needs: ClassVar[tuple[str, ...]] = ("phi",)

    def score(self, evidence: Evidence) -> Numbers:
        return present(evidence.phi, "phi")[0]


@dataclass(frozen=True, kw_only=True)
class MarginPerClass(Margin):
    """The margin with a threshold for each class: its distance from the class's mean over its standard deviation."""

    title: ClassVar[str] = "margin, a threshold per class"

    def score(self, evidence: Evidence) -> Numbers:
        return standardised_by_class(present(evidence.margin, "margin"), evidence.labels)


@dataclass(frozen=True, kw_only=True)
class LossPerClass(Loss):
    """The loss with a threshold for each class, of log odds as `MarginPerClass`. Source: Song and Mittal 2021."""

    title: ClassVar[str] = "loss, a threshold per class"

    def score(self, evidence: Evidence) -> Numbers:
        return standardised_by_class(present(evidence.phi, "phi")[0], evidence.labels)


@dataclass(frozen=True, kw_only=True)
class LossTrace(MembershipAttack):
    """The interquartile range of the image's loss over the epochs of training: which images are exposed.

    The owner alone has these losses. Large where the loss fell late. Source: arXiv 2411.05743.
    """

    title: ClassVar[str] = "spread of the loss over training"
    cites: ClassVar[tuple[str, ...]] = ("pollock2024free",)
    access = "training"
    needs: ClassVar[tuple[str, ...]] = ("losses",)

    def score(self, evidence: Evidence) -> Numbers:
        low, high = np.percentile(present(evidence.losses, "losses"), [25, 75], axis=0)
        return np.asarray(high - low, dtype=np.float64)


def standardised_by_class(scores: Numbers, labels: np.ndarray) -> Numbers:
    """Scores [n] minus the mean of their class, over its standard deviation (all images, members or not)."""
    standardised = np.empty_like(scores)
    for label in np.unique(labels):
        own = scores[labels == label]
        standardised[labels == label] = (own - own.mean()) / max(float(own.std()), _TINY)
    return standardised
