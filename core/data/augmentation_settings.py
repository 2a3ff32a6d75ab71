"""What may happen to a training image. Apart from the doing, so that a recipe is checked without loading torch."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from smoothsweep.core.bounds import Fraction, NotNegative, Ratios, Shares
from smoothsweep.core.declared import check_fields


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """What may happen to a training image; the defaults are the paper's (Appendix B.3).

    0 (or a scale and ratio of 1) switches a part off.

    Attributes:
        crop_scale: Smallest and largest fraction of the area that is kept, in (0, 1].
        crop_ratio: Smallest and largest width over height of the crop.
        brightness, contrast, saturation: S draws a factor from [max(0, 1-s), 1+s].
        hue: H in [0, 0.5] draws a shift from [-h, h] of the colour circle.
        flip: Probability of a horizontal flip.
        shared: One draw for all images of a batch, as torchvision's transforms do to a batch tensor, instead of one for
            each.
    """

    crop_scale: Shares = (0.85, 1.0)
    crop_ratio: Ratios = (1.0, 1.0)
    brightness: NotNegative = 0.2
    contrast: NotNegative = 0.2
    saturation: NotNegative = 0.1
    hue: Annotated[float, Ge(0), Le(0.5)] = 0.1
    flip: Fraction = 0.5
    shared: bool = False

    def __post_init__(self) -> None:
        check_fields(self, "augmentation ")

    @classmethod
    def none(cls) -> Augmentation:
        """No change at all."""
        return cls(crop_scale=(1.0, 1.0), brightness=0.0, contrast=0.0, saturation=0.0, hue=0.0, flip=0.0)

    def replace(self, **changes: float | bool | tuple[float, float]) -> Augmentation:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    @property
    def crops(self) -> bool:
        """Whether a box can be anything but the whole (square) image."""
        return self.crop_scale != (1.0, 1.0) or self.crop_ratio != (1.0, 1.0)
