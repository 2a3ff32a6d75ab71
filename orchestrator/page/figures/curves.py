"""Curves: over epochs, the steps of an attack, the smoothing factor, a search; and a search's parameters."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from smoothsweep.core.text import minus
from smoothsweep.orchestrator.page.figures.canvas import (
    DASHED,
    INK,
    KEY,
    SOFT,
    Canvas,
    Named,
    clean,
    limits,
    write_names,
)
from smoothsweep.orchestrator.page.figures.colours import CATEGORIES, Colours
from smoothsweep.orchestrator.result.data import SearchView, progress
from smoothsweep.orchestrator.result.format import is_null
from smoothsweep.orchestrator.result.leaks import AdvantagePanel
from smoothsweep.orchestrator.result.searches import aim_words, proposal_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 880.0, 306.0
Curve = Sequence[tuple[float, float]]


def alpha_curves(curves: Mapping[str, Sequence[float]], colours: Colours, named: Collection[str]) -> Canvas | None:
    """Effective alpha per epoch, one line per recipe. named: those that get a name."""
    lines = {name: list(enumerate(values, start=1)) for name, values in curves.items() if len(values)}
    if not lines:
        return None
    canvas = Canvas(WIDTH, HEIGHT, "Effective smoothing factor alpha in every epoch, by recipe")
    axes = _panel(canvas, lines.values(), (52, 720), "Smoothing factor alpha")
    axes.axhline(0, color=SOFT, lw=1)
    marked = {name: points for name, points in lines.items() if name in named}
    _lines(canvas, axes, {name: points for name, points in lines.items() if name not in marked}, colours, alpha=0.5)
    _lines(canvas, axes, marked, colours)
    _name_ends(canvas, axes, {name: points[-1][1] for name, points in marked.items()}, colours)
    return canvas


def training_curves(
    curves: Mapping[str, Sequence[Mapping[str, float]]], colours: Colours, named: Collection[str]
) -> Canvas | None:
    """Loss, and accuracy on training (dashed) and test images, by epoch, of the recipes that are `named`."""

    def series(key: str) -> dict[str, Curve]:
        by_recipe = {
            name: [(row["epoch"] + 1, row[key]) for row in rows if not is_null(row.get(key))]
            for name, rows in curves.items()
            if name in named
        }
        return {name: points for name, points in by_recipe.items() if points}

    loss, train, test = series("loss"), series("train_acc"), series("test_acc")
    if not (loss or train or test):
        return None
    canvas = Canvas(WIDTH, HEIGHT, "Training loss and accuracy by epoch and recipe")
    if loss:
        _lines(canvas, _panel(canvas, loss.values(), (52, 340), "Training loss"), loss, colours)
    if train or test:
        both, title = [*train.values(), *test.values()], "Accuracy, %: test and training (dashed)"
        axes = _panel(canvas, both, (410, 720), title, percent="y")
        _lines(canvas, axes, train, colours, ls=DASHED)
        _lines(canvas, axes, test, colours)
        _name_ends(canvas, axes, {name: points[-1][1] for name, points in (test or train).items()}, colours)
    return canvas


def search_steps(view: SearchView | None) -> Canvas | None:
    """The step curve over device-hours, a dot where a recipe of the final frontier was found; None before any step."""
    gone = None if view is None else progress(view)
    if view is None or gone is None:
        return None
    end = max(gone.hours[-1], sum(proposal.device_hours for proposal in view.proposals), 1e-9)
    unit, factor = ("device-minutes", 60.0) if end < 1.5 else ("device-hours", 1.0)
    head = "Hypervolume" if len(view.objectives) > 1 else f"Best {view.objectives[0].label}"
    canvas = Canvas(WIDTH, HEIGHT, f"{head} over the device time spent")
    spots = [(hour * factor, value) for hour, value in zip(gone.hours, gone.values, strict=True)]
    axes = _panel(canvas, [spots], (64, WIDTH - 20), head, f"{unit} spent")
    axes.set(xlim=(0, end * factor))
    axes.step(*zip(*spots, (end * factor, spots[-1][1]), strict=True), where="post", color=SOFT, lw=2.2)
    for proposal, (x, y) in zip(gone.met, spots, strict=True):
        if proposal.number in gone.best:
            (dot,) = axes.plot([x], [y], "o", ms=9, color=INK, clip_on=False)
            canvas.describe(dot, proposal_words(view, proposal), recipe=proposal.recipe or "")
    return canvas


def _panel(
    canvas: Canvas, lines: Collection[Curve], across: tuple[float, float], title: str, x: str = "epoch", **more: Any
) -> Axes:
    axes = canvas.axes((across[0], 34, across[1], HEIGHT - 46), title=title, x=x, **more)
    axes.locator_params(axis="x", integer=True, nbins=6)
    places, heights = zip(*(point for curve in lines for point in curve), strict=True)
    first, last = min(places), max(places)
    axes.set(xlim=(first, last if last > first else first + 1), ylim=limits(heights, least=0.005))
    return axes


def _lines(canvas: Canvas, axes: Axes, lines: Mapping[str, Curve], colours: Colours, **look: Any) -> None:
    for name, points in lines.items():
        (line,) = axes.plot(*zip(*points, strict=True), color=colours.of(name), lw=2.2, **look)
        canvas.describe(line, name, recipe=name)


def _name_ends(canvas: Canvas, axes: Axes, ends: Mapping[str, float], colours: Colours) -> None:
    """Each curve's name right of the panel, at the height where the curve ends or near it."""
    box, (_, end) = axes.get_window_extent(), axes.get_xlim()
    names = [Named(name, name, end, height, colours.of(name)) for name, height in ends.items()]
    write_names(canvas, axes, names, within=(box.x1, box.y0 - 30, math.inf, box.y1 + 30))


