"""What the report shows of a search, from its record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

from smoothsweep.core.defenses.strengths import value_text
from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.text import NBSP, minus
from smoothsweep.orchestrator.result.data import (
    Importance,
    Objective,
    ProposalRow,
    SearchView,
    Status,
    same_recipe,
)
from smoothsweep.orchestrator.result.format import count, duration, is_null, listing
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.expand import axis_names
from smoothsweep.sweeps.loaded import LoadedSweep

if TYPE_CHECKING:
    from smoothsweep.orchestrator.search.record import ProposalRecord, SearchRecord


def search_view(loaded: LoadedSweep, store: Store, label: Callable[[Mapping[str, Any]], str]) -> SearchView | None:
    """What the report shows of the sweep's search; None for a sweep without one. label: axes -> a recipe's name."""
    if loaded.sweep.search is None:
        return None
    # the searches need Optuna, which a report of a grid does not
    from smoothsweep.orchestrator.search.importance import importances
    from smoothsweep.orchestrator.search.record import read_search

    record = read_search(loaded, store)
    return None if record is None else view_of(record, loaded.sweep.search, label, importances(loaded, record))


def view_of(
    record: SearchRecord,
    search: Any,
    label: Callable[[Mapping[str, Any]], str],
    shares: Sequence[Importance] = (),
) -> SearchView:
    """The record in a reader's words. search: the sweep file's `search`; shares: by the keys of its space."""
    names = dimension_names(search.space)
    return SearchView(
        strategy=record.strategy,
        asked=search.recipes,
        stopped_by=record.stopped_by,
        objectives=tuple(
            Objective(column=column, way=cast("Literal['max', 'min']", way))
            for column, way in record.objectives.items()
        ),
        proposals=tuple(_proposed(proposal, names, label) for proposal in record.proposals),
        space=tuple(dimension_words(names[key], _given(dimension), names) for key, dimension in search.space.items()),
        constraints=tuple(constraint_words(column, ends) for column, ends in record.constraints.items()),
        budget=budget_words(record.budget or {}),
        spent_device_hours=record.spent_device_hours,
        rungs=tuple(rung_words(rung.set) for rung in search.rungs),
        importances=tuple(
            replace(importance, shares=tuple((names.get(key, key), share) for key, share in importance.shares))
            for importance in shares
        ),
    )


def dimension_names(space: Mapping[str, Any]) -> dict[str, str]:
    """Dotted key of the space -> its short name."""
    return {key: name.replace("_", " ") for key, name in axis_names(list(space)).items()}


def dimension_words(name: str, dimension: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """`start: 0 to 0.8 in steps of 0.05, with kind ramp`."""
    if dimension.get("choices") is not None:
        span = ", ".join("none" if choice is None else value_text(choice) for choice in dimension["choices"])
    else:
        span = f"{value_text(dimension['low'])} to {value_text(dimension['high'])}"
        if dimension.get("step"):
            span += f" in steps of {value_text(dimension['step'])}"
        if dimension.get("log"):
            span += ", evenly in the logarithm"
    if dimension.get("above"):
        span += f", above {names.get(dimension['above'], dimension['above'])}"
    for key, values in (dimension.get("when") or {}).items():
        wanted = values if isinstance(values, list | tuple) else (values,)
        span += f", with {names.get(key, key)} {' or '.join(map(value_text, wanted))}"
    return f"{name}: {span}"


def constraint_words(column: str, ends: Mapping[str, float]) -> str:
    """`test accuracy at least 90 %`."""
    spec = BY_KEY.get(column)
    words = {"at_least": "at least", "at_most": "at most"}
    shown_ends = [f"{words[end]} {_amount(column, value)}" for end, value in ends.items() if end in words]
    return f"{spec.label if spec else column} {listing(shown_ends)}"


def budget_words(budget: Mapping[str, float | None]) -> str:
    """`3 device-hours and 60 minutes`; empty without one."""
    ways = (("device_hours", 3600, "of device time"), ("minutes", 60, "by the clock"))
    amounts = [(amount, unit, words) for key, unit, words in ways if (amount := budget.get(key)) is not None]
    return listing(f"{duration(unit * amount)} {words}" for amount, unit, words in amounts)


def rung_words(settings: Mapping[str, Any]) -> str:
    """`4 classes, candidates 2, steps 10`: in what the attack is cheaper than the full one."""
    parts = []
    for key, value in settings.items():
        if key == "classes" and isinstance(value, list | tuple):
            parts.append(count(len(value), "class", "classes"))
        else:
            parts.append(f"{key.removeprefix('attack.').replace('.', ' ').replace('_', ' ')} {value_text(value)}")
    return ", ".join(parts)


def _proposed(
    record: ProposalRecord, names: Mapping[str, str], label: Callable[[Mapping[str, Any]], str]
) -> ProposalRow:
    stated = {names.get(key, key): value for key, value in record.values.items() if not is_null(value)}
    values = {name: value_text(value) for name, value in stated.items()}
    name = label(record.axes)
    return ProposalRow(
        number=record.number,
        values=values,
        key=same_recipe(record.values),
        rung=record.rung,
        status=cast(Status, record.status),
        objectives=record.objectives,
        device_hours=record.device_hours,
        kept=record.kept,
        audited=record.audited,
        recipe=name if record.rung is None and record.seeds is None else None,
        name=name,
        feasible=record.feasible is not False,
        seeds=record.seeds,
        settings={name: _setting(value, values[name]) for name, value in stated.items()},
    )


def _setting(value: Any, words: str) -> float | str:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else words


def _amount(column: str, value: float) -> str:
    percent = column in BY_KEY and BY_KEY[column].unit == "percent"
    return f"{minus(f'{100 * value:g}')}{NBSP}%" if percent else minus(f"{value:g}")


def _given(dimension: Any) -> Mapping[str, Any]:
    """A dimension of the sweep file as a mapping."""
    return dimension if isinstance(dimension, Mapping) else dimension.model_dump()
