"""The accuracy-leak plot, for all of its uses: the frontier, one attack, one family of defenses, the best of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.metrics.verdicts import LEAST_SEEDS
from smoothsweep.orchestrator.page.figures.canvas import (
    ACCENT,
    DASHED,
    DOTTED,
    INK,
    KEY,
    LINE,
    PAPER,
    REST,
    SOFT,
    Canvas,
    Colours,
    Labels,
    Named,
    as_percent,
    clean,
    fold,
    limits,
    note,
    text_width,
    write_names,
)
from smoothsweep.orchestrator.result.display import LONG, MANY
from smoothsweep.orchestrator.result.findings import share
from smoothsweep.orchestrator.result.format import count, estimate, number
from smoothsweep.orchestrator.result.sweep_result import SweepResult, rows_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHAPES = ("o", "s", "D", "^", "v", "*", "P", "X", "p", ">", "h", "<", "d", "8", "H", (4, 1, 0), (6, 1, 0))
"""Marks that tell families apart without their colours, in the order of the families."""
REACH = 0.2
"""Accuracy below the best that a panel shows; recipes that lost more sit at its left edge."""

Ends = tuple[float, float]
"""Of a range; also a point: test accuracy and leak."""


def mark_of(family: int) -> str | tuple[int, int, int]:
    """The mark of the family at this place.

    Where the marks are used up they begin anew one further on: the colours begin anew as well, and no two families
    share both.
    """
    return SHAPES[(family + family // len(SHAPES)) % len(SHAPES)]


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A recipe at its test accuracy and its leak.

    Attributes:
        cell: Its row of the frame `attacks`.
        metric: The leak.
        name: Drawn beside it, if any.
        seeds: The places of single seeds.
        small: One of many, without bars.
        chosen: Drawn with a ring around it.
        more: A further line of its tooltip.
    """

    cell: Mapping[str, Any]
    metric: str
    colour: str
    name: str = ""
    shape: int = 0
    hollow: bool = False
    small: bool = False
    chosen: bool = False
    link: str = ""
    more: str = ""
    seeds: tuple[Ends, ...] = ()

    @property
    def recipe(self) -> str:
        return self.cell["recipe"]

    @property
    def x(self) -> float:
        return float(self.cell["test_acc"])

    @property
    def y(self) -> float:
        return float(self.cell[self.metric])

    def ends(self, key: str) -> Ends | None:
        """The interval of the accuracy or the leak, where known."""
        low, high = self.cell[f"{key}_low"], self.cell[f"{key}_high"]
        return None if low is None or high is None else (float(low), float(high))

    @property
    def words(self) -> str:
        """Its tooltip."""
        pieces = [self.recipe + (f", {self.cell['attack']}" if self.cell["attack"] else "")]
        for key in ("test_acc", self.metric):
            spec, n = metric_of(key), count(int(self.cell[f"{key}_n"]), "seed")
            text = estimate(spec, *(self.cell[f"{key}{end}"] for end in ("", "_low", "_high")))
            pieces.append(f"{spec.label}: {text} (n = {n})")
        return "\n".join([*pieces, *([self.more] if self.more else [])])


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One plot.

    Attributes:
        x, y: The ranges of its axes.
        guide: Where dotted lines cross, the reference.
        asked: An accuracy with its words.
        stairs: The frontier, most accurate recipe first.
        control: The most that a judge credits to a control, with its name.
        curves: Points to be joined, and whether by a dashed line.
        shape: The mark of the family that it is about; None: of none.
    """

    title: str
    spec: Metric
    dots: tuple[Dot, ...]
    x: Ends
    y: Ends
    curves: tuple[tuple[Sequence[tuple[float, float]], bool], ...] = ()
    guide: tuple[float, float] | None = None
    asked: tuple[float, str] | None = None
    stairs: tuple[tuple[float, float], ...] = ()
    control: tuple[float, str] | None = None
    colour: str = INK
    shape: int | None = None

    def held(self, x: float, y: float) -> tuple[float, float]:
        """The place, at the panel's edge if it lies outside."""
        return min(max(x, self.x[0]), self.x[1]), min(max(y, self.y[0]), self.y[1])


