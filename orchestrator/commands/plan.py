"""What a run would do and cost: `smoothsweep plan`, and the question that `run` asks before it spends much."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.text import counted, printable
from smoothsweep.orchestrator.commands.requests import PlanRequest
from smoothsweep.orchestrator.planning.costs import before_data
from smoothsweep.orchestrator.planning.plan import Plan, make_plan, plan_summary, refuse_impossible
from smoothsweep.orchestrator.planning.power import (
    asked_difference,
    membership_lines,
    membership_of_plan,
    power_lines,
    power_of_plan,
)
from smoothsweep.orchestrator.planning.trial import ProposalLog
from smoothsweep.orchestrator.search.agenda import forecast_of
from smoothsweep.orchestrator.stages.judges import find_missing_weights
from smoothsweep.orchestrator.stages.stage import files_may_be_absent
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.tasks.stage_names import stage_title

COUNTS = {4: "four"}


def plan_text(summary: dict[str, Any]) -> str:
    """The plan as lines for a terminal."""
    if summary["search"] is not None and not summary["trials"]:
        lines = [
            "This sweep is a search: its recipes are proposed while it runs, and none is proposed yet.",
            *search_text(summary),
        ]
    else:
        lines = known_text(summary)
        lines += ["", *search_text(summary)] if summary["search"] is not None else []
    absent = [
        f"{key}: nothing at {place} yet; planned as if no stage had seen it"
        for key, place in summary.get("absent", {}).items()
    ]
    if summary["looks"] is not None:
        lines += ["", *looks_text(summary["looks"])]
    absent += [_card_text(card) for card in summary.get("cards", [])]
    stated = summary.get("stated")
    says = [f"the sweep file says: {stated}"] if stated and summary["device_hours"] is None else []
    power_text = ["", *power_lines(summary["power"])] if summary.get("power") else []
    power_text += membership_lines(summary.get("membership"))
    by_rate = stated_text(summary.get("stated_cost"))
    lines += ["", *by_rate, *expectation(summary), *says, *absent, *weights_text(summary), *power_text]
    return "\n".join(map(printable, lines))


def known_text(summary: dict[str, Any]) -> list[str]:
    """The trials that are known: how many, what they consist of, and what the store has of it."""
    by_stage = {stage_title(name): row for name, row in summary["by_stage"].items()}
    width = max(map(len, ("stage", *by_stage)))
    done, ahead = summary["stages_cached"], summary["stages_to_run"]
    others = summary["stages"] - done - ahead  # whatever is made of them is in the store
    lines = [
        f"{counted(summary['trials'], 'trial')} ({summary['trials_complete']} complete), "
        f"{counted(summary['stages'], 'stage')}: {done} in the store, {ahead} to run"
        + (f", {others} neither there nor needed" if others else ""),
        "",
        f"  {'stage':<{width}} {'total':>6} {'cached':>7} {'to run':>7}   {'reused':<19} device time to run",
    ]
    for name, row in by_stage.items():
        counts = f"{name:<{width}} {row['total']:>6} {row['cached']:>7} {row['to_run']:>7}"
        lines.append(f"  {counts}   {_saved(row['cached'], row['reused']):<19} {time_text(row)}")
    reused = summary["reused"]
    if reused["stages"]:
        saved = _saved(reused["stages"], reused)
        lines += ["", f"reused: {reused['stages']} stages, which would cost {saved} of device time"]
    return lines


def stated_text(cost: dict[str, Any] | None) -> list[str]:
    """GPU-hours by a rate that others state, and dollars where there is a price."""
    if cost is None:
        return []
    parts = [
        f"{attacks['attacks']} x about {_rounded(attacks['gpu_hours_each'])} {cost['device']}-hours "
        f"({attacks['latents']:,} latents of {attacks['steps']} steps each)"
        for attacks in cost["attacks"]
    ]
    days = f"{_rounded(cost['days'])} days on {COUNTS.get(cost['days_on'], cost['days_on'])}"
    dollars = f", about ${_rounded(cost['dollars'])}" if "dollars" in cost else ""
    return [
        f"attacks: {' + '.join(parts)}: about {_rounded(cost['gpu_hours'])} GPU-hours, {days}{dollars}",
        f"  stated, not measured here: {cost['rate']} ({cost['source']}); "
        "training and judging come on top, and nobody states a rate for them",
        "",
    ]


def _rounded(value: float) -> str:
    """A rough number with the digits that a rough rate has: 59.4 as 60, 890 as 900, 1680 as 1,700."""
    step = 1 if value < 20 else 10 if value < 200 else 100
    return f"{step * round(value / step):,}"


def _card_text(card: dict[str, Any]) -> str:
    what = next(key for key in card if key not in ("data", "images", "training_images"))
    images = card["images"]
    number = f"{images['count']:,} images ({images['source']})" if images["count"] else f"images: {images['source']}"
    classes = f"{card[what]['count']:,} {what} ({card[what]['source']})"
    return f"counts of {card['data']} are from its card: {classes}; {number}"


def weights_text(summary: dict[str, Any]) -> list[str]:
    """What is not measured and what `run` stops for, for want of weights: a line each."""
    unheard = [
        f"not measured by judge {judge['judge']} ({judge['reason']}: {judge['remedy']}): {', '.join(judge['columns'])}"
        for judge in summary.get("unmeasured", [])
    ]
    return [*unheard, *(f"run will stop: {stop['message']}" for stop in summary.get("stops", []))]


def search_text(summary: dict[str, Any]) -> list[str]:
    """What a search may still propose and audit again: a few lines."""
    search = summary["search"]
    more, again = search["at_most_more_recipes"], search["at_most_audited_again"]
    begun = summary["trials"] > 0  # else the line before says that nothing is proposed yet
    unproposed, unchosen = (", not proposed yet", ", not chosen yet") if begun else ("", "")
    recipes = f"{' more' if begun else ''} {'recipe' if more == 1 else 'recipes'}"
    parts = [f"at most {more}{recipes}{unproposed}"] if more else []
    parts += [f"at most {counted(again, 'recipe')} audited again{unchosen}"] if again else []
    lines = [f"search: {'; '.join(parts)}: {time_text({**search, 'to_run': more + again})}"]
    if more and (whole := search["device_hours"]) is not None:
        audits = ", the second audit included" if again else ""
        lines.append(f"of a recipe: about {_hours(whole / more)} of device time on average{audits}")
    if (left := search["budget_device_hours_left"]) is not None:
        lines.append(f"budget: {_hours(left)} of device time left; the search ends there at the latest")
    return lines


def looks_text(looks: dict[str, Any]) -> list[str]:
    """What looks may add to the trials above, which are needed whatever they say."""
    most = time_text({**looks, "to_run": looks["at_most_more_trials"]})
    without_looks = time_text({**looks["without"], "to_run": looks["without_stages"]})
    return [
        f"looks: at least the trials above ({without_looks}); then, for recipes that are still undecided, up to "
        f"{' and '.join(map(str, looks['seeds']))} seeds: at most {looks['at_most_more_trials']} more trials ({most})"
    ]


def expectation(summary: dict[str, Any]) -> list[str]:
    """Device time and, where there is a price, dollars that are to be spent: one line each."""
    search = summary["search"]
    further = search["at_most_more_recipes"] + search["at_most_audited_again"] if search else 0
    further += summary["looks"]["at_most_more_trials"] if summary["looks"] else 0
    if summary["stages_to_run"] == 0 and not further:
        return ["expected device time: none, every stage is in the store"]
    any_known = summary["device_hours"] is not None or summary["known_device_hours"]
    measured = f", measured on {' and '.join(summary['measured_on'])}" if summary["measured_on"] and any_known else ""
    has_forecast = summary["device_hours"] is not None or summary["about"]
    most = "at most " if further and has_forecast else ""
    whole = {**summary, "to_run": summary["stages_to_run"] + further}
    lines = [f"expected device time: {most}{time_text(whole, name_machine=True)}{measured}"]
    if (price := summary["price_per_device_hour"]) is not None:
        lines.append(f"expected price: {most}{dollars_text(whole)} at ${price:,.2f} per device-hour")
    return lines


def time_text(cost: dict[str, Any], *, name_machine: bool = False) -> str:
    """Device time of what is to run, with its range: '3.0 h (between 2.5 h and 3.5 h)', what it took elsewhere, or why
    it is unknown. name_machine: say which other machine that was."""
    if by_rates := cost.get("about") or cost.get("partly"):
        known = cost["known_device_hours"]
        measured = f"{_hours(known)} + " if known else ""
        without = by_rates.get("without", 0)
        unknown = f", + unknown ({_unmeasured(without)} on either)" if without else ""
        machine = f" ({by_rates['machine']})" if name_machine else ""
        return f"{measured}about {_hours(by_rates['hours'] - known, 'CPU ')}, from another machine{machine}{unknown}"
    return _with_range(cost, cost["device_hours"], cost["device_hours_range"], cost["known_device_hours"], _hours)


def dollars_text(cost: dict[str, Any]) -> str:
    """Dollars of what is to run, with their range, or why they are unknown."""
    return _with_range(cost, cost["dollars"], cost["dollars_range"], cost["known_dollars"], _dollars)


def _with_range(
    cost: dict[str, Any],
    mean: float | None,
    between: list[float] | None,
    known: float,
    write: Callable[[float], str],
) -> str:
    if cost.get("to_run", cost.get("stages_to_run")) == 0:
        return "-"
    if mean is None or between is None:
        known_part = f"{write(known)} + " if known else ""
        return f"{known_part}unknown ({_unmeasured(cost['stages_of_unknown_cost'])} in this store)"
    low, high = between
    if low == high:
        return f"{write(mean)} (no range: measured once, or always alike)"
    return f"{write(mean)} (between {write(low)} and {write(high)})"


def _unmeasured(stages: int) -> str:
    return f"{stages} {'stage' if stages == 1 else 'stages'} never measured"


def _saved(stages: int, cost: dict[str, Any]) -> str:
    if stages == 0:
        return "-"
    if cost["device_hours"] is not None:
        return _hours(cost["device_hours"])
    return f"{_hours(cost['known_device_hours'])} + unknown" if cost["known_device_hours"] else "unknown"


def _hours(hours: float, of: str = "") -> str:
    if hours < 1 / 60:
        return f"{max(hours * 3600, 0.1):.1f} {of}s"  # what runs never takes 0.0 s
    return f"{hours:,.1f} {of}h" if hours >= 1 else f"{hours * 60:.1f} {of}min"


def _dollars(amount: float) -> str:
    return f"${amount:,.2f}"


def print_plan(request: PlanRequest) -> int:
    """Print the plan. Returns the exit code; raises InputError for what no run would start."""
    dollars = None if request.price is None else amount("--price", request.price)
    difference = None if request.tell is None else asked_difference(request.tell)
    store, loaded = open_store(request.store), load_sweep(request.sweep, request.overrides)
    with files_may_be_absent() as absent:
        proposed = ProposalLog(loaded, store)
        trials = proposed.trials()
        planned = make_plan(trials, store, forecast_of(proposed))
        refuse_impossible(planned)
        stated = None if request.overrides else loaded.hardware  # what the file says is of the file as it is
        summary = {**plan_summary(planned, dollars), "absent": absent, "stated": stated}
        summary |= before_data(planned, absent, dollars)
        summary |= find_missing_weights(loaded, [trial.cell for trial in trials])
        summary |= power_of_plan(loaded, planned, store, difference)
        summary |= membership_of_plan(planned.stages)
    screen.out_text(json.dumps(summary, indent=1) if request.json else plan_text(summary))
    return 0


ASK_ABOVE_HOURS = 24.0
ASK_ABOVE_DOLLARS = 100.0


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """When to ask.

    Attributes:
        price: Dollars per device-hour, None for no dollars.
        yes: The answer is known beforehand.
    """

    price: float | None = None
    above_hours: float = ASK_ABOVE_HOURS
    above_dollars: float = ASK_ABOVE_DOLLARS
    yes: bool = False


def amount(option: str, text: str) -> float:
    """A finite number of at least 0, as the user wrote it. Raises InputError naming the option."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise InputError(f"{option}: expected a finite number of at least 0, got {text!r}")
    return value


