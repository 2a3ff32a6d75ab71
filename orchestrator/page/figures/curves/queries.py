"""What a leak costs an attacker: the strongest within so many images shown to the target, a staircase per recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from core.metrics.table import metric_of
from orchestrator.page.colours import Colours
from orchestrator.page.figures.canvas import SOFT, Canvas, limits, percent, plain, words_for
from orchestrator.page.figures.curves.lines import name_ends, panel
from orchestrator.reading.numbers.format import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 880.0, 390.0
BOX = (62.0, 86.0, 700.0, HEIGHT - 46.0)
LONGEST = 26
"""Letters of an attack's name over its place."""


def query_curves(asked: pd.DataFrame | None, colours: Colours) -> Canvas | None:
    """asked: as `query_frame` gives it. None unless two attacks of one recipe ask the target differently often."""
    if asked is None:
        return None
    known = asked[asked["reached"].notna() & (asked["queries"] > 0)]
    if not len(known) or known.groupby("recipe")["queries"].nunique().max() < 2:
        return None
    spec = metric_of(known["metric"].iloc[0])
    canvas = Canvas(WIDTH, HEIGHT, f"The {spec.label} against images shown to the target, per class attacked")
    axes = panel(canvas, BOX, "", "images shown to the target per class attacked", whole=False)
    least, most = known["queries"].min() / 1.25, known["queries"].max() * 1.25
    axes.set_xscale("log")
    axes.set(xlim=(least, most), ylim=limits([0.0, *known["leak"], *known["reached"]], share=0.06))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.xaxis.set_minor_formatter(lambda value, _: "")
    axes.yaxis.set_major_formatter(percent if spec.unit == "percent" else plain)
    axes.set_ylabel(spec.label + (", %" if spec.unit == "percent" else ""), fontsize=12, color=SOFT)
    controls = asked.loc[asked["control"], "leak"].dropna()
    if len(controls):
        line = axes.axhline(controls.max(), color=SOFT, lw=1, ls=(0, (2, 3)))
        canvas.tell(line, f"The most that is credited to a control: {number(spec, controls.max())}")
    for recipe, rows in known.groupby("recipe", sort=False):
        _staircase(axes, canvas, recipe, rows, most, colours.of(recipe))
    for row in known.itertuples():
        told = f"{row.recipe}, {row.attack}: {number(spec, row.leak)} for {row.queries:,.0f} images a class"
        (dot,) = axes.plot([row.queries], [row.leak], "o", ms=6, color=colours.of(row.recipe))
        canvas.tell(dot, told, recipe=row.recipe)
    _name_attacks(axes, known)
    name_ends(axes, known.groupby("recipe", sort=False)["reached"].last().to_dict(), colours)
    return canvas


def _staircase(axes: Axes, canvas: Canvas, recipe: str, rows: pd.DataFrame, end: float, colour: str) -> None:
    spots = rows.drop_duplicates("queries", keep="last")
    across, reached = [*spots["queries"], end], [*spots["reached"], spots["reached"].iloc[-1]]
    (line,) = axes.step(across, reached, where="post", color=colour, lw=2)
    canvas.tell(line, recipe, recipe=recipe)


def _name_attacks(axes: Axes, known: pd.DataFrame) -> None:
    """Over the panel at each attack's mean place, aslant; those that would lie on each other stand behind one name."""
    places = known.groupby("attack", sort=False)["queries"].median().sort_values()
    groups: list[tuple[float, list[str]]] = []
    for attack, queries in places.items():
        at = axes.transData.transform((queries, 0.0))[0]
        if groups and at - groups[-1][0] < 15:
            groups[-1][1].append(str(attack))
        else:
            groups.append((at, [str(attack)]))
    for at, names in groups:
        first = words_for(names[0] if len(names[0]) <= LONGEST else names[0][: LONGEST - 1] + "\u2026")
        text = first if len(names) == 1 else f"{first} and {len(names) - 1} more"
        axes.annotate(text, (at, 1), (0, 6), xycoords=("figure pixels", "axes fraction"), rotation=24,
                      textcoords="offset pixels", ha="left", va="bottom", fontsize=10, color=SOFT)  # fmt: skip
