"""What an attack costs by a rate that others state: for a plan before anything was measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class StatedRate:
    """How fast an attack runs by a published statement.

    Attributes:
        hours: Hours that one `device` took for `latents` candidates with a prior of `side` pixels.
        source: Who says so, and where to read it.
    """

    device: str
    hours: float
    latents: int
    side: int
    source: str


@dataclass(frozen=True, kw_only=True)
class StatedWork:
    """What an attack computes for a class, in the unit of a stated rate.

    Attributes:
        rate: Rate of this kind of attack.
        latents: Latents that it optimises per class, in `steps` steps.
        crop: Pixels of the prior's pictures that it keeps, None for whole ones.
    """

    rate: StatedRate
    latents: int
    steps: int
    crop: int | None

    @property
    def hours(self) -> float:
        """Device-hours of one class."""
        return self.rate.hours * self.latents / self.rate.latents
