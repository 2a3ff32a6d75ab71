"""Recipes below or beside each other: what each judge says of them, who is exposed, membership, features."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle, groupby
from operator import itemgetter
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothsweep.core.judges.columns import CLOSED_SET, metric_of
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.orchestrator.page.figures.canvas import (
    ACROSS,
    DASHED,
    DOTTED,
    INK,
    KEY,
    LINE,
    LINE_HEIGHT,
    PAPER,
    SOFT,
    Canvas,
    Labels,
    Named,
    note,
    text_width,
    write_names,
)
from smoothsweep.orchestrator.page.figures.colours import FAMILIES, Colours
from smoothsweep.orchestrator.result.data import FeatureView
from smoothsweep.orchestrator.result.display import LONG
from smoothsweep.orchestrator.result.findings import share
from smoothsweep.orchestrator.result.format import count, estimate, number
from smoothsweep.orchestrator.result.leaks import AMONG
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
        kept = view.drawn  # colours of classes are used again and again: neighbours of one colour may be strangers
        hues = np.array([hue for hue, _ in FAMILIES])[kept["class"].astype(int) % len(FAMILIES)]
        axes.scatter(kept[f"{way}_x"], kept[f"{way}_y"], s=7, lw=0, c=hues, alpha=0.8)
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
