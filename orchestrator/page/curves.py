"""Curves over the epochs: the smoothing that took effect, and how training went."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from orchestrator.page.colours import Colours
from orchestrator.page.markup import Markup, join, tag
from orchestrator.page.svg import Scale, figure, label, line, padded, percent, plain, polyline, x_axis, y_axis
from orchestrator.reading.numbers.format import minus

WIDTH = 880.0
Curve = Sequence[tuple[float, float]]


def alpha_curves(
    curves: Mapping[str, Sequence[float]], colours: Colours, named: Collection[str] | None = None
) -> Markup | None:
    """Effective alpha per epoch, one line per recipe. named: those that get a name; None: all of them."""
    lines = {name: list(enumerate(values, start=1)) for name, values in curves.items() if len(values)}
    if not lines:
        return None
    x, y = _scales(lines.values(), (52, 720), (20, 260))
    zero = line(x.start, y(0), x.end, y(0), "axis") if y.lo <= 0 <= y.hi else Markup("")
    marked = {name: points for name, points in lines.items() if named is None or name in named}
    others = {name: points for name, points in lines.items() if name not in marked}
    behind = tag("g", *_lines(others, colours, x, y), class_="thin") if others else Markup("")
    parts = [y_axis(x, y, plain), zero, behind, *_lines(marked, colours, x, y)]
    parts += [epoch_axis(x, y), _end_labels(marked, colours, x, y)]
    return figure(WIDTH, 306, "Effective smoothing factor alpha in every epoch, by recipe", *parts)


def training_curves(curves: Mapping[str, Sequence[Mapping[str, float]]], colours: Colours) -> Markup | None:
    """Loss, and accuracy on training (dashed) and test images, by epoch."""

    def series(key: str) -> dict[str, Curve]:
        found = {
            name: [(row["epoch"] + 1, row[key]) for row in rows if _known(row, key)] for name, rows in curves.items()
        }
        return {name: points for name, points in found.items() if points}

    loss, train, test = series("loss"), series("train_acc"), series("test_acc")
    parts = []
    if loss:
        x, y = _scales(loss.values(), (52, 340), (44, 260))
        parts += [
            label(x.start, 20, "Training loss", "strong"),
            y_axis(x, y, plain),
            epoch_axis(x, y, 4),
            *_lines(loss, colours, x, y),
        ]
    if train or test:
        x, y = _scales([*train.values(), *test.values()], (410, 720), (44, 260))
        parts += [
            tag("text", tag("tspan", "Accuracy, %: test", class_="strong"), " and training (dashed)", x=x.start, y=20),
            y_axis(x, y, percent),
            epoch_axis(x, y, 4),
            *_lines(train, colours, x, y, dashed=True),
            *_lines(test, colours, x, y),
            _end_labels(test or train, colours, x, y),
        ]
    return figure(WIDTH, 306, "Training loss and accuracy by epoch and recipe", *parts) if parts else None


def epoch_axis(x: Scale, y: Scale, about: int = 5) -> Markup:
    """Whole epochs only."""
    return x_axis(x, y, plain, "epoch", min(about, max(1, int(x.hi - x.lo))))


def _known(row: Mapping[str, float], key: str) -> bool:
    value = row.get(key)
    return value is not None and value == value


def _scales(lines: object, across: tuple[float, float], down: tuple[float, float]) -> tuple[Scale, Scale]:
    points = [point for curve in lines for point in curve]
    epochs = [epoch for epoch, _ in points]
    lo, hi = padded([value for _, value in points], share=0.08, least=0.005)
    first, last = min(epochs), max(epochs)
    x = Scale(lo=first, hi=last if last > first else first + 1, start=across[0], end=across[1])
    return x, Scale(lo=lo, hi=hi, start=down[1], end=down[0])


def _lines(lines: Mapping[str, Curve], colours: Colours, x: Scale, y: Scale, *, dashed: bool = False) -> list[Markup]:
    look = "curve dash" if dashed else "curve"
    return [
        tag(
            "g",
            tag("title", name),
            polyline([(x(epoch), y(value)) for epoch, value in points], look),
            class_=f"pt {colours.css_class(name)}",
            data_recipe=name,
        )
        for name, points in lines.items()
    ]


def _end_labels(lines: Mapping[str, Curve], colours: Colours, x: Scale, y: Scale) -> Markup:
    """Each curve's name at its end, pushed down where two would touch."""
    ends = sorted(((y(points[-1][1]), name) for name, points in lines.items()))
    parts, last = [], -1e9
    for height, name in ends:
        last = max(height + 4, last + 16)
        parts.append(tag("g", label(x.end + 10, last, minus(name), "named"), class_=colours.css_class(name)))
    return join(*parts)
