"""What a membership attack is: its parameters, what it must be shown, and the score it gives an image.

An attack is a frozen dataclass of its parameters with a `score`. docs/new-membership-attack.md shows how to add one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from smoothsweep.core.checks import require
from smoothsweep.core.declared import check_fields
from smoothsweep.core.errors import InputError
from smoothsweep.core.membership.evidence import Evidence, Numbers

Access = Literal["labels", "scores", "training"]
"""What the attacker sees: the target's labels, its scores, or the losses of its training as well."""

LEAST_SHADOWS = 4
"""Shadow models, so that two were trained with an image and two without it."""


@dataclass(frozen=True, kw_only=True)
class LabelQueries:
    """What attacks by labels ask.

    Attributes:
        copies: Shifted copies of each image.
        levels: Levels of noise that each image is shown under.
        images: Training images, and as many others, that labels are asked of; None for all.
        seed: Seed of the images drawn, the copies and the noise.
    """

    copies: int
    levels: int
    images: int | None
    seed: int


@dataclass(frozen=True, kw_only=True)
class MembershipAttack:
    """An attack that calls no image a member; a kind of attack overrides what it changes.

    Attributes:
        title: What a page calls it.
        cites: Its sources, as `core.citations` has them.
        since: The version of the stage `judge_membership` that first had it, or first had its present numbers: a new
            attack has the next version.
        access: What it sees of the target.
        needs: The fields of `Evidence` that it reads.
    """

    title: ClassVar[str] = "an attack"
    cites: ClassVar[tuple[str, ...]] = ()
    since: ClassVar[int] = 1
    access: ClassVar[Access] = "scores"
    needs: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        check_fields(self, "membership attack: ")

    @property
    def shadows(self) -> bool:
        """Whether it needs shadow models."""
        return "shadow_phi" in self.needs

    def missing_evidence(self, evidence: Evidence) -> tuple[str, ...]:
        """What of its evidence is not there."""
        return tuple(name for name in self.needs if not evidence.has(name))

    def scores(self, evidence: Evidence) -> Numbers:
        """How much each image looks like a member, finite float64 [n]: larger is more.

        Raises InputError, one line, where evidence is missing or a score is not finite.
        """
        if lacking := self.missing_evidence(evidence):
            raise InputError(f"membership attack {self.title}: expected {', '.join(lacking)}, got none")
        scores = self.score(evidence)
        if not bool((abs(scores) < float("inf")).all()):
            raise InputError(f"membership attack {self.title}: expected finite scores, got infinite ones or NaN")
        return scores

    def score(self, evidence: Evidence) -> Numbers:
        """As `scores`, of evidence that is there."""
        raise NotImplementedError  # every attack has its own: a test asks each row of the table


def check_shadows(count: int, where: str) -> None:
    """Raise InputError for a number of shadow models with which images would not be in as many as they are out of."""
    fits = count % 2 == 0 and (count == 0 or count >= LEAST_SHADOWS)
    require(fits, where, f"0, or an even number of at least {LEAST_SHADOWS}", count)