LOSSES = {"poincare": "Poincar\u00e9 loss", "cross_entropy": "cross-entropy"}


def gradient_curves(curves: Mapping[str, pd.DataFrame], colours: Colours) -> Canvas | None:
    """Gradient stability along a descent (the paper's Figs. 6b and 7), and below it what explains it.

    Above: cosine between consecutive gradients, with its interval over classes. Below: shares of zero gradients
    (dashed) and of saturated softmax. One column per loss; None without a recipe that was measured. curves: recipe ->
    rows loss, quantity, step, mean, low, high.
    """
    if not curves:
        return None
    row = 236.0
    canvas = Canvas(WIDTH, 2 * row, "Cosine between consecutive attack gradients, by step, loss and recipe")
    for left, (loss, name) in zip((52.0, 432.0), LOSSES.items(), strict=True):
        above = canvas.axes((left, 34, left + 288, row - 46), title=f"Gradient cosine, {name}", x="step")
        title = "Saturated, zero gradients (dashed), %"
        below = canvas.axes((left, row + 34, left + 288, 2 * row - 46), title=title, x="step", percent="y")
        below.set(ylim=(-0.03, 1.03))
        for axes in (above, below):
            axes.locator_params(axis="x", integer=True, nbins=6)
            axes.axhline(0, color=SOFT, lw=1)
        ends, seen = {}, [0.0]
        for recipe, rows in curves.items():
            known = rows[(rows["loss"] == loss) & rows["mean"].notna()].sort_values("step")
            for quantity, points in known.assign(step=known["step"] + 1).groupby("quantity"):
                is_cosine = quantity == "cosine"
                look: Any = {"color": colours.of(recipe), "ls": DASHED if quantity == "zero" else "-"}
                (line,) = (above if is_cosine else below).plot(points["step"], points["mean"], lw=2.2, **look)
                words = recipe if is_cosine else f"{recipe}: {str(quantity).replace('zero', 'zero gradients')}"
                canvas.describe(line, words, recipe=recipe)
                if is_cosine:
                    seen += points[["mean", "low", "high"]].stack().dropna().tolist()
                    ends[recipe] = float(points["mean"].iloc[-1])
                    held = points.dropna(subset=["low", "high"])
                    band: Any = {"color": colours.of(recipe), "alpha": 0.16, "lw": 0}
                    above.fill_between(held["step"], held["low"], held["high"], **band)
        above.set(ylim=limits(seen, share=0.06))
    _name_ends(canvas, above, ends, colours)
    return canvas


def advantage_figure(panels: Sequence[AdvantagePanel]) -> Canvas | None:
    """What smoothing gives an attack relative to plain training: the paper's Figure 2.

    A panel each, two in a row; None without any. Above the line more leaks than from plain training.
    """
    if not panels:
        return None
    across, wide, high = min(2, len(panels)), 430.0, 300.0
    canvas = Canvas(across * wide, -(-len(panels) // 2) * high, "The attacker's gain relative to plain training")
    for place, panel in enumerate(panels):
        left, top = wide * (place % 2), high * (place // 2)
        box = (left + 52, top + 34, left + wide - 20, top + high - 48)
        axes, seen = canvas.axes(box, title=panel.title, x=panel.x_label), [0.0]
        axes.axhline(0, color=SOFT, lw=1)
        for (colour, _), (name, points) in zip(CATEGORIES, panel.curves.items(), strict=False):
            (line,) = axes.plot([p.x for p in points], [p.value for p in points], "o-", ms=5, lw=2, color=colour)
            line.set_label(clean(name))
            canvas.describe(line, name)
            held = [p for p in points if math.isfinite(p.low) and math.isfinite(p.high)]
            ends = [p.low for p in held], [p.high for p in held]
            axes.vlines([p.x for p in held], *ends, color=colour, lw=1, alpha=0.6)
            seen += [*(p.value for p in points), *ends[0], *ends[1]]
        axes.set(ylim=limits(seen))
        axes.yaxis.set_major_formatter(lambda value, _: minus(f"{100 * value:+.0f} %") if value else "0")
        axes.legend(**KEY)
    return canvas


def importance(view: SearchView | None) -> Canvas | None:
    """Bars of every parameter's share, a panel for each objective; None without any."""
    if not view or not view.importances:
        return None
    most, width = max(len(one.shares) for one in view.importances), 420.0
    height, aims = 102.0 + 24.0 * most, {objective.column: aim_words(objective) for objective in view.objectives}
    title = "Share of the variance between recipes that each parameter accounts for"
    canvas = Canvas(width * len(view.importances), height, title)
    for place, one in enumerate(view.importances):
        box = (place * width + 120, 40, (place + 1) * width - 40, height - 44)
        head, what = f"{aims[one.objective]}, n = {one.recipes}", "share of the variance, %"
        axes = canvas.axes(box, title=head, x=what, percent="x", grid="x")
        names, shares = zip(*one.shares, strict=True)
        bars = axes.barh(range(len(names)), shares, color=CATEGORIES[0][0], height=0.6)
        axes.bar_label(bars, [f"{100 * share:.0f} %" for share in shares], padding=5, fontsize=11, color=INK)
        axes.set(xlim=(0, 1), ylim=(most - 0.4, -0.6))
        axes.set_yticks(range(len(names)), map(clean, names))
    return canvas