def confirm(plan: Plan, limits: Confirmation, budget_hours: float | None = None) -> None:
    """Say what the run is expected to cost and, above a threshold, ask. Raises InputError where it must not start.

    A plan of partly unknown cost asks as soon as its known part is too much; what another machine would take counts
    where this store knows nothing. Where neither tells the cost, it asks unless a budget bounds it.
    budget_hours: device-hours that are left of the sweep's budget, None without one.
    """
    summary = plan_summary(plan, limits.price)
    for line in expectation(summary):
        screen.err(line)
    reasons = (
        _too_much(summary, limits),
        *(f(summary, limits, budget_hours) for f in (_borrowed_rates_too_much, _unknown)),
    )
    reason = next(filter(None, reasons), None)
    if reason is None or limits.yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InputError(f"{reason}: expected --yes where there is no terminal to ask on; nothing was started")
    screen.err(f"{reason}. Go ahead? [y/N] ", end="")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InputError("not confirmed; nothing was started")


def _too_much(summary: dict[str, Any], limits: Confirmation) -> str | None:
    """Which threshold the plan exceeds, in words, or None."""
    least = "at least " if summary["stages_of_unknown_cost"] else ""
    hours = summary["known_device_hours"]
    if hours > limits.above_hours:
        return f"{least}{hours:,.4g} device-hours exceed --confirm-above {limits.above_hours:g}"
    if limits.price is not None and summary["known_dollars"] > limits.above_dollars:
        return f"{least}${summary['known_dollars']:,.2f} exceed --confirm-above-dollars {limits.above_dollars:g}"
    return None


