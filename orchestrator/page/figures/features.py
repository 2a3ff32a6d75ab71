"""How each target places its training images: maps in the plane, and distances as distributions with their medians."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsweep.orchestrator.page.drawing.canvas import INK, SOFT, Canvas, words_for
from smoothsweep.orchestrator.page.drawing.colours import Colours
from smoothsweep.orchestrator.result.data import FeatureView

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIDE, GAP, LEFT, TOP = 200.0, 16.0, 48.0, 46.0
ACROSS = 4
PALETTE = ("#0072b2", "#c4500a", "#00805f", "#9a4f84", "#8a6d00", "#5a4fb0", "#7a3b2e", "#3d7a2a", "#b0206a", "#1f6f78")
"""Colours of classes, used again and again: that is why neighbours of one colour may be strangers."""

KINDS = (
    ("intra", "same\nclass"),
    ("inter", "other\nclasses"),
    ("intra_nearest", "nearest,\nsame"),
    ("inter_nearest", "nearest,\nother"),
)


def feature_maps(views: Mapping[str, FeatureView], colours: Colours) -> Canvas | None:
    """t-SNE above, PCA below, a column for each recipe; None without any."""
    return _grid(views, colours, 2, "Training images in the target's features, by recipe: t-SNE, and PCA", SIDE, _maps)


def feature_violins(views: Mapping[str, FeatureView], colours: Colours) -> Canvas | None:
    """The distributions of distances in units of the largest, a panel for each recipe; None without any."""
    title = "Distances between training images in the target's features, by recipe"
    return _grid(views, colours, 1, title, 260, _violins)


Draw = Callable[[list["Axes"], FeatureView, str, bool], None]


def _grid(
    views: Mapping[str, FeatureView], colours: Colours, rows: int, title: str, height: float, draw: Draw
) -> Canvas | None:
    """`ACROSS` recipes side by side, as often as needed; `draw` fills the `rows` panels of each."""
    if not views:
        return None
    bands, block = -(-len(views) // ACROSS), TOP + rows * (height + GAP) + 24
    canvas = Canvas(LEFT + min(ACROSS, len(views)) * (SIDE + GAP), bands * block, title)
    for place, (recipe, view) in enumerate(views.items()):
        left, top = LEFT + (place % ACROSS) * (SIDE + GAP), (place // ACROSS) * block + TOP
        panels = [
            canvas.axes(left, top + row * (height + GAP), left + SIDE, top + row * (height + GAP) + height, grid=None)
            for row in range(rows)
        ]
        panels[0].set_title(words_for(recipe), fontsize=12, color=INK, loc="left", pad=8)
        draw(panels, view, colours.of(recipe), place % ACROSS == 0)
    return canvas


def _maps(panels: list[Axes], view: FeatureView, colour: str, first: bool) -> None:
    kept = view.drawn
    hues = [PALETTE[int(label) % len(PALETTE)] for label in kept["class"]]
    for axes, way, name in zip(panels, ("tsne", "pca"), ("t-SNE", "PCA"), strict=True):
        for hue in dict.fromkeys(hues):
            mine = kept[[colour == hue for colour in hues]]
            axes.plot(mine[f"{way}_x"], mine[f"{way}_y"], "o", ms=2.6, mew=0, color=hue, alpha=0.8)
        axes.set(xticks=[], yticks=[])
        axes.spines["bottom"].set_visible(False)
        if first:
            axes.set_ylabel(name, fontsize=12, color=SOFT)


def _violins(panels: list[Axes], view: FeatureView, colour: str, first: bool) -> None:
    (axes,) = panels
    for place, (key, _) in enumerate(KINDS):
        values = view.distances[key].dropna().to_numpy()
        if not len(values):
            continue
        if np.ptp(values) > 0:
            drawn: Any = axes.violinplot([values], [place], widths=0.8, showextrema=False)
            for body in drawn["bodies"]:
                body.set(facecolor=colour, alpha=0.45, edgecolor="none")
        median = float(np.median(values))
        axes.plot([place - 0.3, place + 0.3], [median] * 2, color=INK, lw=2)
        axes.annotate(
            f"{median:.2f}", (place, median), (0, 4), textcoords="offset points", ha="center", fontsize=11, color=INK
        )
    axes.axvline(1.5, color=SOFT, lw=1, ls=(0, (2, 4)))
    axes.set(xlim=(-0.6, 3.6), ylim=(0, 1.02), xticks=range(4))
    axes.set_xticklabels([words for _, words in KINDS], fontsize=9.5)
    if first:
        axes.set_ylabel("distance, of the largest", fontsize=12, color=SOFT)
    else:
        axes.set_yticklabels([])
