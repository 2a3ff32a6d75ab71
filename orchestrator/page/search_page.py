"""The section on the search: where it looked, what it cost, how it went, and whether its cheap attacks may choose."""

from __future__ import annotations

from orchestrator.page.colours import Colours
from orchestrator.page.markup import Markup, join, tag
from orchestrator.page.page import drawing, paragraphs, section
from orchestrator.page.svg import Scale, figure, label, line, plain, polyline, ticks, x_axis, y_axis
from orchestrator.reading.findings.searches import (
    agreement_words,
    leaks_searched,
    progress_words,
    search_words,
    value_words,
    worst_in,
)
from orchestrator.reading.numbers.format import (
    ABSENT,
    count,
    duration,
    is_null,
)
from orchestrator.reading.numbers.search_model import (
    Progress,
    Proposed,
    SearchView,
    progress,
)
from orchestrator.reading.numbers.summary import Summary

WIDTH, HEIGHT = 880.0, 300.0
UNFOLDED = 40
"""Proposals that a page shows without asking."""


def search_section(view: SearchView | None, summary: Summary, colours: Colours) -> Markup:
    """The section; empty where the sweep has no search."""
    if view is None:
        return Markup("")
    gone = progress(view)
    parts = [
        paragraphs(search_words(view)),
        _space(view),
        drawing(_steps(view, gone), progress_words(view, gone)) if gone is not None else Markup(""),
        *_cheap(view, summary),
        _table(view, gone, colours, {str(recipe): row for recipe, row in worst_in(summary).items()}),
    ]
    return section("The search", "", *parts, ident="search")










def _space(view: SearchView) -> Markup:
    if not view.space:
        return Markup("")
    return join(tag("h3", "The space"), tag("ul", *(tag("li", words) for words in view.space)))








def _steps(view: SearchView, gone: Progress) -> Markup:
    """The step curve over device-hours, a dot where a recipe of the final frontier was found."""
    end = max(gone.hours[-1], sum(proposal.device_hours for proposal in view.proposals), 1e-9)
    hours = 60.0 if end < 1.5 else 1.0
    x = Scale(lo=0.0, hi=end * hours, start=64, end=WIDTH - 20)
    lo, hi = min(gone.values), max(gone.values)
    room = max(0.08 * (hi - lo), abs(hi) * 0.01, 1e-9)
    y = Scale(lo=lo - room, hi=hi + room, start=HEIGHT - 46, end=26)
    corners = [(x(gone.hours[0] * hours), y(gone.values[0]))]
    for hour, value in zip(gone.hours[1:], gone.values[1:], strict=True):
        corners += [(x(hour * hours), corners[-1][1]), (x(hour * hours), y(value))]
    corners.append((x.end, corners[-1][1]))
    done = [p for p in view.full if p.status == "done" and p.feasible and p.point(view.objectives) is not None]
    dots = [
        _dot(view, proposal, x(hour * hours), y(value))
        for proposal, hour, value in zip(done, gone.hours, gone.values, strict=True)
        if proposal.number in gone.best
    ]
    head = "Hypervolume" if len(view.objectives) > 1 else f"Best {view.objectives[0].label}"
    grid = [line(x.start, y(value), x.end, y(value), "grid") for value in ticks(y.lo, y.hi, 4)]
    return figure(
        WIDTH, HEIGHT, f"{head} over the device time spent", *grid, y_axis(x, y, plain, 4),
        tag("g", polyline(corners, "curve"), class_="rx"), *dots, label(x.start, 14, head, "strong"),
        x_axis(x, y, plain, "device-hours spent" if hours == 1 else "device-minutes spent"),
    )  # fmt: skip


def _dot(view: SearchView, proposal: Proposed, cx: float, cy: float) -> Markup:
    shown = [f"{o.label}: {value_words(o, proposal.objectives.get(o.column))}" for o in view.objectives]
    name = proposal.recipe or ", ".join(f"{key} {value}" for key, value in proposal.values.items())
    title = tag("title", "\n".join([f"{name} (proposal {proposal.number})", *shown]))
    return tag("g", title, tag("circle", cx=cx, cy=cy, r=4.5, class_="dot"), class_="pt rx", data_recipe=name)


def _cheap(view: SearchView, summary: Summary) -> list[Markup]:
    """What the cheap attacks of successive halving did, and whether they rank recipes as the full attack does."""
    if not view.on_rungs:
        return []
    lines = []
    for rung, members in view.on_rungs:
        how = f" ({view.rungs[rung]})" if rung < len(view.rungs) else ""
        through = sum(proposal.kept is True for proposal in members)
        lines.append(f"Rung {rung + 1}{how}: {count(len(members), 'recipe')} met it, {through} went on.")
        lines += [agreement_words(view, rung, objective, summary) for objective in leaks_searched(view)]
    return [tag("h3", "The cheap attacks"), paragraphs(lines)]










def _table(view: SearchView, gone: Progress | None, colours: Colours, rows: dict[str, int]) -> Markup:
    """Every proposal in order; the page's script lets a reader sort it."""
    if not view.proposals:
        return Markup("")
    rungs = bool(view.on_rungs)
    heads = ["No.", *view.dimensions, *(["Attack"] if rungs else []), *(o.label for o in view.objectives), "Time", ""]
    best = gone.best if gone is not None else ()
    body = [_line(view, proposal, colours, rows, best, rungs=rungs) for proposal in view.proposals]
    table = tag(
        "table",
        tag("thead", tag("tr", *(tag("th", head, scope="col") for head in heads))),
        tag("tbody", *body),
        class_="plain proposals sortable",
    )
    region = tag("div", table, class_="scroll", tabindex=0, role="region", aria_label="proposals of the search")
    many = count(len(view.proposals), "proposal")
    opened = len(view.proposals) <= UNFOLDED
    folded = tag("details", tag("summary", f"All {many}"), region, open=opened or None, class_="prints")
    return join(tag("h3", "The proposals in order"), folded)


def _line(
    view: SearchView, proposal: Proposed, colours: Colours, rows: dict[str, int], best: tuple[int, ...], *, rungs: bool
) -> Markup:
    row = rows.get(proposal.recipe) if proposal.recipe is not None else None
    name = proposal.number if row is None else tag("a", proposal.number, href=f"#row-{row}")
    cells = [tag("td", name, data_v=proposal.number)]
    cells += [tag("td", proposal.values.get(key, ABSENT)) for key in view.dimensions]
    if rungs:
        met = "full" if proposal.rung is None else f"rung {proposal.rung + 1}"
        cells.append(tag("td", met, data_v=99 if proposal.rung is None else proposal.rung))
    for objective in view.objectives:
        value = proposal.objectives.get(objective.column)
        cells.append(tag("td", value_words(objective, value), data_v=None if is_null(value) else repr(float(value))))
    cells.append(tag("td", duration(3600 * proposal.device_hours), data_v=f"{proposal.device_hours:.6f}"))
    cells.append(tag("td", *_marks(proposal, on_front=proposal.number in best)))
    look = colours.css_class(proposal.recipe) if proposal.recipe else None
    return tag("tr", *cells, class_=look, data_recipe=proposal.recipe)


def _marks(proposal: Proposed, *, on_front: bool) -> list[Markup]:
    words = []
    if proposal.status != "done":
        words.append(proposal.status)
    if on_front:
        words.append("frontier")
    if proposal.status == "done" and not proposal.feasible:
        words.append("misses a constraint")
    if proposal.kept is not None:
        words.append("went on" if proposal.kept else "dropped")
    if proposal.audited:
        words.append("audit")
    return [tag("span", word, class_="tag") for word in words]
