"""The section on the search: where it looked, what it cost, how it went, and whether its cheap attacks may choose."""

from __future__ import annotations

from core.metrics.rank_agreement import RankAgreement, rank_agreement
from orchestrator.report.colours import Colours
from orchestrator.report.format import ABSENT, NBSP, count, duration, is_null, listing, minus, number, significant
from orchestrator.report.markup import Markup, join, tag
from orchestrator.report.metrics import BY_KEY, spec_of
from orchestrator.report.page import drawing, paragraphs, section
from orchestrator.report.search_model import Objective, Progress, Proposed, SearchView, paired_with_full, progress
from orchestrator.report.summary import Summary
from orchestrator.report.svg import Scale, figure, label, line, plain, polyline, ticks, x_axis, y_axis

STRATEGIES = {
    "grid": "Every point of the space was tried",
    "random": "Recipes were drawn by chance",
    "optuna": "Optuna's sampler proposed recipes from what the earlier ones showed",
    "halving": "Many recipes met cheap attacks, and the best of them the full one",
}
BEST = 3
"""How many count as the best where a cheap attack's choice is checked."""

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
        drawing(_steps(view, gone), _progress_words(view, gone)) if gone is not None else Markup(""),
        *_cheap(view, summary),
        _table(view, gone, colours, {str(recipe): row for recipe, row in _rows(summary).items()}),
    ]
    return section("The search", "", *parts, ident="search")


def search_words(view: SearchView) -> list[str]:
    """How it looked, what it aimed at, what it cost and what ended it."""
    up = {"max": "up", "min": "down"}
    aims = listing(f"{aim_words(objective)} {up[objective.way]}" for objective in view.objectives)
    met = len({proposal.key for proposal in view.proposals})
    asked = f" of at most {view.asked:,}" if view.asked and view.asked > met else ""
    kept = f", with {listing(view.constraints)}" if view.constraints else ""
    first = f"{STRATEGIES.get(view.strategy, view.strategy)}: {count(met, 'recipe')}{asked}, to drive {aims}{kept}."
    states = [f"{many}{NBSP}{name}" for name in ("open", "failed") if (many := _many(view, name))]
    troubled = f" ({listing(states)})" if states else ""
    allowed = f" of {view.budget} allowed" if view.budget else ""
    second = (
        f"It took {duration(3600 * view.spent_device_hours)} of device time{allowed}, work reused from the store not "
        f"counted{troubled}. {ended(view)}"
    )
    return [first, second]


def aim_words(objective: Objective) -> str:
    """`leak by independent judge`, where the objective is a leak in hit rates; else its label."""
    spec = BY_KEY.get(objective.column)
    rate = spec is not None and spec.group == "leak" and spec.unit == "percent"
    return f"leak by {objective.label}" if rate else objective.label


def ended(view: SearchView) -> str:
    """What ended the search, as a sentence."""
    if view.stopped_by is None:
        return "It is not finished: the same command goes on where it is."
    if view.stopped_by == "recipes":
        return "It ended when it had tried as many recipes as it was given."
    if view.stopped_by == "exhausted":
        return "It ended when the space held no recipe that it had not tried."
    return f"It was ended: {view.stopped_by.removesuffix('.')}."


def _many(view: SearchView, status: str) -> int:
    return sum(proposal.status == status for proposal in view.proposals)


def _space(view: SearchView) -> Markup:
    if not view.space:
        return Markup("")
    return join(tag("h3", "The space"), tag("ul", *(tag("li", words) for words in view.space)))


def _rows(summary: Summary) -> dict[str, int]:
    return {} if summary.evidence is None else dict(summary.evidence.rows)


def value_words(objective: Objective, value: float | None) -> str:
    """A value of an objective with its unit; a dash where it was not measured."""
    if objective.column in BY_KEY:
        return number(spec_of(objective.column), value)
    return ABSENT if is_null(value) else significant(float(value))


def _progress_words(view: SearchView, gone: Progress) -> str:
    cost = "Device time is counted in the order of the proposals, the cheap attacks of others included."
    if len(view.objectives) == 1:
        return f"The best {view.objectives[0].label} so far among the recipes that meet the constraints. {cost}"
    ends = listing(
        f"{value_words(objective, end)} {aim_words(objective)}"
        for objective, end in zip(view.objectives, gone.reference, strict=True)
    )
    return (
        f"Hypervolume of what was found so far, measured from {ends}: it grows where a recipe beats what was known, "
        f"and ends at {significant(gone.values[-1])} with {count(len(gone.best), 'recipe')} on the frontier. {cost}"
    )


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
        lines += [agreement_words(view, rung, objective, summary) for objective in _leaks(view)]
    return [tag("h3", "The cheap attacks"), paragraphs(lines)]


def _leaks(view: SearchView) -> list[Objective]:
    return [o for o in view.objectives if o.column in BY_KEY and spec_of(o.column).group == "leak"]


def agreement_words(view: SearchView, rung: int, objective: Objective, summary: Summary) -> str:
    """Whether a rung ranks recipes as the full attack does, in a sentence with its interval and what it means."""
    sign = -1 if objective.way == "max" else 1
    pairs = paired_with_full(view, rung, objective.column)
    audited = sum(proposal.audited for proposal in view.full)
    which = f"{count(len(pairs), 'recipe')} met both it and the full attack"
    if audited:
        which += f", {audited} of them though dropped, chosen by chance"
    if len(pairs) < 2:
        return f"{which}: too few to say whether it ranks them alike by {objective.label}."
    cheap, dear = ([sign * value for value in side] for side in zip(*pairs, strict=True))
    found = rank_agreement(
        cheap, dear, k=min(BEST, len(pairs)), level=summary.settings.level, resamples=summary.settings.resamples,
        seed=summary.settings.seed,
    )  # fmt: skip
    return f"{which}. {_ranked(found, objective.label)}"


def _ranked(found: RankAgreement, judge: str) -> str:
    if found.kendall.value != found.kendall.value:
        return f"By {judge} one of the two finds them all equal, so that there is nothing to rank."
    ends = "" if found.kendall.low is None else f" [{_tau(found.kendall.low)}, {_tau(found.kendall.high)}]"
    meaning = {
        "agree": "it ranks recipes as the full attack does, and may choose among them",
        "disagree": "it ranks recipes against the full attack, so its choice misleads",
        "cannot tell": "whether it ranks recipes as the full attack does cannot be told from so few",
    }[found.verdict]
    best = f"the best {found.k}" if found.k > 1 else "the best one"
    return (
        f"By {judge} {meaning}: Kendall's tau {_tau(found.kendall.value)}{ends} (1: the same order, 0: none), and of "
        f"{best} by the full attack it has {100 * found.top_overlap:.0f}{NBSP}% among its own."
    )


def _tau(value: float) -> str:
    return minus(f"{value:.2f}")


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
