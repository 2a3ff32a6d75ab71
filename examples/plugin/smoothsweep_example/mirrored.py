"""A membership attack on what the target answers to an image and its mirror image together."""

from __future__ import annotations

from typing import ClassVar

from smoothsweep.core.checks import present
from smoothsweep.core.membership.base import Evidence, MembershipAttack, Numbers


class LossOverViews(MembershipAttack):
    """The mean log odds over both: who flips pictures in training remembers both."""

    title: ClassVar[str] = "loss, mean over image and mirror image"
    cites: ClassVar[tuple[str, ...]] = ("yeom2018privacy",)
    needs: ClassVar[tuple[str, ...]] = ("phi",)

    def score(self, evidence: Evidence) -> Numbers:
        """Of phi [views, n], the mean over views [n]."""
        return present(evidence.phi, "phi").mean(axis=0)
