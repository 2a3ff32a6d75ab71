"""The section that groups the recipes by defense: curves, what each says, and a table by family."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from core.metrics.verdicts import CANNOT_TELL, LOWER
from orchestrator.page.colours import Colours
from orchestrator.page.defense_plots import best_of_each, family_panels
from orchestrator.page.markers import marker
from orchestrator.page.markup import Markup, join, tag
from orchestrator.page.order_page import order_table
from orchestrator.page.page import drawing, section
from orchestrator.reading.defenses.families import (
    CHEAP,
    DefenseFamily,
    DefenseGroup,
    Point,
    Versus,
    accuracy_floor,
    defense_groups,
    family_index,
    rows_of,
    versus,
)
from orchestrator.reading.defenses.readings import reading, reference_words
from orchestrator.reading.defenses.training_time import training_costs
from orchestrator.reading.findings.shown import judges_shown
from orchestrator.reading.findings.tables import seeds
from orchestrator.reading.numbers.estimates import Comparison
from orchestrator.reading.numbers.format import (
    ABSENT,
    axis_value,
    interval,
    is_null,
    number,
    points,
    signed,
    signed_interval,
)
from orchestrator.reading.numbers.metrics import MetricSpec, spec_of
from orchestrator.reading.numbers.model import ReportData
from orchestrator.reading.numbers.summary import Summary


def defense_section(data: ReportData, summary: Summary, colours: Colours) -> Markup:
    """The section, empty where the sweep tries fewer than two defenses or measured no leak."""
    groups = defense_groups(summary)
    if not groups or summary.primary is None or summary.primary not in summary.measured:
        return Markup("")
    attacks = f" under the attack that works best against it ({len(summary.attacks)} tried)"
    lead = (
        f"Each defense is a curve over its strength. Every recipe stands{attacks if len(summary.attacks) > 1 else ''} "
        f"with its leak by the {spec_of(summary.primary).label}."
    )
    parts = [part for group in groups for part in _group(data, summary, group, colours)]
    return section("By defense", lead, *parts, ident="defenses")


def _group(data: ReportData, summary: Summary, group: DefenseGroup, colours: Colours) -> list[Markup]:
    compared = versus(summary, group)
    head = tag("h3", group.setting) if group.setting else Markup("")
    return [
        head,
        drawing(best_of_each(summary, group, colours), _best_caption(summary, group)),
        _curves(summary, group, colours, compared),
        _other_views(summary, group, colours),
        _table(data, summary, group, colours, compared),
        order_table(summary, group),
    ]


def _best_caption(summary: Summary, group: DefenseGroup) -> str:
    floor = accuracy_floor(summary, group)
    if floor is None:
        rule = "the recipe that leaks least"
    else:
        shown = number(spec_of("test_acc"), floor)
        asked = "as asked for" if summary.min_test_acc is not None else (
            f"{points(spec_of('test_acc'), CHEAP)} below {reference_words(group)}"
        )  # fmt: skip
        rule = (
            f"the recipe that leaks least among those with at least {shown} test accuracy ({asked}), or the most "
            "accurate one where none reaches it"
        )
    return (
        f"Every defense at its best: {rule}. The least of several noisy numbers flatters itself, more so where a "
        "defense was tried at more strengths. Bars are intervals (an arrow head: the bar leaves the panel); grey dots "
        "are the other recipes."
    )


def _curves(summary: Summary, group: DefenseGroup, colours: Colours, compared: Mapping[str, Versus]) -> Markup:
    panels = family_panels(summary, group, colours, summary.primary)
    if not panels:
        return Markup("")
    figures = [
        tag("figure", drawn, tag("figcaption", reading(summary, group, family, compared), _end(group, family)))
        for family, drawn in panels
    ]
    lead = (
        "Points of a curve are joined in order of strength; all panels share their scales, and grey dots are the "
        "recipes of the other defenses. Hollow marks are combinations with label smoothing, dashed from smoothing "
        "alone. The ring is the reference. Differences are paired by seed and class and corrected for how many recipes "
        "are compared."
    )
    return join(tag("h3", "One curve for each defense"), tag("p", lead, class_="soft"),
                tag("div", *figures, class_="triple"))  # fmt: skip


def _end(group: DefenseGroup, family: DefenseFamily) -> str:
    """Why a curve is not joined to plain training, where a reader may expect it."""
    if family.starts_plain or group.plain is None or not family.why:
        return ""
    return f" Not joined to plain training: {family.why}."


def _other_views(summary: Summary, group: DefenseGroup, colours: Colours) -> Markup:
    """The same panels under each attack alone, and by the other judges: there to be opened."""
    views = [(summary.primary, attack) for attack in summary.attacks if len(summary.attacks) > 1]
    views += [(metric, None) for metric in judges_shown(summary) if metric != summary.primary]
    parts = []
    for metric, attack in views:
        panels = family_panels(summary, group, colours, metric, attack)
        if panels:
            grid = tag("div", *(tag("figure", drawn) for _, drawn in panels), class_="triple")
            worst = " under the attack that works best against each recipe" if len(summary.attacks) > 1 else ""
            named = f" under {attack}" if attack else worst
            parts.append(tag("details", tag("summary", f"The same by the {spec_of(metric).label}{named}"), grid))
    return join(*parts)


def _table(
    data: ReportData, summary: Summary, group: DefenseGroup, colours: Colours, compared: Mapping[str, Versus]
) -> Markup:
    judges = judges_shown(summary)
    costs = training_costs(data, summary, group)
    versed = group.reference is not None
    heads = ["Recipe", "n", "Test accuracy", *(_head(summary, metric) for metric in judges)]
    heads += [f"Leak against {reference_words(group)}", "Accuracy against the same"] if versed else []
    heads += ["Training time"] if costs else []
    rows = {metric: rows_of(summary, metric) for metric in judges}
    bodies = [] if group.plain is None else [("No defense", None, [group.plain])]
    bodies += [(family.name, family, list(family.points)) for family in group.families]
    parts = []
    for name, family, members in bodies:
        look = colours.css_class(members[0].recipe)
        mark = _glyph(family_index(summary, family.key)) if family else ""
        title = tag("th", mark, tag("span", name, class_="named"), colspan=len(heads), scope="rowgroup")
        lines = [_row(summary, group, colours, p, rows, compared, costs, versed=versed) for p in members]
        parts.append(tag("tbody", tag("tr", title, class_=f"group {look}"), *lines))
    top = tag("thead", tag("tr", *(tag("th", head, scope="col") for head in heads)))
    level = f"{100 * summary.settings.level:g}\u00a0%"
    note = f"Means over n seeds with {level} intervals in brackets."
    if len(summary.attacks) > 1:
        note += " Each judge's column has the attack that works best against the recipe by that judge."
    if costs:
        note += " Training time is the ratio to plain training, seed by seed, with its range over the seeds: it holds "
        note += "only as far as the trainings had their machines to themselves."
    table = tag("table", top, *parts, class_="families")
    region = tag("div", table, class_="scroll", tabindex=0, role="region", aria_label="recipes by defense")
    return join(tag("h3", "Every recipe by defense"), tag("p", note, class_="soft"), region)


def _head(summary: Summary, metric: str) -> Markup:
    spec = spec_of(metric)
    worst = join(tag("br"), tag("span", "worst case", class_="soft")) if len(summary.attacks) > 1 else ""
    return join(tag("abbr", f"Leak: {spec.label}", title=spec.description), worst)


def _glyph(index: int) -> Markup:
    return tag("svg", marker(index, 8, 8, size=0.8), class_="fig glyph", viewBox="0 0 16 16", aria_hidden="true")


def _row(
    summary: Summary, group: DefenseGroup, colours: Colours, point: Point, rows: Mapping[str, Mapping[str, int]],
    compared: Mapping[str, Versus], costs: Mapping[str, tuple[float, float, float]], *, versed: bool,
) -> Markup:  # fmt: skip
    frame = summary.frame[summary.frame["recipe"] == point.recipe]
    fullest = frame.loc[frame["n"].idxmax()]
    worst_case = rows.get(summary.primary, {}).get(point.recipe)
    counted = fullest if worst_case is None else summary.frame.loc[worst_case]
    spec = spec_of("test_acc")
    cells = [tag("td", seeds(counted)), tag("td", _estimate(spec, fullest))]
    for metric, worst in rows.items():
        row = worst.get(point.recipe)
        cells.append(tag("td", _absent() if row is None else _leak(summary, metric, row)))
    if versed and point.recipe == group.reference:
        cells += [tag("td", tag("span", "reference", class_="soft")), tag("td", _absent())]
    elif versed:
        gap = compared.get(point.recipe, Versus())
        cells += [tag("td", _gap(spec_of(summary.primary), gap.leak)), tag("td", _gap(spec, gap.accuracy))]
    if costs:
        cells.append(tag("td", _cost(costs.get(point.recipe))))
    marked = tag("span", "baseline", class_="tag") if frame["is_baseline"].any() else ""
    name = tag("th", tag("span", point.recipe, class_="named"), marked, scope="row")
    return tag("tr", name, *cells, class_=colours.css_class(point.recipe), data_recipe=point.recipe)


def _absent() -> Markup:
    return tag("span", ABSENT, class_="soft")


def _estimate(spec: MetricSpec, values: pd.Series) -> Markup:
    if is_null(values[spec.key]):
        return _absent()
    ends = interval(spec, values[f"{spec.key}_low"], values[f"{spec.key}_high"])
    beside = tag("span", f" {ends}" if ends else " no interval", class_="ci")
    return join(tag("span", number(spec, values[spec.key]), class_="value"), beside)


def _leak(summary: Summary, metric: str, row: int) -> Markup:
    """The value under the worst attack, and which that is, its axes left unnamed to save width."""
    values = summary.frame.loc[row]
    attack = ", ".join(axis_value(axis, values[axis.key]) for axis in summary.axes if axis.role == "attack")
    named = join(tag("br"), tag("span", attack, class_="ci")) if len(summary.attacks) > 1 else ""
    return join(_estimate(spec_of(metric), values), named)


def _gap(spec: MetricSpec, gap: Comparison) -> Markup:
    """A difference with its verdict: `12.0 points lower`, or that it may be chance."""
    if gap.n == 0:
        return _absent()
    ends = signed_interval(spec, gap.low, gap.high)
    if not gap.verdict or gap.verdict == CANNOT_TELL:
        words = "no difference" if gap.low == gap.high == 0 else CANNOT_TELL
        size = tag("span", f"{signed(spec, gap.difference)} {ends}".strip(), class_="ci")
        return join(tag("span", words, class_="verdict unclear"), tag("br"), size)
    good = (gap.verdict == LOWER) == (spec.better == "low")
    words = tag("span", f"{points(spec, gap.difference)} {gap.verdict}", class_=f"verdict {'good' if good else 'bad'}")
    return join(words, tag("br"), tag("span", ends, class_="ci"))


def _cost(ratio: tuple[float, float, float] | None) -> Markup:
    if ratio is None:
        return _absent()
    mean, low, high = ratio
    span = join(tag("br"), tag("span", f"{low:.2f} to {high:.2f}", class_="ci")) if low != high else ""
    return join(tag("span", f"{mean:.2f}\u00d7", class_="value"), span)


