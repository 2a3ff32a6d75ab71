"""Compute only the part of a convolutional network's features that a crop of its image depends on.

Every convolution reaches one pixel further, so the part grows by two pixels within a stage and halves from a stage to
the one before it. Outside the image lie zeros, as without windows; at the other edges of a window they would be wrong
and reach two pixels inwards, which the margin holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

MARGIN = 2
"""Pixels that two 3x3 convolutions reach."""


@dataclass(frozen=True)
class Window:
    """Rows and columns from a first one to before a last one, of an image of `side` pixels."""

    side: int
    top: int
    bottom: int
    left: int
    right: int

    def of(self, x: Tensor) -> Tensor:
        """Cut this window out of x [side, side, C]."""
        return x[self.top : self.bottom, self.left : self.right]

    def within(self, outer: Window, x: Tensor) -> Tensor:
        """Cut this window out of x [n, a, b, C], which covers `outer`."""
        rows = slice(self.top - outer.top, self.bottom - outer.top)
        return x[:, rows, self.left - outer.left : self.right - outer.left]

    def before(self, margin: int = 0) -> Window:
        """The window of the features at half the side from which this window, widened by a margin, is computed."""
        side = self.side // 2
        first = [max(0, (edge - margin) // 2) for edge in (self.top, self.left)]
        last = [min(side, -((-edge - margin) // 2)) for edge in (self.bottom, self.right)]
        return Window(side, first[0], last[0], first[1], last[1])

    @property
    def doubled(self) -> Window:
        """The same window at twice the side."""
        return Window(2 * self.side, 2 * self.top, 2 * self.bottom, 2 * self.left, 2 * self.right)


def whole(side: int) -> Window:
    """The window that covers a whole image."""
    return Window(side, 0, side, 0, side)


def stage_windows(window: Window, stages: int) -> list[tuple[Window, Window]]:
    """Windows of every stage, first to last: the one that it computes, and the correct part of it that is needed.

    window: the part of the picture to compute, of twice the side of the last stage.
    """
    windows, needed = [], window.before()
    for _ in range(stages):
        below = needed.before(MARGIN)
        windows.append((below.doubled, needed))
        needed = below
    return windows[::-1]


def sampling(side: int, start: float, length: float, size: int) -> tuple[Tensor, int, int]:
    """Resample `length` pixels from `start` on, of `side` pixels, to `size`.

    Returns weights float32 [size, last - first], and first and last of the pixels that count. Linear between
    neighbours, averaging where it shrinks: the triangle filter, by which Pillow and torch resize with antialiasing.
    """
    scale = length / size
    reach = max(1.0, scale)
    centres = start + (np.arange(size) + 0.5) * scale - 0.5
    weights = np.clip(1 - np.abs(np.arange(side) - centres[:, None]) / reach, 0, None)
    weights /= weights.sum(axis=1, keepdims=True)
    used = np.flatnonzero(weights.sum(axis=0))
    first, last = int(used[0]), int(used[-1]) + 1
    return torch.from_numpy(weights[:, first:last].astype(np.float32)), first, last
