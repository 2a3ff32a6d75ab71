"""Settings that fit Plug & Play to a target which hides its gradients, or its differences. They load no torch.

None of them belongs to the published attack: each is absent by default.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Literal

from annotated_types import Ge, Le

from smoothsweep.core.attacks.optimisation.crop_rule import CropRule
from smoothsweep.core.bounds import MOST, Count, Fraction, OpenFraction, Positive
from smoothsweep.core.checks import require, require_range

MOST_DEGREES = 15.0
"""A view turned further shows another image than its neighbour."""

_OF_TRANSFORMS, _OF_NOISE = ("crop_scale", "crop_ratio", "hflip", "degrees"), ("noise",)


@dataclass(frozen=True, kw_only=True)
class Averaging:
    """A step's gradient as the mean over neighbours of the image that the target would be shown.

    AlignMI (arXiv 2509.20177, section 5; AlanPeng0897/AlignMI, high_resolution/attacks/optimize.py), whose values are
    the defaults, but for its 50 views.

    Attributes:
        views: Neighbours of a step, each of them a query.
        kind: "transforms", a random crop, mirror and rotation, or "noise", Gaussian.
        crop_scale: Smallest and largest fraction of the area that a crop keeps, with transforms.
        crop_ratio: Smallest and largest width over height of a crop, with transforms.
        hflip: Probability of a horizontal flip, with transforms.
        degrees: Largest rotation in degrees, with transforms.
        noise: Standard deviation with kind noise, as a fraction of the image's range (0.05 as in the paper; the cited
            code has 0.06).
    """

    views: Count = 8
    kind: Literal["transforms", "noise"] = "transforms"
    crop_scale: tuple[float, float] = (0.8, 1.0)
    crop_ratio: tuple[float, float] = (0.9, 1.1)
    hflip: Fraction = 0.5
    degrees: Annotated[float, Ge(0), Le(MOST_DEGREES)] = 5.0
    noise: Positive = 0.05

    def __post_init__(self) -> None:
        require_range("attack.average.crop_scale", self.crop_scale, 0, 1)
        require_range("attack.average.crop_ratio", self.crop_ratio, 0, float("inf"))
        unread = _OF_NOISE if self.kind == "transforms" else _OF_TRANSFORMS
        for field in fields(self):
            read = field.name not in unread or getattr(self, field.name) == field.default
            require(
                read,
                f"attack.average.{field.name}",
                f"no value with kind {self.kind}, which does not read it",
                getattr(self, field.name),
            )

    @property
    def crop_rule(self) -> CropRule:
        """The crop and the mirror of a neighbour."""
        return CropRule(scale=self.crop_scale, ratio=self.crop_ratio, hflip=self.hflip)


@dataclass(frozen=True, kw_only=True)
class TemperatureScaling:
    """Logits are divided by a temperature before the loss, so that the loss of an overconfident target does not vanish.

    mean_confidence: the temperature is the one at which the target's mean top-1 softmax on the pool's images is this.
    """

    mean_confidence: OpenFraction = 0.5


@dataclass(frozen=True, kw_only=True)
class Restarts:
    """Further descents from around every candidate, all of which go on to stage 3.

    Attributes:
        count: Descents of a candidate in all, the first from the candidate itself.
        spread: How far around it the others begin, in standard deviations of every coordinate over the pool.
    """

    count: Annotated[int, Ge(2), Le(MOST)] = 2
    spread: Positive = 0.5