def _borrowed_rates_too_much(summary: dict[str, Any], limits: Confirmation, budget_hours: float | None) -> str | None:
    """As `_too_much`, for an estimate by the rates of another machine, which a budget bounds."""
    if summary["about"] is None:
        return None
    hours = min(summary["about"]["hours"], math.inf if budget_hours is None else budget_hours)
    if hours > limits.above_hours:
        expected = f"about {hours:,.4g} device-hours, by another machine's rates,"
        return f"{expected} exceed --confirm-above {limits.above_hours:g}"
    if limits.price is not None and (dollars := hours * limits.price) > limits.above_dollars:
        expected = f"about ${dollars:,.2f}, by another machine's rates,"
        return f"{expected} exceed --confirm-above-dollars {limits.above_dollars:g}"
    return None


def _unknown(summary: dict[str, Any], limits: Confirmation, budget_hours: float | None) -> str | None:
    """The words that the cost is wholly unknown; None where something is known of it, or a budget keeps it small."""
    known = summary["known_device_hours"] or summary["about"] or not summary["stages_of_unknown_cost"]
    bounded = budget_hours is not None and budget_hours <= limits.above_hours
    if limits.price is not None and budget_hours is not None:
        bounded = bounded and budget_hours * limits.price <= limits.above_dollars
    if known or bounded:
        return None
    if partly := summary["partly"]:
        return f"the cost of {counted(partly['without'], 'stage')} is unknown"
    return "the cost is unknown: no such stage was measured in this store"