def plot(
    panels: Sequence[Panel | None], width: float, height: float, title: str = "", *, across: int = 1
) -> Canvas | None:
    """Panels in rows of `across`, each `width` by `height`; None where there are none."""
    known = [panel for panel in panels if panel is not None]
    if not known:
        return None
    across = min(across, len(known))
    title = title or f"Test accuracy against leak. {known[0].title}"
    canvas = Canvas(across * width, -(-len(known) // across) * height, title)
    for index, panel in enumerate(known):
        draw(canvas, panel, index % across * width, index // across * height, width, height)
    return canvas


def draw(canvas: Canvas, panel: Panel, left: float, top: float, width: float, height: float) -> None:
    """The panel between these pixels of the canvas."""
    box = (left + 48, top + 30, left + width - 12, top + height - 44)
    axes = canvas.axes(box, x="test accuracy, %", percent="x")
    axes.set(xlim=panel.x, ylim=panel.y)
    axes.locator_params(nbins=5 if width < 400 else 7)
    if panel.spec.unit == "percent":
        axes.yaxis.set_major_formatter(lambda value, at: as_percent(value, at) + "\u00a0%")
    if panel.shape is None:
        lines = title_lines(panel.title, width)
        axes.set_title(clean("\n".join(lines)), fontsize=13 - len(lines), weight="bold", loc="left", pad=5)
    else:
        axes.plot([], [], ls="", marker=mark_of(panel.shape), ms=8, color=panel.colour, label=clean(panel.title))
        look = KEY | {"prop": {"weight": "bold", "size": 12.5}, "labelcolor": panel.colour}
        axes.legend(loc="lower left", bbox_to_anchor=(-0.03, 1), handletextpad=0, **look)
    better = "better \u2198" if panel.spec.better == "low" else "better \u2197"
    note(axes, better, (1, 1), (0, 8), xycoords="axes fraction", ha="right")
    labels = Labels()
    _background(axes, panel, labels)
    for dot in panel.dots:
        _dot(canvas, axes, panel, dot, labels)
    names = []
    for dot in sorted((dot for dot in panel.dots if dot.name), key=lambda dot: not dot.chosen):
        place = "" if panel.x[0] <= dot.x <= panel.x[1] else f" (at {100 * dot.x:.1f}\u00a0%)"
        names.append(Named(dot.recipe, dot.name + place, *panel.held(dot.x, dot.y), dot.colour))
    write_names(canvas, axes, names, labels)


def title_lines(title: str, width: float) -> list[str]:
    """The title of a panel on one line or two, where it leaves room for both margins and the corner's word."""
    return fold(title, width - 120, lambda line: text_width(line, 11.5), 2)


def _background(axes: Axes, panel: Panel, labels: Labels) -> None:
    """Lines that say what points are to be held against."""
    if panel.stairs:
        high = panel.y[1] if panel.spec.better == "low" else panel.y[0]
        corners = [(panel.stairs[0][0], high)]
        for spot in panel.stairs:
            corners += [(spot[0], corners[-1][1]), spot]
        corners.append((panel.x[0], corners[-1][1]))
        axes.fill(*zip(*corners, (panel.x[0], high), strict=True), color=LINE, alpha=0.35, lw=0, gid="covered")
        axes.plot(*zip(*corners[1:], strict=True), color=INK, lw=1.4, alpha=0.75, gid="stairs")
        labels.keep_clear(axes, corners[1:])
    if panel.guide:
        axes.axvline(panel.guide[0], color=SOFT, lw=1, ls=DOTTED)
        axes.axhline(panel.guide[1], color=SOFT, lw=1, ls=DOTTED)
    beside = []
    if panel.asked and panel.x[0] <= panel.asked[0] <= panel.x[1]:
        axes.axvline(panel.asked[0], color=ACCENT, lw=1.4, ls=DASHED)
        beside.append(((panel.asked[0], panel.y[0]), panel.asked[1], 8))
    if panel.control and panel.y[0] <= panel.control[0] <= panel.y[1]:
        axes.axhline(panel.control[0], color=SOFT, lw=1.2, ls=(0, (8, 3, 2, 3)))
        beside.append(((panel.x[0], panel.control[0]), panel.control[1], 4))
    for at, words, above in beside:
        x, y = axes.transData.transform(at)
        labels.boxes.append((x, y, x + text_width(words, 11) + 10, y + above + 14))
        note(axes, words, at, (5, above))
    for spots, dashed in panel.curves:
        held, width = [panel.held(*spot) for spot in spots], 1.6 if dashed else 2.2
        axes.plot(*zip(*held, strict=True), color=panel.colour, gid="curve", lw=width, ls=DASHED if dashed else "-")
        labels.keep_clear(axes, held)


def _dot(canvas: Canvas, axes: Axes, panel: Panel, dot: Dot, labels: Labels) -> None:
    """A recipe's mark with its bars; one that lies outside sits at the left edge."""
    (x, y), colour = panel.held(dot.x, dot.y), dot.colour
    labels.mark(*axes.transData.transform((x, y)), 12 if dot.chosen else 4 if dot.small else 8)
    look: dict[str, Any] = {"ms": 11, "mew": 2, "zorder": 4, "mfc": PAPER if dot.hollow else colour}
    if dot.small:
        look |= {"ms": 6.5, "mew": 0, "zorder": 2, "alpha": 0.55}
    else:
        inside = panel.x[0] <= dot.x <= panel.x[1]
        bars = [(ends, (y, y), "|")] if inside and (ends := dot.ends("test_acc")) else []
        bars += [((x, x), ends, "_")] if (ends := dot.ends(dot.metric)) else []
        for across, up, cap in bars:
            (bar,) = axes.plot(across, up, color=colour, alpha=0.6, lw=1.6, marker=cap, ms=7)
            canvas.describe(bar, recipe=dot.recipe)
            labels.keep_clear(axes, list(zip(across, up, strict=True)))
        if not inside:
            axes.plot([x], [y], "<", ms=5, color=colour, clip_on=False)
        if dot.seeds:
            (seeds,) = axes.plot(*zip(*dot.seeds, strict=True), "o", ms=5, color=colour, alpha=0.4, mew=0)
            canvas.describe(seeds, recipe=dot.recipe)
    if dot.chosen:
        axes.plot([x], [y], "o", ms=21, mfc="none", mec=ACCENT, mew=2, clip_on=False)
    (mark,) = axes.plot([x], [y], marker=mark_of(dot.shape), ls="", mec=colour, clip_on=False, **look)
    canvas.describe(mark, dot.words, recipe=dot.recipe, link=dot.link)


@dataclass(frozen=True, kw_only=True)
class Panels:
    """The panels of one sweep: which recipes each shows, at which attack, against what.

    seeds: a row per trial of the seeds that means are over, by its id.
    """

    result: SweepResult
    seeds: pd.DataFrame
    colours: Colours

    @cached_property
    def cells(self) -> list[dict[str, Any]]:
        """The rows of the frame `attacks`."""
        return rows_of(self.result.attacks)

    def frontier(self) -> Panel | None:
        """Every recipe under its worst attack by the metric that decides; None with fewer than two to place."""
        facts, leak = self.result.facts, self.result.facts["leak"]
        rows = {} if leak is None else self._placed(leak)
        if len(rows) < 2:
            return None
        spec, front, cells = self.result.metric(leak), facts["front"], [self.cells[row] for row in rows.values()]
        recipes = {row["recipe"]: row for row in rows_of(self.result.recipes)}
        crowded, asked = is_crowded(recipes), facts["accuracy_asked"]
        near = max(cell["test_acc"] for cell in cells) - REACH
        held = [cell["test_acc"] for cell in cells if cell["test_acc"] >= near or cell["recipe"] in front]
        lo, hi = limits([*held, *([] if asked is None else [asked])], share=0.1, least=0.008)
        leaks = [cell[leak] for cell in cells]
        top = [*leaks, *(cell[f"{leak}_high"] for cell in cells if cell[f"{leak}_high"] is not None)]
        chosen = facts["best"] if facts["seeds_shared"] >= LEAST_SEEDS else None

        def look(recipe: str, row: int) -> dict[str, Any]:
            named = not crowded or recipe in front or recipe == facts["baseline"]
            probable = recipes[recipe]["probability_best"]
            return {
                "more": "" if probable is None else f"best with probability {share(probable)}",
                "shape": int(recipes[recipe]["family_place"] or 0),
                "name": recipe if named else "",
                "small": not named,
                "hollow": self.cells[row]["is_baseline"],
                "link": f"#row-{row}",
                "chosen": named and recipe == chosen,
            }

        return Panel(
            title=f"Leak: {spec.label}" + (", strongest attack" if len(self.attacks_tried) > 1 else ""),
            spec=spec,
            dots=self._dots(rows.items(), leak, look),
            x=(max(0.0, lo), min(hi, 1 + 0.25 * (hi - lo))),
            y=(0.0, min(1.0, max(0.05, 1.04 * max(top)))) if spec.unit == "percent" else limits(leaks, least=1e-6),
            asked=None if asked is None else (asked, f"{number(metric_of('test_acc'), asked)} asked for"),
            stairs=tuple(self._spot(rows[recipe], leak) for recipe in front if recipe in rows),
            control=self._control(leak),
        )

    @property
    def attacks_tried(self) -> list[str]:
        """Labels of the attacks, controls left out; [""] where the sweep varies none."""
        return list(dict.fromkeys(cell["attack"] for cell in self.cells if not cell["control"]))

    def attacks(self, but: str | None = None) -> list[Panel]:
        """One per attack and judge. but: a judge to leave out where there is a single attack."""
        if "test_acc" not in self.result.labels:
            return []
        attacks, shown = self.attacks_tried, self.result.facts["judges"]
        judges = [key for key in shown if len(attacks) > 1 or key != but]
        x = limits(self.seeds["test_acc"].dropna(), share=0.16, least=0.008)
        rates = [key for key in shown if metric_of(key).unit == "percent"]
        panels = []
        for attack in attacks:
            for judge in judges:
                if judge not in rates:
                    y = limits(self.seeds[judge].dropna(), least=1e-6)
                else:  # one scale: panels are there to be compared. It holds single seeds; bars may leave the panel
                    highest = [self.result.attacks[[f"{key}_high" for key in rates]], self.seeds[rates]]
                    y = 0.0, min(1.0, max(0.05, 1.08 * max(float(one.astype(float).max().max()) for one in highest)))
                panels.append(self._of_attack(judge, attack, x, y))
        return panels

    def _of_attack(self, judge: str, attack: str, x: Ends, y: Ends) -> Panel:
        spec, named = self.result.metric(judge), self.result.facts["lines"]
        at = {
            row: cell["recipe"]
            for row, cell in enumerate(self.cells)
            if cell["attack"] == attack and cell[judge] is not None and cell["test_acc"] is not None
        }
        base = [row for row in at if self.cells[row]["is_baseline"]]

        def look(recipe: str, row: int) -> dict[str, Any]:
            mine = self.seeds.loc[self.seeds.index.isin(self.cells[row]["trials"]), ["test_acc", judge]]
            seeds = tuple(mine.dropna().itertuples(index=False, name=None))
            several = {"seeds": seeds} if mine[judge].notna().sum() > 1 else {}
            return {"hollow": row in base, **({"name": recipe, **several} if row in named else {"small": True})}

        return Panel(
            title=f"Leak: {spec.label}" + (f" \u00b7 {attack}" if attack else ""),
            spec=spec,
            x=x,
            y=y,
            dots=self._dots(((recipe, row) for row, recipe in at.items()), judge, look),
            guide=self._spot(base[0], judge) if len(base) == 1 else None,
            control=self._control(judge),
        )

    def families(self, setting: Mapping[str, Any]) -> list[tuple[dict[str, Any], Panel]]:
        """One per family with a measured point: its curve, all other recipes small behind it. One scale for all.

        setting: one of the result's; every recipe stands under the attack that works best against it.
        """
        leak, plain, reference = self.result.facts["leak"], setting["plain"], setting["reference"]
        mine = self.result.defenses[self.result.defenses["setting"] == setting["setting"]]
        points = {row["recipe"]: row for row in rows_of(mine)}
        rows = {recipe: row for recipe, row in self._placed(leak).items() if recipe in points}
        seen = [self.cells[row]["test_acc"] for row in rows.values()]
        x = limits([value for value in seen if value >= max(seen) - REACH], least=0.008) if rows else (0.0, 1.0)

        panels = []
        for family in setting["families"]:
            own = [recipe for recipe, point in points.items() if point["family"] == family["key"]]
            if rows.keys().isdisjoint(own):
                continue

            def look(recipe: str, row: int, family: Mapping[str, Any] = family) -> dict[str, Any] | None:
                point, inside = points[recipe], x[0] <= self.cells[row]["test_acc"] <= x[1]
                if recipe in (plain, reference):
                    return {"name": "plain" if recipe == plain else "baseline", "hollow": True}
                if point["family"] == family["key"]:
                    return {"name": point["mark"], "shape": family["place"], "hollow": point["combined"]}
                return {"small": True, "colour": REST[0]} if inside else None

            arms = [([recipe for recipe in arm if recipe in rows], bool(name)) for name, arm in family["curves"]]
            panel = Panel(
                title=family["name"],
                spec=metric_of(leak),
                x=x,
                y=self._leak_span(leak, rows),
                curves=tuple(
                    ([self._spot(rows[one], leak) for one in arm], dash) for arm, dash in arms if len(arm) > 1
                ),
                colour=self.colours.of(own[0]),
                shape=family["place"],
                dots=self._dots(rows.items(), leak, look),
                guide=self._spot(rows[reference], leak) if reference in rows else None,
            )
            panels.append((family, panel))
        return panels

    def _dots(
        self, rows: Iterable[tuple[str, int]], metric: str, look: Callable[[str, int], dict[str, Any] | None]
    ) -> tuple[Dot, ...]:
        """A dot for each (recipe, row) that has a look, the small ones first."""
        dots = []
        for recipe, row in rows:
            shown = look(recipe, row)
            if shown is not None:
                known: dict[str, Any] = {"cell": self.cells[row], "metric": metric, "colour": self.colours.of(recipe)}
                dots.append(Dot(**(known | shown)))
        return tuple(sorted(dots, key=lambda dot: not dot.small))

    def _spot(self, row: int, metric: str) -> Ends:
        return float(self.cells[row]["test_acc"]), float(self.cells[row][metric])

    def _control(self, metric: str) -> tuple[float, str] | None:
        """The most that a judge credits to a control."""
        rows = [cell for cell in self.cells if cell["control"] and cell[metric] is not None]
        most = max(rows, key=lambda cell: metric_of(metric).sign * cell[metric], default=None)
        return None if most is None else (float(most[metric]), f"control: {most['attack']}")

    def _placed(self, leak: str) -> dict[str, int]:
        """Recipe -> its row under the attack that works best against it, where its accuracy is known."""
        strongest = self.result.strongest(leak)
        return {recipe: row for recipe, row in strongest.items() if self.cells[row].get("test_acc") is not None}

    def _leak_span(self, metric: str, rows: Mapping[str, int]) -> Ends:
        """Around what occurs, intervals included: curves are compared by their places, not by lengths from zero."""
        frame = self.result.attacks.loc[list(rows.values())]
        if metric_of(metric).unit != "percent":
            return limits(list(frame[metric]), share=0.06, least=1e-6)
        lo, hi = limits(frame[[metric, f"{metric}_low", f"{metric}_high"]].stack().dropna(), share=0.06)
        return max(0.0, lo), min(1.0, hi)


def is_crowded(recipes: Collection[str]) -> bool:
    """Whether the names of all recipes need more than `MANY` lines in a figure, so that some are not written."""
    return sum(1 + (len(recipe) > LONG) for recipe in recipes) > MANY
