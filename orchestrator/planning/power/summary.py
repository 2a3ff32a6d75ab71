"""What a sweep can tell, as JSON values and as lines for a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.components import QUICKSTART
from smoothsweep.core.metrics.power import MOST_SEEDS, POWER
from smoothsweep.orchestrator.planning.history import History
from smoothsweep.orchestrator.planning.plan import Plan, devices_held
from smoothsweep.orchestrator.planning.power.advice import Advisor, Option
from smoothsweep.orchestrator.planning.power.costs import Costs, costs_of
from smoothsweep.orchestrator.planning.power.measured import Measured, measured
from smoothsweep.orchestrator.planning.power.sizes import Size, recipe_of, size_of
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.sweeps.expand import Cell, expand
from smoothsweep.sweeps.loaded import LoadedSweep
from smoothsweep.sweeps.schema import InversionSweep

TELL = 0.1
"""The difference that is asked about where the user asks about none, a fraction."""

DEFAULTS = Measured(components=QUICKSTART)
MOVES = {"seeds": "more seeds", "classes": "more classes", "reconstructions": "fewer reconstructions of more classes"}


def asked_difference(text: str) -> float:
    """A difference as the user wrote it, in percentage points; a fraction. Raises InputError naming --tell."""
    try:
        points = float(text)
    except ValueError:
        points = math.nan
    if not 0 < points <= 100:
        raise InputError(f"--tell: expected percentage points above 0 and at most 100, got {text!r}")
    return points / 100


def power_of_plan(
    loaded: LoadedSweep, plan: Plan, store: Store, history: History, tell: float | None = None
) -> dict[str, Any]:
    """What the planned sweep can tell, and what more would. tell: the difference that the user asks about, a fraction.

    Without an attack there is nothing of it to say. Raises InputError where the user asks and the sweep can tell no
    difference.
    """
    settings = loaded.sweep
    if tell is None and not (isinstance(settings, InversionSweep) and settings.attack):
        return {"power": None}
    cells = list({id(trial.cell): trial.cell for trial in plan.trials if trial.phase == "sweep"}.values())
    size = _size_of(loaded, cells or expand(loaded), _recipes_of(plan, cells), tell)
    if isinstance(size, str):
        return {"power": {"tells": None, "reason": size}}
    held = devices_held(loaded.sweep, history)
    known = measured(store, size.leak, _people(plan)) or DEFAULTS
    return {"power": power_summary(size, known, costs_of(plan, size, history, held), tell)}


def power_before_data(loaded: LoadedSweep) -> dict[str, Any]:
    """What a sweep can tell by the default components, where neither a store nor costs are known."""
    size = _size_of(loaded, expand(loaded), None, None)
    return {"tells": None, "reason": size} if isinstance(size, str) else power_summary(size, DEFAULTS, None, None)


def power_summary(size: Size, known: Measured, costs: Costs | None, tell: float | None) -> dict[str, Any]:
    """What a sweep of this size can tell, as JSON values; differences are fractions."""
    now = size.design
    advisor = Advisor(components=known.components, now=now, available=size.available, costs=costs)
    power, limit = advisor.planned, tell or TELL
    wanted = tell is not None or power.tells > limit
    reached = advisor.cheapest(limit) if wanted else None
    return {
        "tells": power.tells,
        "half_width": power.half,
        "standard_error": power.error,
        "power": POWER,
        **asdict(now),
        "classes_available": size.available,
        "leak": size.leak.key,
        "components": {**asdict(known.components), "trials": known.trials, "same_data": known.same_data},
        "to_tell": {
            "difference": limit,
            "sweep": None if reached is None else _as_json(reached, costs),
            "seeds_with_these_classes": advisor.seeds_alone(limit),
        }
        if wanted
        else None,
        "moves": [_as_json(option, costs) for option in advisor.moves()],
        "costs_from_another_machine": costs is not None and costs.guessed,
    }


def power_lines(power: dict[str, Any]) -> list[str]:
    """What a sweep can tell, for a terminal."""
    if power["tells"] is None:
        return [f"this sweep can detect no difference between recipes: {power['reason']}"]
    lines = [_detection_line(power)]
    if power["to_tell"] is not None:
        lines.append(_seeds_needed(power))
    if power["moves"]:
        best, *others = power["moves"]
        other_moves = "".join(f"; {_move(option)}" for option in others)
        lines.append(f"per device-second {MOVES[best['name']]} buy most: {_move(best)}{other_moves}")
    if power["classes"] == power["classes_available"]:
        lines.append(f"more classes: none, all {power['classes']} of the data are attacked")
    return lines


def _detection_line(power: dict[str, Any]) -> str:
    smallest = f"differences of {_points(power['tells'])} points or more" if power["tells"] < 1 else "no difference"
    return (
        f"with {power['seeds']} seeds and {power['classes']} classes this sweep can detect {smallest} "
        f"(power {100 * power['power']:.0f} %; spreads {_source(power['components'])})"
    )


def _size_of(loaded: LoadedSweep, cells: Sequence[Cell], recipes: int | None, tell: float | None) -> Size | str:
    """The size of a sweep that can tell differences, or why it cannot. Raises InputError where the user asks."""
    where = f"--tell {100 * tell:g}" if tell else "power"
    try:
        size = size_of(loaded, cells, recipes=recipes)
        return replace(size, design=size.design.checked(where))
    except InputError as error:
        reason = str(error).removeprefix(f"{where}: ")
        if tell:
            raise InputError(f"{where}: {reason}") from None
        return reason


def _recipes_of(plan: Plan, cells: Sequence[Cell]) -> int | None:
    """How many recipes a search will have compared in the end; None without one, and for looks, which add none."""
    if plan.forecast is None or not plan.forecast.steps or plan.forecast.looks:
        return None
    *_, (further, _), _ = plan.forecast.steps  # those that meet the whole attack; the last step audits again
    return further + len(set(map(recipe_of, cells)))


def _people(plan: Plan) -> str | None:
    """Fingerprint of the private images that the targets of the plan learn from."""
    forecast = (
        () if plan.forecast is None else (s for _, samples in plan.forecast.steps for sample in samples for s in sample)
    )
    stages: Sequence[Stage] = plan.stages or tuple(forecast)
    attack = next((stage for stage in stages if stage.name == "attack" and "target" in stage.inputs), None)
    return None if attack is None else attack.inputs["target"].inputs["data"].fingerprint


def _as_json(option: Option, costs: Costs | None) -> dict[str, Any]:
    design, hours = option.design, None if costs is None else costs.seconds(option.design) / 3600
    return {
        "name": option.name,
        "seeds": design.seeds,
        "classes": design.classes,
        "images": design.images,
        "tells": option.tells,
        "times": option.times,
        "device_hours": hours,
    }


def _seeds_needed(power: dict[str, Any]) -> str:
    target, design, available = power["to_tell"], power["to_tell"]["sweep"], power["classes_available"]
    start = f"for {100 * target['difference']:g} points:"
    if design is None:
        return f"{start} no number of seeds up to {MOST_SEEDS} detects them with the {available} classes of the data"
    alone = target["seeds_with_these_classes"]
    text = f"{start} {design['seeds']} seeds x {design['classes']} classes{_times(design)}"
    if design["classes"] == power["classes"]:
        return text
    seeds = f"{alone} seeds" if alone is not None else f"no number of seeds up to {MOST_SEEDS}"
    limit = f"; the data have no more than {available} classes" if design["classes"] == available else ""
    return f"{text} (with {power['classes']} classes: {seeds}{limit})"


def _move(option: dict[str, Any]) -> str:
    images = f" x {option['images']} reconstructions" if option["name"] == "reconstructions" else ""
    return (
        f"{option['seeds']} seeds x {option['classes']} classes{images} from {_points(option['tells'])} points"
        f"{_times(option)}"
    )


def _times(option: dict[str, Any]) -> str:
    return "" if option["times"] is None else f", {option['times']:.1f} times the time"


def _source(components: dict[str, Any]) -> str:
    if not components["trials"]:
        return "as in the quickstart: no finished trials to estimate them from"
    data = "" if components["same_data"] else " on other data"
    return f"from {components['trials']} trials of this store{data}"


def _points(difference: float) -> str:
    """Percentage points, rounded up: what is said to be told is told."""
    points = 100 * difference
    return f"{math.ceil(points)}" if points >= 10 else f"{math.ceil(10 * points) / 10:g}"
