"""Shapes that tell the families of a figure apart without their colours."""

from __future__ import annotations

import math

from orchestrator.page.markup import Markup, tag


def _regular(corners: int, radius: float, turn: float = 0.0, inner: float | None = None) -> str:
    """A polygon around the origin, a star where every second corner lies at `inner`."""
    steps = corners * (1 if inner is None else 2)
    spots = []
    for step in range(steps):
        reach = inner if inner is not None and step % 2 else radius
        angle = turn - math.pi / 2 + 2 * math.pi * step / steps
        spots.append(f"{reach * math.cos(angle):.2f} {reach * math.sin(angle):.2f}")
    return f"M{'L'.join(spots)}Z"


_PLUS = "M-2-7H2V-2H7V2H2V7H-2V2H-7V-2H-2Z"
_CROSS = "M-6.4-3.5L-3.5-6.4L0-2.9L3.5-6.4L6.4-3.5L2.9 0L6.4 3.5L3.5 6.4L0 2.9L-3.5 6.4L-6.4 3.5L-2.9 0Z"

SHAPES: tuple[str, ...] = (
    "M-6 0A6 6 0 1 0 6 0A6 6 0 1 0-6 0Z",  # disc
    "M-5.3-5.3H5.3V5.3H-5.3Z",  # square
    _regular(4, 7.6),  # diamond
    _regular(3, 7.6),  # triangle
    _regular(3, 7.6, math.pi),  # triangle on its tip
    _regular(5, 8.2, inner=3.4),  # star
    _PLUS,
    _CROSS,
    _regular(5, 7, math.pi),  # pentagon on its tip
    _regular(3, 7.6, math.pi / 2),  # triangle to the right
    "M-5.5-6.5H5.5L-5.5 6.5H5.5Z",  # hourglass
    _regular(6, 6.8),  # hexagon
    _regular(3, 7.6, -math.pi / 2),  # triangle to the left
)
"""Outlines about 14 pixels wide around the origin, in the order of the families."""


def marker(index: int, x: float, y: float, *, hollow: bool = False, size: float = 1.0) -> Markup:
    """The index-th shape at (x, y) in the colour `--rc`; hollow: its outline alone."""
    place = f"translate({x:.2f} {y:.2f})" + (f" scale({size:g})" if size != 1 else "")
    return tag("path", d=SHAPES[index % len(SHAPES)], transform=place, class_="ring" if hollow else "dot")
