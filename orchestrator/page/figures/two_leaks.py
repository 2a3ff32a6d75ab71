"""Inversion against membership: a point for each recipe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from smoothsweep.core.checks import present
from smoothsweep.core.metrics.intervals import crossed_mean_interval
from smoothsweep.orchestrator.page.drawing.canvas import LINE, SOFT, Canvas, percent, words_for
from smoothsweep.orchestrator.page.drawing.colours import Colours
from smoothsweep.orchestrator.page.figures.labels import Labels
from smoothsweep.orchestrator.page.figures.naming import Named, write_names
from smoothsweep.orchestrator.result.format import estimate, is_null
from smoothsweep.orchestrator.result.membership import TwoLeaks, title_of
from smoothsweep.orchestrator.result.summary import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 620.0, 390.0


def two_leaks_figure(leaks: TwoLeaks | None, summary: Summary, colours: Colours) -> Canvas | None:
    """None where no recipe has both leaks."""
    both = [(row, row.inversion) for row in leaks.rows if row.inversion is not None] if leaks else []
    if leaks is None or not both:
        return None
    canvas = Canvas(WIDTH, HEIGHT, "Inversion against membership of every recipe")
    axes = canvas.axes(56, 24, WIDTH - 16, HEIGHT - 52, grid="both")
    attack, spots = leaks.attacks[0], []
    for row, inversion in both:
        across, colour = summary.estimate(inversion, summary.deciding), colours.of(row.recipe)
        member = crossed_mean_interval(row.cells[attack], bounds=(0.0, 1.0))
        x, y = present(across.value, "leak"), member.mean
        if not is_null(across.low) and not is_null(across.high):
            axes.plot([float(across.low), float(across.high)], [y, y], color=colour, lw=1.4, alpha=0.7)
        if member.low is not None and member.high is not None:
            axes.plot([x, x], [member.low, member.high], color=colour, lw=1.4, alpha=0.7)
        (mark,) = axes.plot([x], [y], "o", ms=9, color=colour, mew=0, zorder=4)
        inverted = summary.value_text(inversion)
        auc = estimate(leaks.spec, member.mean, member.low, member.high)
        canvas.describe(mark, f"{row.recipe}: inversion {inverted}, membership {auc}")
        spots.append((row.recipe, x, y, colour))
    axes.axhline(0.5, color=SOFT, lw=1.2, ls=(0, (8, 3, 2, 3)))
    axes.margins(x=0.18, y=0.12)
    axes.xaxis.set_major_formatter(percent)
    axes.yaxis.set_major_formatter(percent)
    axes.set_xlabel(words_for(f"inversion: {summary.spec.label}, %"), fontsize=12, color=SOFT)
    axes.set_ylabel(words_for(f"membership: AUC within persons, {title_of(attack)}, %"), fontsize=11, color=SOFT)
    axes.spines["bottom"].set_color(LINE)
    _name(canvas, axes, spots)
    return canvas


def _name(canvas: Canvas, axes: Axes, spots: Sequence[tuple[str, float, float, str]]) -> None:
    """Names beside their points. spots: name, place, colour."""
    labels = Labels()
    for _, x0, y0, _ in spots:
        px, py = axes.transData.transform((x0, y0))
        labels.mark(px, -py, 7)
    write_names(canvas, axes, labels, [Named(name, name, x, y, colour) for name, x, y, colour in spots])
