"""Attacks that see the target's labels alone: scores that are masked do not lower them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from smoothsweep.core.checks import present
from smoothsweep.core.membership.base import MembershipAttack
from smoothsweep.core.membership.evidence import Evidence, Numbers


@dataclass(frozen=True, kw_only=True)
class LabelViews(MembershipAttack):
    """How often the label is right over shifted and mirrored copies. Source: Choquette-Choo et al. 2021, section 4.2.

    What the published attack learns by a shadow model, which copies matter, is not learnt: each counts alike.
    """

    title: ClassVar[str] = "labels over views"
    cites: ClassVar[tuple[str, ...]] = ("choquettechoo2021label",)
    access = "labels"
    needs: ClassVar[tuple[str, ...]] = ("right_over_views",)

    def score(self, evidence: Evidence) -> Numbers:
        return np.asarray(present(evidence.right_over_views, "views").mean(axis=0), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class LabelDistance(MembershipAttack):
    """How far the decision boundary lies, told by how often the label is right under growing noise.

    Source: Choquette-Choo et al. 2021, section 4.3, its cheap variant (random noise in the place of HopSkipJump). The
    fraction of right labels over the levels of noise grows with the distance.
    """

    title: ClassVar[str] = "labels, distance to the boundary"
    cites: ClassVar[tuple[str, ...]] = ("choquettechoo2021label",)
    access = "labels"
    needs: ClassVar[tuple[str, ...]] = ("right_over_noise",)

    def score(self, evidence: Evidence) -> Numbers:
        return np.asarray(present(evidence.right_over_noise, "noise").mean(axis=0), dtype=np.float64)
