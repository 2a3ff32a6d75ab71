"""What stands beside accuracy against leak: judges, people, membership, features, and curves over epochs and steps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import cycle, groupby
from operator import itemgetter
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from smoothsweep.core.judges.columns import CLOSED_SET, metric_of
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.core.text import minus
from smoothsweep.orchestrator.page.figures.canvas import (
    ACROSS,
    CATEGORIES,
    DASHED,
    DOTTED,
    FAMILIES,
    INK,
    KEY,
    LINE,
    LINE_HEIGHT,
    PAPER,
    SOFT,
    Canvas,
    Colours,
    Labels,
    Named,
    clean,
    limits,
    note,
    text_width,
    write_names,
)
from smoothsweep.orchestrator.result.data import FeatureView, SearchView, progress
from smoothsweep.orchestrator.result.display import LONG
from smoothsweep.orchestrator.result.findings import share
from smoothsweep.orchestrator.result.format import count, estimate, number
from smoothsweep.orchestrator.result.leaks import AMONG, AdvantagePanel
from smoothsweep.orchestrator.result.searches import aim_words, proposal_words
from smoothsweep.orchestrator.result.standing import ATTACKS, WITHIN, title_of
from smoothsweep.orchestrator.result.sweep_result import SweepResult, rows_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, ROW = 880.0, 34.0
MARKS = ("o", "o", "D", "s")
"""Marks of judges: filled for the first, empty for the others."""


def judges(result: SweepResult, colours: Colours) -> Canvas | None:
    """Per recipe one dot per judge with its interval, joined by the gap; None with fewer than two judges."""
    keys, facts = [key for key in CLOSED_SET if key in result.labels], result.facts
    if len(keys) < 2:
        return None
    title, what = "Leak of each recipe as seen by each judge", "reconstructions taken for the attacked class, %"
    cells = rows_of(result.attacks.loc[list(facts["lines"])])
    canvas, axes, places = _rows(cells, colours, title, what, ROW)
    looks = [(mark, PAPER if place else None) for place, (_, mark) in enumerate(zip(keys, cycle(MARKS), strict=False))]
    for key, (mark, face) in zip(keys, looks, strict=True):
        judge = metric_of(key).judge
        same = " (trained on the same private images)" if judge is not None and JUDGES[judge].learns_private else ""
        axes.plot([], [], mark, ms=11, color=SOFT, mfc=face or SOFT, mew=2, label=result.labels[key] + same)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, handletextpad=0, **KEY)
    if facts["people_attacked"]:
        chance = 1 / facts["people_attacked"]
        axes.axvline(chance, color=SOFT, lw=1, ls=DOTTED)
        words = f"chance {number(metric_of(keys[1]), chance)}"
        note(axes, words, (chance, 1), (4, -8), xycoords=("data", "axes fraction"))
    for cell, y in zip(cells, places, strict=True):
        recipe, seen = cell["recipe"], [key for key in keys if cell[key] is not None]
        colour = colours.of(recipe)
        axes.plot([cell[key] for key in seen], [y] * len(seen), color=LINE, lw=6, zorder=1)
        for key, (mark, face), off in zip(keys, looks, np.linspace(-0.15, 0.15, len(keys)), strict=True):
            if key not in seen:
                continue
            value, low, high, n = (cell[f"{key}{end}"] for end in ("", "_low", "_high", "_n"))
            if low is not None:
                axes.plot([low, high], [y + off] * 2, color=colour, lw=1.6, zorder=2)
            look: Any = {"ms": 11, "mfc": face or colour, "mec": colour, "mew": 2, "zorder": 3, "clip_on": False}
            (dot,) = axes.plot([value], [y], mark, **look)
            leak = f"{estimate(metric_of(key), value, low, high)} (n = {count(int(n), 'seed')})"
            canvas.describe(dot, f"{recipe}, {result.labels[key]}: {leak}", recipe=recipe)
        if not seen:
            note(axes, "not measured", (0.01, y), va="center")
    return canvas


def exposure(result: SweepResult, colours: Colours) -> Canvas | None:
    """One dot per class at its own shrunk leak: an average of 20 % may hide a person matched every time."""
    people = groupby(rows_of(result.people), itemgetter("recipe", "attack"))
    strips = {pair: sorted(rows, key=itemgetter("rate")) for pair, rows in people}
    if not strips or max(map(len, strips.values())) < 3:
        return None
    spec = result.metric(result.people["metric"].iloc[0])
    what = f"a class's reconstructions matched by the {spec.label}, %"
    title = "Leak of every single class under each recipe"
    cells = [{"recipe": recipe, "attack": attack} for recipe, attack in strips]
    canvas, axes, places = _rows(cells, colours, title, what, 58, 150)
    note(axes, "matched more\noften than not", (1, 1), (14, -12), xycoords="axes fraction")
    bins = [[round(50 * person["rate"]) for person in rows] for rows in strips.values()]  # steps of two per cent
    tallest = max(max(Counter(steps).values()) for steps in bins)
    for ((recipe, _), rows), steps, y in zip(strips.items(), bins, places, strict=True):
        for place, (person, step) in enumerate(zip(rows, steps, strict=True)):
            level = steps[:place].count(step)  # dots of equal value are stacked: a pile reads as a count
            height = y + 0.35 - 0.8 * (level + 0.5) / max(tallest, 6)
            look: Any = {"ms": min(8, max(3, 46 / tallest)), "mew": 0, "clip_on": False, "color": colours.of(recipe)}
            (dot,) = axes.plot([step / 50], [height], "o", **look)
            rate = estimate(spec, *(person[name] for name in ("rate", "low", "high")))
            among = f"among the {AMONG} most exposed: {share(person['among_top'])}"
            canvas.describe(dot, f"{person['class']}: {rate}, {among}", recipe=recipe)
        often = f"{sum(person['rate'] > 0.5 for person in rows)} of {len(rows)}"
        note(axes, often, (1, y), (14, -4), xycoords=ACROSS, fontsize=12.5, color=INK, weight="bold")
    return canvas


def _rows(
    cells: Sequence[Mapping[str, Any]], colours: Colours, title: str, what: str, height: float, right: float = 30
) -> tuple[Canvas, Axes, list[float]]:
    """A panel with a line per cell, grouped by attack, from 0 to 100 %; where each lies. cells: `recipe`, `attack`."""
    lines: list[tuple[int | None, str]] = []
    for attack in dict.fromkeys(cell["attack"] for cell in cells):
        lines += [(None, attack)] if attack else []
        lines += [(place, cell["recipe"]) for place, cell in enumerate(cells) if cell["attack"] == attack]
    written = {name: wrap(name, LONG) for place, name in lines if place is not None}
    left = 24 + max(text_width(line, 12.5) for name in written for line in written[name])
    height = max(height, 8 + LINE_HEIGHT * max(map(len, written.values())))
    canvas, end = Canvas(WIDTH, 84 + height * len(lines), title), 34 + height * len(lines)
    axes = canvas.axes((left, 34, WIDTH - right, end), x=what, percent="x", grid="x")
    axes.set(xlim=(0, 1), ylim=(len(lines) - 0.5, -0.5), yticks=[])
    places = [0.0] * len(cells)
    for y, (place, name) in enumerate(lines):
        look: dict[str, Any] = {"xycoords": ACROSS, "fontsize": 12.5, "va": "center"}
        if place is None:
            note(axes, name, (0, y), (-left, 4), **look)
            continue
        places[place] = float(y)
        look |= {"ha": "right", "weight": "bold", "color": colours.of(name)}
        note(axes, "\n".join(written[name]), (0, y), (-14, 0), **look)
    return canvas, axes, places


def membership(result: SweepResult, colours: Colours) -> Canvas | None:
    """Inversion against membership, a point for each recipe; None where no recipe has both."""
    both = [row for row in rows_of(result.membership) if row.get("inversion") is not None]
    if not both:
        return None
    attack, leak = next(name for name in ATTACKS if name in result.membership), result.metric(result.facts["leak"])
    canvas = Canvas(620, 390, "Inversion against membership of every recipe")
    across, up = f"inversion: {leak.label}, %", f"membership: AUC within persons, {title_of(attack)}, %"
    axes, labels, names = canvas.axes((56, 24, 604, 338), x=across, y=up, percent="xy", grid="both"), Labels(), []
    axes.yaxis.label.set(fontsize=11)
    for row in both:
        colour, x, y = colours.of(row["recipe"]), row["inversion"], row[attack]
        ends, level = ((row[f"{key}_low"], row[f"{key}_high"]) for key in ("inversion", attack))
        for bar in ((ends, (y, y)), ((x, x), level)):
            if not any(end is None for side in bar for end in side):
                axes.plot(*bar, color=colour, lw=1.4, alpha=0.7, gid="bar")
        (mark,) = axes.plot([x], [y], "o", ms=9, color=colour, mew=0, zorder=4)
        auc = estimate(metric_of(WITHIN), y, *level)
        inversion = estimate(leak, x, *ends)
        canvas.describe(mark, f"{row['recipe']}: inversion {inversion}, membership {auc}")
        names.append(Named(row["recipe"], row["recipe"], x, y, colour))
    axes.axhline(0.5, color=SOFT, lw=1.2, ls=DASHED)
    axes.margins(x=0.18, y=0.12)
    for line in (line for line in axes.lines if line.get_gid() == "bar"):
        labels.keep_clear(axes, line.get_xydata())
    for name in names:
        labels.mark(*axes.transData.transform((name.x, name.y)), 7)
    write_names(canvas, axes, names, labels)
    return canvas


KINDS = {
    "intra": "same\nclass",
    "inter": "other\nclasses",
    "intra_nearest": "nearest,\nsame",
    "inter_nearest": "nearest,\nother",
}


def feature_maps(views: Mapping[str, FeatureView], colours: Colours) -> Canvas | None:
    """t-SNE above, PCA below, a column for each recipe; None without any."""

    def draw(axes: Axes, view: FeatureView, _: str, way: str) -> None:
        points = view.points  # colours of classes are used again and again: neighbours of one colour may be strangers
        hues = np.array([hue for hue, _ in FAMILIES])[points["class"].astype(int) % len(FAMILIES)]
        # As one picture: a page would hold every point as a mark of its own.
        axes.scatter(points[f"{way}_x"], points[f"{way}_y"], s=7, lw=0, c=hues, alpha=0.8, rasterized=True)
        axes.set(xticks=[], yticks=[])
        axes.spines["bottom"].set_visible(False)

    title = "Training images in the target's features, by recipe: t-SNE, and PCA"
    return _features(views, colours, title, 200, {"t-SNE": partial(draw, way="tsne"), "PCA": partial(draw, way="pca")})


def feature_violins(views: Mapping[str, FeatureView], colours: Colours) -> Canvas | None:
    """The distributions of distances in units of the largest, a panel for each recipe; None without any."""

    def draw(axes: Axes, view: FeatureView, colour: str) -> None:
        for place, key in enumerate(KINDS):
            values = view.distances[key].dropna().to_numpy()
            if len(values):
                drawn: Any = axes.violinplot([values], [place], widths=0.8, showextrema=False)
                drawn["bodies"][0].set(facecolor=colour, alpha=0.45, edgecolor="none")
                median = float(np.median(values))
                axes.plot([place - 0.3, place + 0.3], [median] * 2, color=INK, lw=2)
                note(axes, f"{median:.2f}", (place, median), (0, 4), ha="center", color=INK)
        axes.axvline(1.5, color=SOFT, lw=1, ls=DOTTED)
        axes.set(xlim=(-0.6, 3.6), ylim=(0, 1.02))
        axes.set_xticks(range(4), list(KINDS.values()), fontsize=9.5)

    title = "Distances between training images in the target's features, by recipe"
    return _features(views, colours, title, 260, {"distance, of the largest": draw})


def _features(
    views: Mapping[str, FeatureView], colours: Colours, title: str, height: float, panels: Mapping[str, Callable]
) -> Canvas | None:
    """A column of panels for each recipe, four side by side, as often as needed. panels: name -> what draws it."""
    if not views:
        return None
    side, block = 216.0, 70 + len(panels) * (height + 16)
    canvas = Canvas(48 + min(4, len(views)) * side, -(-len(views) // 4) * block, title)
    for place, (recipe, view) in enumerate(views.items()):
        for row, (name, draw) in enumerate(panels.items()):
            left, top = 48 + place % 4 * side, place // 4 * block + 46 + row * (height + 16)
            first = place % 4 == 0
            axes = canvas.axes((left, top, left + 200, top + height), y=name if first else "", grid=None)
            draw(axes, view, colours.of(recipe))
            axes.tick_params(axis="y", labelleft=first)
            if row == 0:
                note(axes, recipe, (0, 1), (0, 8), xycoords="axes fraction", fontsize=12, color=INK)
    return canvas


HEIGHT = 306.0
Curve = Sequence[tuple[float, float]]


def alpha_curves(histories: Mapping[str, pd.DataFrame], colours: Colours, named: Collection[str]) -> Canvas | None:
    """Effective alpha per epoch, one line per recipe. named: those that get a name."""
    lines = _series(histories, "alpha")
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


def training_curves(histories: Mapping[str, pd.DataFrame], colours: Colours, named: Collection[str]) -> Canvas | None:
    """Loss, and accuracy on training (dashed) and test images, by epoch, of the recipes that are `named`."""
    shown = {name: rows for name, rows in histories.items() if name in named}
    loss, train, test = (_series(shown, key) for key in ("loss", "train_acc", "test_acc"))
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


def _series(histories: Mapping[str, pd.DataFrame], key: str) -> dict[str, Curve]:
    """Recipe -> (epoch from 1, value), where a value is known."""
    known = {name: rows[["epoch", key]].dropna() for name, rows in histories.items() if key in rows}
    return {name: [*zip(rows["epoch"] + 1, rows[key], strict=True)] for name, rows in known.items() if len(rows)}


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
