"""Curves over the epochs (the smoothing that took effect, how training went) and over the device time of a search."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from smoothsweep.orchestrator.page.drawing.canvas import INK, SOFT, Canvas, limits, percent
from smoothsweep.orchestrator.page.drawing.colours import Colours
from smoothsweep.orchestrator.page.figures.curves import lines as drawn
from smoothsweep.orchestrator.result.data import Progress, SearchView
from smoothsweep.orchestrator.result.searches import proposal_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 880.0, 306.0
Curve = Sequence[tuple[float, float]]


def alpha_curves(
    curves: Mapping[str, Sequence[float]], colours: Colours, named: Collection[str] | None = None
) -> Canvas | None:
    """Effective alpha per epoch, one line per recipe. named: those that get a name; None: all of them."""
    lines = {name: list(enumerate(values, start=1)) for name, values in curves.items() if len(values)}
    if not lines:
        return None
    canvas = Canvas(WIDTH, HEIGHT, "Effective smoothing factor alpha in every epoch, by recipe")
    axes = _panel(canvas, lines.values(), (52, 720), "Smoothing factor alpha")
    axes.axhline(0, color=SOFT, lw=1)
    marked = {name: points for name, points in lines.items() if named is None or name in named}
    _lines(canvas, axes, {name: points for name, points in lines.items() if name not in marked}, colours, alpha=0.5)
    _lines(canvas, axes, marked, colours)
    drawn.name_ends(axes, _ends(marked), colours)
    return canvas


def training_curves(curves: Mapping[str, Sequence[Mapping[str, float]]], colours: Colours) -> Canvas | None:
    """Loss, and accuracy on training (dashed) and test images, by epoch."""

    def series(key: str) -> dict[str, Curve]:
        by_recipe = {
            name: [(row["epoch"] + 1, row[key]) for row in rows if row.get(key) == row.get(key) is not None]
            for name, rows in curves.items()
        }
        return {name: points for name, points in by_recipe.items() if points}

    loss, train, test = series("loss"), series("train_acc"), series("test_acc")
    if not (loss or train or test):
        return None
    canvas = Canvas(WIDTH, HEIGHT, "Training loss and accuracy by epoch and recipe")
    if loss:
        _lines(canvas, _panel(canvas, loss.values(), (52, 340), "Training loss"), loss, colours)
    if train or test:
        both = [*train.values(), *test.values()]
        axes = _panel(canvas, both, (410, 720), "Accuracy, %: test and training (dashed)")
        axes.yaxis.set_major_formatter(percent)
        _lines(canvas, axes, train, colours, ls=(0, (5, 4)), lw=1.6)
        _lines(canvas, axes, test, colours)
        drawn.name_ends(axes, _ends(test or train), colours)
    return canvas


def search_steps(view: SearchView, gone: Progress) -> Canvas:
    """The step curve over device-hours, a dot where a recipe of the final frontier was found."""
    end = max(gone.hours[-1], sum(proposal.device_hours for proposal in view.proposals), 1e-9)
    unit, factor = ("device-minutes", 60.0) if end < 1.5 else ("device-hours", 1.0)
    head = "Hypervolume" if len(view.objectives) > 1 else f"Best {view.objectives[0].label}"
    canvas = Canvas(WIDTH, HEIGHT, f"{head} over the device time spent")
    spots = [(hour * factor, value) for hour, value in zip(gone.hours, gone.values, strict=True)]
    axes = _panel(canvas, [spots], (64, WIDTH - 20), head, f"{unit} spent")
    axes.set(xlim=(0, end * factor))
    axes.step(*zip(*spots, (end * factor, spots[-1][1]), strict=True), where="post", color=SOFT, lw=2.2)
    for proposal, spot in zip(gone.met, spots, strict=True):
        if proposal.number in gone.best:
            (dot,) = axes.plot(*([value] for value in spot), "o", ms=9, color=INK, clip_on=False)
            canvas.describe(dot, proposal_words(view, proposal), recipe=proposal.recipe or "")
    return canvas


def _panel(
    canvas: Canvas, lines: Collection[Curve], across: tuple[float, float], title: str, x_label: str = "epoch"
) -> Axes:
    axes = drawn.panel(canvas, (across[0], 34, across[1], HEIGHT - 46), title, x_label)
    points = [point for curve in lines for point in curve]
    first, last = (pick(x for x, _ in points) for pick in (min, max))
    axes.set(xlim=(first, last if last > first else first + 1), ylim=limits([y for _, y in points], least=0.005))
    return axes


def _lines(canvas: Canvas, axes: Axes, lines: Mapping[str, Curve], colours: Colours, **look: Any) -> None:
    look = {"lw": 2.2} | look
    for name, points in lines.items():
        (line,) = axes.plot(*zip(*points, strict=True), color=colours.of(name), **look)
        canvas.describe(line, name, recipe=name)


def _ends(lines: Mapping[str, Curve]) -> dict[str, float]:
    return {name: points[-1][1] for name, points in lines.items()}
