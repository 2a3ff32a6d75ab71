"""Which random crops a stage draws. Apart from the drawing, so that an attack is checked without loading torch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from smoothsweep.core.errors import InputError


@dataclass(frozen=True, kw_only=True)
class CropRule:
    """Which boxes may be drawn.

    Attributes:
        scale: Range of the share of the area, in (0, 1].
        ratio: Range of width / height.
        hflip: Probability of a mirror image.
    """

    scale: tuple[float, float]
    ratio: tuple[float, float] = (1.0, 1.0)
    hflip: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise InputError(f"crop_scale: expected 0 < low <= high <= 1, got {self.scale}")
        if not 0 < self.ratio[0] <= self.ratio[1] < math.inf:
            raise InputError(f"crop_ratio: expected 0 < low <= high, got {self.ratio}")
        if not 0 <= self.hflip <= 1:
            raise InputError(f"hflip: expected a probability in [0, 1], got {self.hflip}")

    @property
    def is_identity(self) -> bool:
        """Whether every view is the image itself."""
        return self.scale == (1, 1) and self.ratio == (1, 1) and self.hflip == 0
