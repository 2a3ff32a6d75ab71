"""Where a name goes beside its point, so that names cover neither each other nor points and, if possible, no bars."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

Box = tuple[float, float, float, float]
"""left, top, right, bottom in pixels."""

LINE_HEIGHT = 14.0
"""Pixels from one line of a name to the next."""
_ASIDE = (10, 40, 90, 150, 220, 300)
"""Pixels between a point and the near end of its name, on either side."""
_STEP = 5
"""Pixels between two heights that are tried."""
_ON_A_BAR, _THROUGH = 60.0, 90.0
"""What it costs a place, in pixels of distance, to cover a bar, and to have a leader across another name or point."""


class Spot(NamedTuple):
    """Where a text goes: its anchor, its side of the anchor, and whether it is far enough away to need a leader.

    (x, y) is the near end of the base line of its first line.
    """

    x: float
    y: float
    left_aligned: bool
    leader: bool


@dataclass
class Labels:
    """Greedy, first come: the best free place wins. A name never covers another name or a point.

    Attributes:
        boxes: Bars and lines, which a name covers only where it must.
        marks: The points that no label may cover.
        names: Boxes of the names that have been placed.
        leaders: Small boxes along the lines from points to their names.
    """

    boxes: list[Box] = field(default_factory=list)
    marks: list[Box] = field(default_factory=list)
    names: list[Box] = field(default_factory=list)
    leaders: list[Box] = field(default_factory=list)

    def keep_clear(self, left: float, top: float, right: float, bottom: float) -> None:
        """A bar or a line."""
        self.boxes.append((left, top, right, bottom))

    def mark(self, x: float, y: float, reach: float) -> None:
        """A point, so many pixels around its middle."""
        self.marks.append((x - reach, y - reach, x + reach, y + reach))

    def place(self, x: float, y: float, width: float, within: Box, *, lines: int = 1) -> Spot | None:
        """The best free spot for a text of `width` pixels at the point (x, y); None where nothing is free."""
        best: tuple[float, Spot, Box, list[Box]] | None = None
        for cost, spot, box in _options(x, y, width, within, lines):
            if best is not None and cost >= best[0]:
                break  # what follows lies further away still
            if _covers(box, self.names) or _covers(box, self.marks):
                continue
            leader = _along((x, y), (spot.x, spot.y)) if spot.leader else []
            cost += _ON_A_BAR * (_covers(box, self.boxes) + _covers(box, self.leaders))
            others = [mark for mark in self.marks if not (mark[0] <= x <= mark[2] and mark[1] <= y <= mark[3])]
            cost += _THROUGH * any(_covers(step, [*self.names, *others]) for step in leader)
            if best is None or cost < best[0]:
                best = cost, spot, box, leader
        if best is None:
            return None
        self.names.append(best[2])
        self.leaders += best[3]
        return best[1]


def _options(x: float, y: float, width: float, within: Box, lines: int) -> list[tuple[float, Spot, Box]]:
    """Every place within the panel with its distance, the nearest first."""
    options = []
    above, below = 11.0, 3.0 + LINE_HEIGHT * (lines - 1)
    heights = [y + 4 + _STEP * step for step in range(-200, 201)]
    for base in (height for height in heights if within[1] + above <= height <= within[3] - below):
        for aside in _ASIDE:
            for side in (1, -1):
                start = x + side * aside
                left = start if side > 0 else start - width
                if left < within[0] or left + width > within[2]:
                    continue
                far = abs(base - y - 4)
                leader = far > 16 or aside > 10
                distance = math.hypot(far, aside - 10) + 0.5 * (side < 0)
                spot = Spot(start, base, left_aligned=side > 0, leader=leader)
                options.append((distance, spot, (left, base - above, left + width, base + below)))
    return sorted(options, key=lambda option: option[0])


def _along(start: tuple[float, float], end: tuple[float, float]) -> list[Box]:
    """Small boxes along a line, without its first pixels, which lie on its own point."""
    length = math.hypot(end[0] - start[0], end[1] - start[1])
    steps = [step / length for step in range(13, math.floor(length), 6)] if length else []
    spots = [(start[0] + (end[0] - start[0]) * step, start[1] + (end[1] - start[1]) * step) for step in steps]
    return [(x - 1, y - 1, x + 1, y + 1) for x, y in spots]


def _covers(box: Box, others: Iterable[Box]) -> bool:
    return any(_overlap(box, other) for other in others)


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def text_width(text: str, size: float = 12) -> float:
    """Width of a bold text in pixels, generous enough to keep labels apart."""
    return sum(0.38 if c in "iljt.,:;|! '" else 1.0 if c in "mwMW" else 0.64 for c in text) * size
