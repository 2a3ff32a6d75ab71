"""Where a name goes beside its point, so that names cover neither each other nor points and bars."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

Box = tuple[float, float, float, float]
"""left, top, right, bottom in pixels."""


class Spot(NamedTuple):
    """Where a text goes: its anchor, its side of the anchor, and whether it is far enough away to need a leader."""

    x: float
    y: float
    left_aligned: bool
    leader: bool


@dataclass
class Labels:
    """Greedy, first come: the nearest free place wins; where none is, the nearest that covers no other name.

    boxes: points and bars; names: those that have been placed.
    """

    boxes: list[Box] = field(default_factory=list)
    names: list[Box] = field(default_factory=list)

    def keep_clear(self, left: float, top: float, right: float, bottom: float) -> None:
        self.boxes.append((left, top, right, bottom))

    def place(self, x: float, y: float, width: float, within: Box) -> Spot:
        """The nearest free spot for a text of `width` pixels at the point (x, y)."""
        found = []
        for dy in (4, -10, 19, -25, 34, -40, 49, -55, 64, -70, 79):
            for dx in (10, -10):
                left = x + dx - (0 if dx > 0 else width)
                box = (left, y + dy - 11, left + width, y + dy + 3)
                if box[0] >= within[0] and box[2] <= within[2] and box[1] >= within[1] and box[3] <= within[3]:
                    found.append((box, Spot(x + dx, y + dy, dx > 0, abs(dy - 4) > 16)))
        outside = ((x, y - 7, x + width, y + 7), Spot(x + 10, y + 4, left_aligned=True, leader=False))
        readable = [option for option in found if not _covers(option[0], self.names)]
        free = (option for option in readable if not _covers(option[0], self.boxes))
        box, spot = next(free, next(iter([*readable, *found]), outside))
        self.names.append(box)
        return spot


def _covers(box: Box, others: Iterable[Box]) -> bool:
    return any(_overlap(box, other) for other in others)


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def text_width(text: str, size: float = 12) -> float:
    """Width of a bold text in pixels, generous enough to keep labels apart."""
    return sum(0.38 if c in "iljt.,:;|! '" else 1.0 if c in "mwMW" else 0.64 for c in text) * size
