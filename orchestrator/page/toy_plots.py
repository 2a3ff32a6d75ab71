"""One panel of the two-dimensional example: confidence as background, training points, the attack's path."""

from __future__ import annotations

import math

import numpy as np

from orchestrator.page.markup import Markup, tag
from orchestrator.page.sheets import data_uri
from orchestrator.page.svg import Scale, figure, label, line, plain, ticks
from orchestrator.reading.numbers.format import minus
from orchestrator.reading.numbers.model import ToyData, ToyPanel

SIZE = 340.0
HUES = {
    "blue": "#3b6fb6",
    "green": "#3f8f4f",
    "orange": "#e07b1a",
    "purple": "#8a4fa3",
    "red": "#b33f62",
    "grey": "#5c6b73",
}
SIDES = {"square": 4, "circle": 0, "pentagon": 5}


def toy_panel(data: ToyData, panel: ToyPanel) -> Markup:
    """Confidence as background, training points, the attack's path, and the distance it ended at."""
    lo, hi = data.extent
    x, y = Scale(lo=lo, hi=hi, start=26, end=26 + SIZE), Scale(lo=lo, hi=hi, start=8 + SIZE, end=8)
    ground = tag(
        "image",
        href=data_uri(background(data, panel)),
        x=x.start,
        y=y.end,
        width=SIZE,
        height=SIZE,
        preserveAspectRatio="none",
        style="image-rendering:auto",
    )
    dots = [
        shape(int(index), data.class_names[int(index)], x(px), y(py), 3.1)
        for (px, py), index in zip(data.points, data.labels, strict=True)
    ]
    marks = [label(x(value), y.start + 17, plain(value), "soft small", "middle") for value in ticks(lo, hi, 4)]
    marks += [label(x.start - 5, y(value) + 4, plain(value), "soft small", "end") for value in ticks(lo, hi, 4)]
    clipped = {"x": x.start, "y": y.end, "width": SIZE, "height": SIZE, "overflow": "hidden"}
    window = f"{x.start:g} {y.end:g} {SIZE:g} {SIZE:g}"
    inside = tag("svg", *dots, *_path(data, panel, x, y), viewBox=window, **clipped)
    title = f"Attack on the model trained with alpha {minus(f'{panel.alpha:g}')}: {panel.steps:,} steps"
    return figure(x.end + 8, y.start + 26, title, tag("title", title), ground, inside, *marks)


def _path(data: ToyData, panel: ToyPanel, x: Scale, y: Scale) -> list[Markup]:
    points = [(x(px), y(py)) for px, py in _thinned(_drawable(data, panel.path))]
    parts = [
        tag(
            "polyline",
            points=" ".join(f"{px:.1f},{py:.1f}" for px, py in points),
            fill="none",
            stroke=colour,
            stroke_width=width,
            stroke_linejoin="round",
        )
        for colour, width in (("#1d1d1b", 5), ("#ffd60a", 2.8))
    ]
    (sx, sy), (ex, ey) = points[0], points[-1]
    nearest = nearest_point(data, panel)
    if nearest is not None:
        gap = line(ex, ey, x(nearest[0]), y(nearest[1]), "gap")
        parts.append(tag("g", gap, stroke="#1d1d1b", stroke_width=1.6, stroke_dasharray="4 3"))
    ring = {"r": 5.5, "stroke": "#1d1d1b", "stroke_width": 2}
    return [
        *parts,
        tag("circle", cx=sx, cy=sy, fill="#fff", **ring),
        tag("circle", cx=ex, cy=ey, fill="#ffd60a", **ring),
    ]


def ends_inside(data: ToyData, panel: ToyPanel) -> bool:
    """Whether the path's end lies within the picture."""
    lo, hi = data.extent
    return bool(((panel.path[-1] >= lo) & (panel.path[-1] <= hi)).all())


def nearest_point(data: ToyData, panel: ToyPanel) -> np.ndarray | None:
    """The training point of the target class nearest to the path's end; None where that end is nowhere."""
    mine = data.points[data.labels == data.target_class]
    if not len(mine) or not np.isfinite(panel.path[-1]).all():
        return None
    return mine[np.linalg.norm(mine - panel.path[-1], axis=1).argmin()]


def _drawable(data: ToyData, path: np.ndarray) -> np.ndarray:
    """The path up to where it stops being finite, kept within reach of a renderer's arithmetic."""
    broken = np.flatnonzero(~np.isfinite(path).all(axis=1))
    kept = path[: broken[0]] if len(broken) else path
    reach = 20 * max(abs(end) for end in data.extent)
    return np.clip(kept if len(kept) else np.zeros((1, 2)), -reach, reach)


def _thinned(path: np.ndarray, most: int = 400) -> np.ndarray:
    """At most `most` points of a path, both ends among them."""
    keep = np.unique(np.linspace(0, len(path) - 1, min(len(path), most)).round().astype(int))
    return path[keep]


def background(data: ToyData, panel: ToyPanel) -> np.ndarray:
    """uint8 [R, R, 3], north up: white where the model is unsure, the class's colour (or grey) where it is certain."""
    unsure = 1 / max(2, len(data.class_names))
    share = np.clip((panel.confidence - unsure) / (1 - unsure), 0, 1)[..., None]
    if panel.predicted is None:
        colour = np.array([70.0, 90.0, 120.0])
    else:
        hues = np.array([_rgb(hue(index, name)) for index, name in enumerate(data.class_names)], dtype=float)
        colour = hues[panel.predicted.astype(int)]
    shaded = 255 + (colour - 255) * share * 0.55
    return np.ascontiguousarray(shaded.round().astype(np.uint8)[::-1])


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def hue(index: int, name: str) -> str:
    """The colour a class name mentions, else the next of the palette."""
    return next((HUES[word] for word in HUES if word in name), list(HUES.values())[index % len(HUES)])


def sides_of(index: int, name: str) -> int:
    """Corners of a class's mark: 4 for squares, 5 for pentagons, 0 for circles, as its name says, else in turn."""
    return next((corners for word, corners in SIDES.items() if word in name), list(SIDES.values())[index % len(SIDES)])


def swatch(index: int, name: str) -> Markup:
    """A class's mark for the legend."""
    mark = shape(index, name, 7, 7, 5)
    return tag("svg", mark, viewBox="0 0 14 14", width=14, height=14, aria_hidden="true")


def shape(index: int, name: str, x: float, y: float, radius: float) -> Markup:
    """A class's mark at a point: told apart without colour."""
    style = {"fill": hue(index, name), "stroke": "#1d1d1b", "stroke_width": 0.7}
    sides = sides_of(index, name)
    if sides == 0:
        return tag("circle", cx=float(x), cy=float(y), r=radius, **style)
    turn, reach = (math.pi / 4, 1.3 * radius) if sides == 4 else (-math.pi / 2, 1.2 * radius)
    angles = [turn + 2 * math.pi * corner / sides for corner in range(sides)]
    corners = " ".join(f"{x + reach * math.cos(angle):.1f},{y + reach * math.sin(angle):.1f}" for angle in angles)
    return tag("polygon", points=corners, **style)
