"""What a search found: every recipe as a line through its parameters, and how much each parameter accounts for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smoothsweep.core.text import minus
from smoothsweep.orchestrator.page.drawing.canvas import INK, PAPER, SOFT, Canvas, note, percent, words_for
from smoothsweep.orchestrator.result.data import Objective, ProposalRow, SearchView
from smoothsweep.orchestrator.result.searches import aim_words, proposal_words, value_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 980.0, 400.0, 60.0, 84.0, 44.0
RAMP = ("#0072b2", "#5b9fb5", "#8f8b82", "#d98a3d", "#c4500a")
"""Colours of fifths of what occurs, the best for the model's owner first."""
ABSENT = -0.13
"""Height of recipes that do not have the parameter, below its axis."""
LEAST = 3
"""Recipes below which a figure shows nothing that a table does not."""
MOST_TICKS = 7
FINE = 0.08
"""Range of a rate up to which its ticks have a decimal, so that they differ."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """One axis.

    Attributes:
        places: Value -> height in [0, 1].
        ticks: (height, words) of each tick.
    """

    title: str
    places: dict[float | str, float]
    ticks: tuple[tuple[float, str], ...]


def coordinates(view: SearchView, objective: Objective) -> Canvas | None:
    """Parallel coordinates of the recipes that met the full attack, coloured by an objective; None with too few."""
    met = _measured(view, objective)
    if len(met) < LEAST:
        return None
    scales = [
        *(_of_parameter(name, met) for name in view.dimensions),
        *(_of_objective(o, met) for o in view.objectives),
    ]
    canvas = Canvas(WIDTH, HEIGHT, f"Every recipe of the search by its parameters, coloured by {aim_words(objective)}")
    axes = canvas.axes(LEFT, TOP, WIDTH - LEFT, HEIGHT - BOTTOM, grid=None)
    axes.set(xlim=(0, len(scales) - 1), ylim=(ABSENT - 0.06, 1))
    axes.axis("off")
    best = 1 if objective.way == "max" else -1
    values = [float(proposal.objectives[objective.column] or 0.0) for proposal in met]
    for proposal in sorted(
        met, key=lambda proposal: best * float(proposal.objectives[objective.column] or 0.0)
    ):  # the best on top
        heights = [_height(scale, proposal, view) for scale in scales]
        colour = RAMP[_fifth(float(proposal.objectives[objective.column] or 0.0), values, objective)]
        (line,) = axes.plot(range(len(scales)), heights, color=colour, lw=1.9, alpha=0.85, solid_joinstyle="round")
        canvas.describe(line, proposal_words(view, proposal), recipe=proposal.recipe or "")
    for place, scale in enumerate(scales):
        _draw_axis(axes, place, scale, last=place == len(scales) - 1, room=(WIDTH - 2 * LEFT) / (len(scales) - 1))
    if any(name not in proposal.values for name in view.dimensions for proposal in met):
        axes.text(-0.02, ABSENT, "does not apply", fontsize=10, color=SOFT, ha="left", va="top")
    _key(canvas, objective, values)
    return canvas


def importance(view: SearchView) -> Canvas | None:
    """Bars of every parameter's share, a panel for each objective; None without any."""
    importances = view.importances
    if not importances:
        return None
    most = max(len(importance.shares) for importance in importances)
    width, height = 420.0, 62.0 + 24.0 * most + 40.0
    canvas = Canvas(
        width * len(importances), height, "Share of the variance between recipes that each parameter accounts for"
    )
    by_column = {objective.column: objective for objective in view.objectives}
    for number, importance in enumerate(importances):
        left = number * width
        axes = canvas.axes(left + 120, 40, left + width - 40, height - 44, grid="x")
        names = [words_for(name) for name, _ in importance.shares]
        shares = [share for _, share in importance.shares]
        axes.barh(range(len(names)), shares, color=RAMP[1], height=0.6)
        for place, share in enumerate(shares):
            axes.annotate(f"{100 * share:.0f} %", (share, place), (5, -4), textcoords="offset points", fontsize=11)
        axes.set(xlim=(0, 1), ylim=(most - 0.4, -0.6))
        axes.set_yticks(range(len(names)), names)
        axes.xaxis.set_major_formatter(percent)
        axes.set_xlabel("share of the variance, %", fontsize=12, color=SOFT)
        title = words_for(f"{aim_words(by_column[importance.objective])}, n = {importance.recipes}")
        axes.set_title(title, loc="left", fontsize=12.5, weight="bold", color=INK)
    return canvas


def _measured(view: SearchView, objective: Objective) -> list[ProposalRow]:
    return [
        proposal
        for proposal in view.full
        if proposal.status == "done" and _is_known(proposal.objectives.get(objective.column))
    ]


def _is_known(value: float | None) -> bool:
    return value is not None and value == value


