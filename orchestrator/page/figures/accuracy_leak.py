"""The accuracy-leak plot, for all of its uses: the frontier, one attack, one family of defenses, the best of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from smoothsweep.core.checks import present
from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.orchestrator.page.figures.canvas import (
    ACCENT,
    DASHED,
    DOTTED,
    INK,
    KEY,
    LINE,
    PAPER,
    SOFT,
    Canvas,
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
from smoothsweep.orchestrator.page.figures.colours import REST, Colours
from smoothsweep.orchestrator.result.defenses import (
    DefenseFamily,
    DefenseGroup,
    accuracy_floor,
    best_point,
    family_index,
)
from smoothsweep.orchestrator.result.display import hover, is_crowded, judges_shown, shown_rows
from smoothsweep.orchestrator.result.findings import share
from smoothsweep.orchestrator.result.format import is_null, number
from smoothsweep.orchestrator.result.summary import Summary, decide

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHAPES = ("o", "s", "D", "^", "v", "*", "P", "X", "p", ">", "h", "<", "d", "8", "H", (4, 1, 0), (6, 1, 0))
"""Marks that tell families apart without their colours, in the order of the families."""
REACH = 0.2
"""Accuracy below the best that a panel shows; recipes that lost more sit at its left edge."""

Ends = tuple[float, float]
Marked = Mapping[str, tuple[str, int, bool]]
"""Recipe -> its name in the plot, its shape, and whether its mark is hollow."""


def mark_of(family: int) -> str | tuple[int, int, int]:
    """The mark of the family at this place.

    Where the marks are used up they begin anew one further on: the colours begin anew as well, and no two families
    share both.
    """
    return SHAPES[(family + family // len(SHAPES)) % len(SHAPES)]


@dataclass(frozen=True, kw_only=True)
class Dot:
    """One recipe: x is its test accuracy, y its leak, with their intervals where known.

    Attributes:
        name: Drawn beside it, if any.
        seeds: The places of single seeds.
        small: One of many, without bars.
        chosen: Drawn with a ring around it.
    """

    recipe: str
    x: float
    y: float
    colour: str
    words: str
    x_ends: Ends | None = None
    y_ends: Ends | None = None
    name: str = ""
    shape: int = 0
    hollow: bool = False
    small: bool = False
    chosen: bool = False
    link: str = ""
    seeds: tuple[tuple[float, float], ...] = ()


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
        bars = [(dot.x_ends, (y, y), "|")] if inside and dot.x_ends else []
        bars += [((x, x), dot.y_ends, "_")] if dot.y_ends else []
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
    """The panels of one sweep: which recipes each shows, at which attack, against what."""

    summary: Summary
    colours: Colours

    def frontier(self) -> Panel | None:
        """Every recipe under its worst attack by the metric that decides; None with fewer than two to place."""
        summary = self.summary
        rows = self._placed({} if summary.evidence is None else summary.evidence.rows)
        if len(rows) < 2:
            return None
        spec, front, frame = summary.spec, decide(summary).front, summary.frame.loc[list(rows.values())]
        named = [r for r in rows if not is_crowded(summary) or r in front or r == summary.baseline_recipe]
        probable = summary.compared.recommendation.probability_best or {}
        near = frame["test_acc"] >= frame["test_acc"].max() - REACH
        asked = summary.min_test_acc
        held = [*frame.loc[near | frame["recipe"].isin(front), "test_acc"], *([] if asked is None else [asked])]
        lo, hi = limits(held, share=0.1, least=0.008)
        top = [*frame[spec.key], *frame[f"{spec.key}_high"].dropna()]
        rate = spec.unit == "percent"

        def look(recipe: str, row: int) -> dict[str, Any]:
            defended, words = summary.defenses.get(recipe), hover(summary.cells[row], spec.key)
            best = f"\nbest with probability {share(probable[recipe])}" if recipe in probable else ""
            return {
                "words": words + best,
                "shape": family_index(summary, defended.words.family) if defended and not defended.words.plain else 0,
                "name": recipe if recipe in named else "",
                "small": recipe not in named,
                "hollow": bool(summary.frame.loc[row, "is_baseline"]),
                "link": f"#row-{row}",
                "chosen": recipe in named and recipe == summary.compared.recommended,
            }

        return Panel(
            title=f"Leak: {spec.label}" + (", strongest attack" if len(summary.attacks) > 1 else ""),
            spec=spec,
            dots=self._dots(rows.items(), spec.key, look),
            x=(max(0.0, lo), min(hi, 1 + 0.25 * (hi - lo))),
            y=(0.0, min(1.0, max(0.05, 1.04 * max(top)))) if rate else limits(frame[spec.key], least=1e-6),
            asked=None if asked is None else (asked, f"{number(metric_of('test_acc'), asked)} asked for"),
            stairs=tuple(self._spot(rows[recipe], spec.key) for recipe in front if recipe in rows),
            control=self._control(spec.key),
        )

    def attacks(self, but: str | None = None) -> list[Panel]:
        """One per attack and judge. but: a judge to leave out where there is a single attack."""
        if "test_acc" not in self.summary.measured:
            return []
        attacks = self.summary.attacks
        judges = [key for key in judges_shown(self.summary) if len(attacks) > 1 or key != but]
        x = limits(self._seen("test_acc"), share=0.16, least=0.008)
        return [self._of_attack(judge, attack, x, self._span(judge)) for attack in attacks for judge in judges]

    def families(
        self, group: DefenseGroup, metric: str, attack: str | None = None
    ) -> list[tuple[DefenseFamily, Panel]]:
        """One per family with a measured point: its curve, all other recipes small behind it. One scale for all.

        attack: one attack; None sets every recipe under the one that works best against it.
        """
        rows = self._in_group(group, metric, attack)
        families = [family for family in group.families if any(point.recipe in rows for point in family.points)]
        if not families:
            return []
        seen = self.summary.frame.loc[list(rows.values()), "test_acc"]
        x, y = limits(list(seen[seen >= seen.max() - REACH]), least=0.008), self._leak_span(metric, rows)
        return [(family, self._of_family(group, family, metric, rows, x, y)) for family in families]

    def best(self, group: DefenseGroup) -> Panel | None:
        """Every family's best point with its name, the other recipes small; None with fewer than two such points."""
        summary, metric = self.summary, self.summary.primary
        if metric is None or metric not in summary.measured:
            return None
        rows = self._in_group(group, metric)
        best_points = {family.key: best_point(summary, group, family.points) for family in group.families}
        best = {key: held for key, held in best_points.items() if held is not None and held[0].recipe in rows}
        if len(best) < 2:
            return None
        floor = accuracy_floor(summary, group)
        near = [rows[p.recipe] for p, enough in best.values() if enough]
        near += [rows[group.reference]] if group.reference in rows else []
        seen = [*summary.frame.loc[near or list(rows.values()), "test_acc"], *([] if floor is None else [floor])]
        x = limits(seen, share=0.16, least=0.008)
        marked = {
            point.recipe: (point.words.label, family_index(summary, key), point.words.combined)
            for key, (point, _) in best.items()
        }
        return Panel(
            title=f"Leak: {summary.spec.label}, the best of each defense",
            spec=summary.spec,
            x=x,
            y=self._leak_span(metric, rows),
            dots=self._of_group(group, metric, rows, marked, x),
            guide=self._reference(group, rows, metric),
            control=self._control(metric),
            asked=None if floor is None else (floor, f"{number(metric_of('test_acc'), floor)} accuracy"),
        )

    def _of_attack(self, judge: str, attack: str, x: Ends, y: Ends) -> Panel:
        frame, spec, named = self.summary.frame, self.summary.metric(judge), shown_rows(self.summary)
        at = frame[(frame["attack"] == attack) & frame[judge].notna() & frame["test_acc"].notna()]
        base = at.index[at["is_baseline"]]

        def look(recipe: str, row: int) -> dict[str, Any]:
            shown = {"name": recipe, "seeds": self._seeds(row, judge)} if row in named else {"small": True}
            return {"hollow": row in base, **shown}

        return Panel(
            title=f"Leak: {spec.label}" + (f" \u00b7 {attack}" if attack else ""),
            spec=spec,
            x=x,
            y=y,
            dots=self._dots(zip(at["recipe"], at.index, strict=True), judge, look),
            guide=self._spot(base[0], judge) if len(base) == 1 else None,
            control=self._control(judge),
        )

    def _of_family(
        self, group: DefenseGroup, family: DefenseFamily, metric: str, rows: Mapping[str, int], x: Ends, y: Ends
    ) -> Panel:
        index = family_index(self.summary, family.key)
        arms = [([p.recipe for p in arm.points if p.recipe in rows], bool(arm.name)) for arm in family.arms]
        marked = {point.recipe: (point.words.mark, index, point.words.combined) for point in family.points}
        return Panel(
            title=family.name,
            spec=metric_of(metric),
            x=x,
            y=y,
            curves=tuple(([self._spot(rows[one], metric) for one in arm], dash) for arm, dash in arms if len(arm) > 1),
            colour=self.colours.of(family.points[0].recipe),
            shape=index,
            dots=self._of_group(group, metric, rows, marked, x),
            guide=self._reference(group, rows, metric),
        )

    def _of_group(
        self, group: DefenseGroup, metric: str, rows: Mapping[str, int], marked: Marked, x: Ends
    ) -> tuple[Dot, ...]:
        """The marked recipes, rings for plain training and the reference, the rest small where the panel has them."""
        plain = group.plain.recipe if group.plain else None

        def look(recipe: str, row: int) -> dict[str, Any] | None:
            if recipe in (plain, group.reference):
                return {"name": "plain" if recipe == plain else "baseline", "hollow": True}
            if recipe in marked:
                return dict(zip(("name", "shape", "hollow"), marked[recipe], strict=True))
            inside = x[0] <= self.summary.frame.loc[row, "test_acc"] <= x[1]
            return {"small": True, "colour": REST[0]} if inside else None

        return self._dots(rows.items(), metric, look)

    def _dots(
        self, rows: Iterable[tuple[str, int]], metric: str, look: Callable[[str, int], dict[str, Any] | None]
    ) -> tuple[Dot, ...]:
        """A dot for each (recipe, row) that has a look, the small ones first."""
        dots = []
        for recipe, row in rows:
            shown = look(recipe, row)
            if shown is not None:
                cell, bars = self.summary.cells[row], {}
                for name, key in (("x_ends", "test_acc"), ("y_ends", metric)):
                    low, high = cell[f"{key}_low"], cell[f"{key}_high"]
                    bars[name] = None if is_null(low) or is_null(high) else (float(low), float(high))
                usual: dict[str, Any] = {"colour": self.colours.of(recipe), "words": hover(cell, metric), **bars}
                x, y = self._spot(row, metric)
                dots.append(Dot(recipe=recipe, x=x, y=y, **(usual | shown)))
        return tuple(sorted(dots, key=lambda dot: not dot.small))

    def _spot(self, row: int, metric: str) -> tuple[float, float]:
        return float(self.summary.frame.loc[row, "test_acc"]), float(self.summary.frame.loc[row, metric])

    def _seeds(self, row: int, judge: str) -> tuple[tuple[float, float], ...]:
        accuracies, leaks = self.summary.samples[row]["test_acc"], self.summary.samples[row][judge]
        known = [(accuracies[seed].value, leak.value) for seed, leak in leaks.items() if seed in accuracies]
        return tuple(known) if len(leaks) > 1 else ()

    def _control(self, metric: str) -> tuple[float, str] | None:
        row = self.summary.worst_of_control(metric)
        return None if row is None else (float(self.summary.frame.loc[row[1], metric]), f"control: {row[0]}")

    def _reference(self, group: DefenseGroup, rows: Mapping[str, int], metric: str) -> tuple[float, float] | None:
        return self._spot(rows[present(group.reference, "reference")], metric) if group.reference in rows else None

    def _placed(self, rows: Mapping[str, int]) -> dict[str, int]:
        """The rows with a known accuracy."""
        return {recipe: row for recipe, row in rows.items() if not is_null(self.summary.frame.loc[row, "test_acc"])}

    def _in_group(self, group: DefenseGroup, metric: str, attack: str | None = None) -> dict[str, int]:
        mine = {point.recipe for point in group.points}
        placed = self._placed(self.summary.rows(metric, attack))
        return {recipe: row for recipe, row in placed.items() if recipe in mine}

    def _seen(self, key: str) -> list[float]:
        """Every value of a metric that a figure must hold: single seeds. Error bars may leave the panel."""
        return [sample.value for cell in self.summary.samples for sample in cell[key].values()]

    def _span(self, key: str) -> Ends:
        """One scale for all judges in per cent: their panels are there to be compared."""
        if metric_of(key).unit != "percent":
            return limits(self._seen(key), least=1e-6)
        rates = [key for key in judges_shown(self.summary) if metric_of(key).unit == "percent"]
        highest = pd.concat([self.summary.frame[f"{key}_high"] for key in rates]).dropna()
        return 0.0, min(1.0, max(0.05, 1.08 * max([*highest, *(value for key in rates for value in self._seen(key))])))

    def _leak_span(self, metric: str, rows: Mapping[str, int]) -> Ends:
        """Around what occurs, intervals included: curves are compared by their places, not by lengths from zero."""
        frame = self.summary.frame.loc[list(rows.values())]
        if metric_of(metric).unit != "percent":
            return limits(list(frame[metric]), share=0.06, least=1e-6)
        lo, hi = limits(frame[[metric, f"{metric}_low", f"{metric}_high"]].stack().dropna(), share=0.06)
        return max(0.0, lo), min(1.0, hi)
