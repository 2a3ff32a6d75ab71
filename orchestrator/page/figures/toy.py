"""One panel of the two-dimensional example: confidence as background, training points, the attack's path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smoothsweep.core.text import minus
from smoothsweep.orchestrator.page.drawing.canvas import INK, SOFT, Canvas
from smoothsweep.orchestrator.reading.numbers.format import significant
from smoothsweep.orchestrator.reading.toy import ToyData, ToyPanel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = 340.0
YELLOW = "#ffd60a"
HUES = {
    "blue": "#3b6fb6",
    "green": "#3f8f4f",
    "orange": "#e07b1a",
    "purple": "#8a4fa3",
    "red": "#b33f62",
    "grey": "#5c6b73",
}
MARKS = {"square": "s", "circle": "o", "pentagon": "p"}
"""Shape -> matplotlib's mark."""


def toy_panel(data: ToyData, panel: ToyPanel) -> Canvas:
    """Confidence as background, training points, the attack's path, and the distance it ended at."""
    title = f"Attack on the model trained with alpha {minus(f'{panel.alpha:g}')}: {panel.steps:,} steps"
    canvas = Canvas(SIZE + 40, SIZE + 36, title)
    axes = canvas.axes(32, 8, 32 + SIZE, 8 + SIZE, grid=None)
    draw_panel(axes, data, panel)
    return canvas


def toy_overview(data: ToyData) -> Canvas:
    """The panels of the first figure side by side."""
    panels = data.figures[0].panels
    canvas = Canvas(245 * len(panels), 270, data.title)
    for index, panel in enumerate(panels):
        axes = canvas.axes(245 * index + 3, 34, 245 * index + 242, 266, grid=None)
        draw_panel(axes, data, panel)
        axes.set(xticks=[], yticks=[])
        distance = "" if panel.distance is None else f", distance {significant(panel.distance)}"
        words = f"alpha {minus(f'{panel.alpha:g}')}: {panel.steps:,} steps{distance}"
        axes.set_title(words, fontsize=10, color=INK)
    return canvas


def draw_panel(axes: Axes, data: ToyData, panel: ToyPanel) -> None:
    """The panel into axes of any size."""
    lo, hi = data.extent
    axes.imshow(background(data, panel), extent=(lo, hi, lo, hi), interpolation="bilinear", aspect="auto")
    for index, name in enumerate(data.class_names):
        mine = data.points[data.labels == index]
        axes.plot(mine[:, 0], mine[:, 1], mark_of(index, name), ms=5.5, color=hue(index, name), mec=INK, mew=0.6)
    path = _drawable(data, panel.path)
    for colour, width in ((INK, 5), (YELLOW, 2.8)):
        axes.plot(path[:, 0], path[:, 1], color=colour, lw=width, gid="path")
    nearest = nearest_point(data, panel)
    if nearest is not None:
        axes.plot(*zip(path[-1], nearest, strict=True), color=INK, lw=1.6, ls=(0, (4, 3)))
    for point, face in ((path[0], "white"), (path[-1], YELLOW)):
        axes.plot(*point, "o", ms=11, mfc=face, mec=INK, mew=2)
    axes.set(xlim=(lo, hi), ylim=(lo, hi))
    axes.tick_params(labelcolor=SOFT)
    axes.locator_params(nbins=5)


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


def _drawable(data: ToyData, path: np.ndarray, most: int = 400) -> np.ndarray:
    """The path up to where it stops being finite, kept within reach of a renderer's arithmetic; at most `most` of its
    points, both ends among them."""
    finite = np.isfinite(path).all(axis=1).cumprod().astype(bool)
    drawable = path[finite] if finite[0] else np.zeros((1, 2))
    reach = 20 * max(abs(end) for end in data.extent)
    keep = np.unique(np.linspace(0, len(drawable) - 1, min(len(drawable), most)).round().astype(int))
    return np.clip(drawable[keep], -reach, reach)


def background(data: ToyData, panel: ToyPanel) -> np.ndarray:
    """uint8 [R, R, 3], north up: white where the model is unsure, the class's colour (or grey) where it is certain."""
    unsure = 1 / max(2, len(data.class_names))
    share = np.clip((panel.confidence - unsure) / (1 - unsure), 0, 1)[..., None]
    if panel.predicted is None:
        colour = np.array([70.0, 90.0, 120.0])
    else:
        hues = [list(bytes.fromhex(hue(index, name)[1:])) for index, name in enumerate(data.class_names)]
        colour = np.array(hues, dtype=float)[panel.predicted.astype(int)]
    shaded = 255 + (colour - 255) * share * 0.55
    return np.ascontiguousarray(shaded.round().astype(np.uint8)[::-1])


def hue(index: int, name: str) -> str:
    """The colour a class name mentions, else the next of the palette."""
    return next((HUES[word] for word in HUES if word in name), list(HUES.values())[index % len(HUES)])


def mark_of(index: int, name: str) -> str:
    """The mark of a class, as its name says, else in turn."""
    return next((mark for word, mark in MARKS.items() if word in name), list(MARKS.values())[index % len(MARKS)])