def _of_parameter(name: str, met: Sequence[ProposalRow]) -> Scale:
    settings = [proposal.settings.get(name, proposal.values[name]) for proposal in met if name in proposal.values]
    numbers = [value for value in settings if isinstance(value, float)]
    if len(numbers) == len(settings) and len(set(numbers)) > 1:
        return _of_numbers(name, numbers, lambda value: minus(f"{value:g}"))
    kinds = sorted({*settings}, key=str)
    places = {kind: (index + 0.5) / len(kinds) for index, kind in enumerate(kinds)}
    dots = tuple(
        (height, minus(f"{kind:g}") if isinstance(kind, float) else str(kind)) for kind, height in places.items()
    )
    return Scale(title=name, places=places, ticks=dots)


def _of_objective(objective: Objective, met: Sequence[ProposalRow]) -> Scale:
    values = [
        float(value)
        for proposal in met
        if _is_known(value := proposal.objectives.get(objective.column)) and value is not None
    ]
    spec = objective.spec
    title = aim_words(objective) + (", %" if spec and spec.unit == "percent" else "")

    decimals = 0 if values and max(values) - min(values) > FINE else 1

    def words(value: float) -> str:
        return minus(f"{100 * value:.{decimals}f}") if spec and spec.unit == "percent" else minus(f"{value:.3g}")

    return _of_numbers(title, values or [0.0], words, few=True)


def _of_numbers(title: str, numbers: Sequence[float], words: Callable[[float], str], *, few: bool = False) -> Scale:
    low, high = min(numbers), max(numbers)
    span = (high - low) or 1.0
    places: dict[float | str, float] = {value: (value - low) / span for value in numbers}
    known = sorted({*numbers})
    if few or len(known) > MOST_TICKS:
        known = [low + share * (high - low) for share in (0, 0.25, 0.5, 0.75, 1)]
    return Scale(
        title=title, places=places, ticks=tuple(((value - low) / span, words(value)) for value in dict.fromkeys(known))
    )


def _height(scale: Scale, proposal: ProposalRow, view: SearchView) -> float:
    if scale.title in view.dimensions:
        if scale.title not in proposal.values:
            return ABSENT
        return scale.places[proposal.settings.get(scale.title, proposal.values[scale.title])]
    objective = next(o for o in view.objectives if scale.title.startswith(aim_words(o)))
    value = proposal.objectives.get(objective.column)
    return scale.places.get(float(value), ABSENT) if value is not None else ABSENT


def _draw_axis(axes: Axes, place: int, scale: Scale, *, last: bool, room: float) -> None:
    axes.plot([place, place], [0, 1], color=SOFT, lw=1.2, zorder=3)
    for height, words in scale.ticks:
        axes.plot([place], [height], marker="_", color=SOFT, ms=7, zorder=3)
        box = {"boxstyle": "square,pad=0.12", "fc": PAPER, "ec": "none", "alpha": 0.75}
        look: dict[str, Any] = {"ha": "right" if last else "left", "va": "center", "zorder": 4, "bbox": box}
        note(axes, words_for(words), (place, height), (-7 if last else 7, 0), size=10, colour=INK, **look)
    lines = _wrapped(scale.title, max(10, int(room / 9)))
    side = "left" if place == 0 else "right" if last else "center"
    note(axes, "\n".join(map(words_for, lines)), (place, 1), (0, 10), ha=side, colour=INK, bold=True)


def _wrapped(text: str, most: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > most:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _fifth(value: float, values: Sequence[float], objective: Objective) -> int:
    """0 for the best fifth of the range, 4 for the worst."""
    low, high = min(values), max(values)
    share = (value - low) / (high - low) if high > low else 0.5
    number = min(len(RAMP) - 1, int(len(RAMP) * share))
    return len(RAMP) - 1 - number if objective.way == "max" else number


def _key(canvas: Canvas, objective: Objective, values: Sequence[float]) -> None:
    """The colours with the range of values that each stands for."""
    low, high = min(values), max(values)
    axes = canvas.axes(LEFT, 8, WIDTH - LEFT, 28, grid=None)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.axis("off")
    ends = [low + share * (high - low) / len(RAMP) for share in range(len(RAMP) + 1)]
    ordered = RAMP if objective.way == "min" else RAMP[::-1]
    axes.text(0, 0.5, words_for(f"{aim_words(objective)}:"), fontsize=11, color=INK, va="center", weight="bold")
    for number, colour in enumerate(ordered):
        start = 0.3 + 0.14 * number
        axes.plot([start, start + 0.025], [0.5, 0.5], color=colour, lw=5, solid_capstyle="butt")
        words = f"{_bare(objective, ends[number])} to {value_words(objective, ends[number + 1])}"
        axes.text(start + 0.03, 0.5, words_for(words), fontsize=10, color=SOFT, va="center")


def _bare(objective: Objective, value: float) -> str:
    return value_words(objective, value).replace("\u00a0%", "")
