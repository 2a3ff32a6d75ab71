"""Frames FFHQ's faces to a data set by where its eyes are. Loads no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from smoothsweep.core.errors import InputError

ALIGNED = 1024
EYES = ((383, 482), (641, 482))
"""FFHQ's aligned images: the side in pixels, and about where the eyes are (x, y)."""
LEVEL = 0.2  # how far one eye may stand above the other, of their distance: frames are not turned

Coordinate = Annotated[float, Ge(0), Le(4096)]
Side = Annotated[int, Ge(8), Le(4096)]


@dataclass(frozen=True, kw_only=True)
class Crop:
    """Where the eyes are in the data's images, so that the prior's faces are cropped to the same frame.

    Attributes:
        left_eye, right_eye: X and y in pixels of the eye that is left, or right, in the image.
        side: Side of these images in pixels.
    """

    left_eye: tuple[Coordinate, Coordinate]
    right_eye: tuple[Coordinate, Coordinate]
    side: Side

    def __post_init__(self) -> None:
        self.frame()

    def frame(self) -> tuple[float, float, float]:
        """Left, top and side of the square, as fractions of the prior's image. Raises InputError, one line."""
        (left, top), (right, bottom) = self.left_eye, self.right_eye
        distance = math.hypot(right - left, bottom - top)
        if max(left, top, right, bottom) >= self.side:
            got = f"{list(self.left_eye)}, {list(self.right_eye)}"
            raise InputError(f"prior.crop: expected eyes within {self.side} pixels, got {got}")
        if right - left < self.side / 50 or abs(bottom - top) > LEVEL * distance:
            got = f"{list(self.left_eye)}, {list(self.right_eye)}"
            raise InputError(f"prior.crop: expected the left eye left of the right one, about level, got {got}")
        scale = (EYES[1][0] - EYES[0][0]) / distance
        middle = (EYES[0][0] + EYES[1][0]) / 2
        corner = (middle - scale * (left + right) / 2, EYES[0][1] - scale * (top + bottom) / 2)
        if min(corner) < 0 or max(corner) + scale * self.side > ALIGNED:
            numbers = ", ".join(
                f"{number:.0f}" for number in (*corner, *(start + scale * self.side for start in corner))
            )
            raise InputError(
                f"prior.crop: expected a frame within the {ALIGNED} pixels of the prior's images, got the square "
                f"({numbers}): the data show more around the face than it does"
            )
        return corner[0] / ALIGNED, corner[1] / ALIGNED, scale * self.side / ALIGNED
