"""What a leak costs an attacker: the strongest within so many images shown to the target, a staircase per recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.orchestrator.page.drawing.canvas import INK, SOFT, Canvas, limits, note, percent, plain, words_for
from smoothsweep.orchestrator.page.drawing.colours import Colours
from smoothsweep.orchestrator.page.figures.curves.lines import name_ends, panel
from smoothsweep.orchestrator.result.format import number
from smoothsweep.orchestrator.result.leaks import by_access

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, ROW = 880.0, 268.0
LEFT, RIGHT, ABOVE, BELOW = 62.0, 700.0, 76.0, 34.0
LONGEST = 26
"""Letters of an attack's name over its place."""

WHO = {"labels": "who sees labels", "scores": "who sees scores", "gradients": "who has the gradients"}


def query_curves(queries: pd.DataFrame | None, colours: Colours) -> Canvas | None:
    """A panel for each access level with an attack of its own, least first: what an attacker with it can run.

    queries: as `query_frame` gives it. None unless two attacks of one recipe ask the target differently often.
    """
    if queries is None:
        return None
    known = queries[queries["reached"].notna() & (queries["queries"] > 0)]
    if not len(known) or known.groupby("recipe")["queries"].nunique().max() < 2:
        return None
    spec, levels = metric_of(known["metric"].iloc[0]), by_access(queries)
    title = f"The {spec.label} against images shown to the target, per class attacked, by access"
    canvas = Canvas(WIDTH, len(levels) * ROW + 16, title)
    ends = limits([0.0, *known["leak"], *queries.loc[queries["control"], "leak"].dropna()], share=0.06)
    for place, (level, rows) in enumerate(levels.items()):
        top, last = place * ROW, place == len(levels) - 1
        axes = panel(
            canvas,
            (LEFT, top + ABOVE, RIGHT, top + ROW - BELOW),
            "",
            "images shown to the target per class attacked" if last else "",
            whole=False,
        )
        axes.set_xscale("log")
        axes.set(xlim=(known["queries"].min() / 1.25, known["queries"].max() * 1.25), ylim=ends)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.xaxis.set_minor_formatter(lambda value, _: "")
        axes.yaxis.set_major_formatter(percent if spec.unit == "percent" else plain)
        note(axes, WHO[level], (0, 1), (-LEFT + 6, 58), place="frame", size=12.5, colour=INK, bold=True)
        axes.set_ylabel(spec.label + (", %" if spec.unit == "percent" else ""), fontsize=11, color=SOFT)
        _draw(canvas, axes, rows, level, spec, colours)
    return canvas


def _draw(canvas: Canvas, axes: Axes, within: pd.DataFrame, level: str, spec: Metric, colours: Colours) -> None:
    rows = within[within["reached"].notna() & (within["queries"] > 0)]
    controls, end = within.loc[within["control"], "leak"].dropna(), axes.get_xlim()[1]
    if len(controls):
        line = axes.axhline(controls.max(), color=SOFT, lw=1, ls=(0, (2, 3)))
        canvas.describe(line, f"The most that is credited to a control: {number(spec, controls.max())}")
    for recipe, own in rows.groupby("recipe", sort=False):
        spots = own.drop_duplicates("queries", keep="last")
        across, reached = [*spots["queries"], end], [*spots["reached"], spots["reached"].iloc[-1]]
        (line,) = axes.step(across, reached, where="post", color=colours.of(recipe), lw=2)
        canvas.describe(line, recipe, recipe=recipe)
    own = rows[rows["access"] == level]
    for row in own.itertuples():
        tooltip = f"{row.recipe}, {row.attack}: {number(spec, row.leak)} for {row.queries:,.0f} images a class"
        (dot,) = axes.plot([row.queries], [row.leak], "o", ms=6, color=colours.of(row.recipe))
        canvas.describe(dot, tooltip, recipe=row.recipe)
    _name_attacks(axes, own)
    name_ends(axes, rows.groupby("recipe", sort=False)["reached"].last().to_dict(), colours)


def _name_attacks(axes: Axes, known: pd.DataFrame) -> None:
    """Over the panel at each attack's place, aslant; those that would lie on each other stand behind one name."""
    medians: Any = known.groupby("attack", sort=False)["queries"].median()
    places = medians.sort_values()
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
        where = ("figure pixels", "axes fraction")
        note(axes, text, (at, 1), (0, 4), size=10, xycoords=where, rotation=20, ha="left", va="bottom")
