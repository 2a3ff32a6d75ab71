"""What a run would do and cost: `smoothsweep plan`, and the question that `run` asks before it spends much."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from typing import Any

from smoothsweep.core import screen
from smoothsweep.core.data.names import PUBLISHED_NAMES
from smoothsweep.core.errors import InputError
from smoothsweep.core.text import counted, printable
from smoothsweep.orchestrator.commands.requests import PlanRequest, Spending
from smoothsweep.orchestrator.planning.costs import MACHINE, stated_cost
from smoothsweep.orchestrator.planning.plan import Plan, make_plan, plan_summary, refuse_impossible
from smoothsweep.orchestrator.planning.power import membership_line, membership_of_plan, power_lines, power_of
from smoothsweep.orchestrator.planning.trial import ProposalLog
from smoothsweep.orchestrator.search.agenda import forecast_of
from smoothsweep.orchestrator.stages.graph import find_missing_weights
from smoothsweep.orchestrator.stages.stage import files_may_be_absent
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.schema import InversionSweep
from smoothsweep.tasks.registry import stage_title

UNBEGUN = "This sweep is a search: its recipes are proposed while it runs, and none is proposed yet."


def plan_text(summary: dict[str, Any]) -> str:
    """The plan as lines for a terminal. Of what `print_plan` adds to the summary of a plan, any may be left out."""
    search, looks, stated, get = summary["search"], summary["looks"], summary.get("stated_cost"), summary.get
    lines = [] if search and not summary["trials"] else known_text(summary)
    if search:
        lines += ["" if lines else UNBEGUN, *search_text(search, begun=bool(lines))]
    if looks:
        without = time_text({**looks["without"], "to_run": looks["without_stages"]})
        seeds, more = " and ".join(map(str, looks["seeds"])), looks["at_most_more_trials"]
        lines += [
            "",
            f"looks: at least the trials above ({without}); then, for recipes that are still undecided, up to {seeds} "
            f"seeds: at most {more} more trials ({time_text({**looks, 'to_run': more})})",
        ]
    lines.append("")
    if stated:
        parts = [
            f"{attacks['attacks']} x about {_rounded(attacks['gpu_hours_each'])} {stated['device']}-hours "
            f"({attacks['latents']:,} latents of {attacks['steps']} steps each)"
            for attacks in stated["attacks"]
        ]
        dollars = f", about ${_rounded(stated['dollars'])}" if "dollars" in stated else ""
        lines += [
            f"attacks: {' + '.join(parts)}: about {_rounded(stated['gpu_hours'])} GPU-hours, "
            f"{_rounded(stated['days'])} days on four{dollars}",
            f"  stated, not measured here: {stated['rate']} ({stated['source']}); "
            "training and judging come on top, and nobody states a rate for them",
            "",
        ]
    lines += expectation(summary)
    if get("stated") and (summary["rated_device_hours"] or summary["stages_of_unknown_cost"]):
        lines.append(f"the sweep file says: {summary['stated']}")
    for key, place in get("absent", {}).items():
        lines.append(f"{key}: nothing at {place} yet; planned as if no stage had seen it")
    for card in get("cards", []):
        what, images = next(key for key in card if key not in ("data", "images", "training_images")), card["images"]
        number = f"images: {images['source']}"
        if images["count"]:
            number = f"{images['count']:,} images ({images['source']})"
        classes = f"{card[what]['count']:,} {what} ({card[what]['source']})"
        lines.append(f"counts of {card['data']} are from its card: {classes}; {number}")
    for one in get("unmeasured", []):
        columns = ", ".join(one["columns"])
        lines.append(f"not measured by judge {one['judge']} ({one['reason']}: {one['remedy']}): {columns}")
    lines += [f"run will stop: {stop['message']}" for stop in get("stops", [])]
    lines += ["", *power_lines(summary["power"])] if get("power") else []
    lines += ["", membership_line(summary["membership"])] if get("membership") else []
    return "\n".join(map(printable, lines))


def known_text(summary: dict[str, Any]) -> list[str]:
    """The trials that are known: how many, what they consist of, and what the store has of it."""
    by_stage = {stage_title(name): row for name, row in summary["by_stage"].items()}
    width = max(map(len, ("stage", *by_stage)))
    done, ahead, reused = summary["stages_cached"], summary["stages_to_run"], summary["reused"]
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
    if done:
        lines += ["", f"reused: {done} stages, which would cost {_saved(done, reused)} of device time"]
    return lines


def _rounded(value: float) -> str:
    """A rough number with the digits that a rough rate has: 59.4 as 60, 890 as 900, 1680 as 1,700."""
    step = 1 if value < 20 else 10 if value < 200 else 100
    return f"{step * round(value / step):,}"


def search_text(search: dict[str, Any], *, begun: bool) -> list[str]:
    """What a search may still propose and audit again: a few lines. begun: some recipes are known already."""
    more, again = search["at_most_more_recipes"], search["at_most_audited_again"]
    recipes = f"{'more ' if begun else ''}{'recipe' if more == 1 else 'recipes'}{', not proposed yet' if begun else ''}"
    parts = [f"at most {more} {recipes}"] if more else []
    parts += [f"at most {counted(again, 'recipe')} audited again{', not chosen yet' if begun else ''}"] if again else []
    lines = [f"search: {'; '.join(parts)}: {time_text({**search, 'to_run': more + again})}"]
    if more and (whole := search["device_hours"]) is not None:
        audits = ", the second audit included" if again else ""
        lines.append(f"of a recipe: about {_hours(whole / more)} of device time on average{audits}")
    if (left := search["budget_device_hours_left"]) is not None:
        lines.append(f"budget: {_hours(left)} of device time left; the search ends there at the latest")
    return lines


def expectation(summary: dict[str, Any]) -> list[str]:
    """Device time and, where there is a price, dollars that are to be spent: one line each."""
    search = summary["search"]
    further = search["at_most_more_recipes"] + search["at_most_audited_again"] if search else 0
    further += summary["looks"]["at_most_more_trials"] if summary["looks"] else 0
    if summary["stages_to_run"] == 0 and not further:
        return ["expected device time: none, every stage is in the store"]
    measured = summary["measured_on"] and summary["measured_device_hours"]
    devices = f", measured on {' and '.join(summary['measured_on'])}" if measured else ""
    most = "at most " if further and summary["device_hours"] is not None else ""
    lines = [f"expected device time: {most}{time_text(summary, name_machine=True)}{devices}"]
    if (price := summary["price_per_device_hour"]) is not None:
        known = summary["known_dollars"]
        said = f"${known:,.2f}" if known or not summary["stages_of_unknown_cost"] else ""
        dollars = _with_range(said, summary, summary["dollars_range"], lambda amount: f"${amount:,.2f}")
        lines.append(f"expected price: {most}{dollars} at ${price:,.2f} per device-hour")
    return lines


def time_text(cost: dict[str, Any], *, name_machine: bool = False) -> str:
    """Device time of what is to run: '3.0 h (between 2.5 h and 3.5 h)', what it took elsewhere, how much is unknown.

    name_machine: say which other machine that was.
    """
    measured, rated = cost["measured_device_hours"], cost["rated_device_hours"]
    parts = [_hours(measured)] if measured or not (rated or cost["stages_of_unknown_cost"]) else []
    if rated:
        machine = f" ({MACHINE})" if name_machine else ""
        parts.append(f"about {_hours(rated, 'CPU ')}, from another machine{machine}")
    return _with_range(" + ".join(parts), cost, None if rated else cost["device_hours_range"], _hours)


def _with_range(said: str, cost: dict[str, Any], between: list[float] | None, write: Callable[[float], str]) -> str:
    if cost.get("to_run") == 0:
        return "-"
    if unknown := cost["stages_of_unknown_cost"]:
        return " + ".join(filter(None, (said, f"unknown ({counted(unknown, 'stage')} never measured)")))
    if between is None:
        return said
    low, high = between
    if low == high:
        return f"{said} (no range: measured once, or always alike)"
    return f"{said} (between {write(low)} and {write(high)})"


def _saved(stages: int, cost: dict[str, Any]) -> str:
    if stages == 0:
        return "-"
    known = cost["measured_device_hours"] + cost["rated_device_hours"]
    if not cost["stages_of_unknown_cost"]:
        return _hours(known)
    return f"{_hours(known)} + unknown" if known else "unknown"


def _hours(hours: float, of: str = "") -> str:
    if hours < 1 / 60:
        return f"{max(hours * 3600, 0.1):.1f} {of}s"  # what runs never takes 0.0 s
    return f"{hours:,.1f} {of}h" if hours >= 1 else f"{hours * 60:.1f} {of}min"


def print_plan(request: PlanRequest) -> int:
    """Print the plan. Returns the exit code; raises InputError for what no run would start."""
    store, loaded = open_store(request.store), load_sweep(request.sweep, request.overrides)
    with files_may_be_absent() as absent:
        proposed = ProposalLog(loaded, store)
        plan = make_plan(proposed.trials(), store, forecast_of(proposed))
        refuse_impossible(plan)
        summary = {
            **plan_summary(plan, request.price),
            "absent": absent,
            "stated": None if request.overrides else loaded.hardware,  # what the file says is of the file as it is
            "cards": _cards(plan) if "data.path" in absent else [],
            "stated_cost": stated_cost(plan, request.price),
            **find_missing_weights(loaded, [trial.cell for trial in plan.trials]),
            "power": power_of(loaded, plan, store, request.tell),
        }
        if (limits := membership_of_plan(plan.stages)) is not None:
            summary["membership"] = limits
    screen.out_text(json.dumps(summary, indent=1) if request.json else plan_text(summary))
    return 0


def _cards(plan: Plan) -> list[dict[str, Any]]:
    """What is published of the data that are not there."""
    settings = (trial.settings for trial in plan.trials)
    kinds = dict.fromkeys(sweep.data.kind for sweep in settings if isinstance(sweep, InversionSweep))
    return [
        {
            "data": kind,
            **{
                name: dict(zip(("count", "source"), of, strict=True))
                for name, of in ((row.what, row.classes), ("images", row.images))
            },
            "training_images": row.training and row.training[0],
        }
        for kind in kinds
        if (row := PUBLISHED_NAMES.get(kind))
    ]


ASK_ABOVE_DOLLARS = 100.0


def confirm(plan: Plan, limits: Spending, budget_hours: float | None = None) -> None:
    """Say what the run is expected to cost and, above a threshold, ask. Raises InputError where it must not start.

    A plan of partly unknown cost asks as soon as its known part is too much. Where this store has measured none of it,
    it asks for what is unknown by the shipped rates too, unless a budget bounds it.
    budget_hours: device-hours that are left of the sweep's budget, None without one.
    """
    summary = plan_summary(plan, limits.price)
    for line in expectation(summary):
        screen.err(line)
    reason = _why_to_ask(summary, limits, math.inf if budget_hours is None else budget_hours)
    if reason is None or limits.yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InputError(f"{reason}: expected --yes where there is no terminal to ask on; nothing was started")
    screen.err(f"{reason}. Go ahead? [y/N] ", end="")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InputError("not confirmed; nothing was started")


def _why_to_ask(summary: dict[str, Any], limits: Spending, budget_hours: float) -> str | None:
    """Which threshold the plan exceeds, or that its cost is unknown, in words; None where there is nothing to ask."""
    measured, unknown = summary["measured_device_hours"], summary["stages_of_unknown_cost"]
    price, most = limits.price or 0.0, limits.confirm_above_dollars
    most = ASK_ABOVE_DOLLARS if most is None else most
    hours = max(measured, min(measured + summary["rated_device_hours"], budget_hours))
    about = "at least " if unknown else "about " if hours > measured else ""
    if hours > limits.confirm_above:
        return f"{about}{hours:,.4g} device-hours exceed --confirm-above {limits.confirm_above:g}"
    if hours * price > most:
        return f"{about}${hours * price:,.2f} exceed --confirm-above-dollars {most:g}"
    bounded = budget_hours <= limits.confirm_above and price * budget_hours <= most
    return None if measured or bounded or not unknown else f"the cost of {counted(unknown, 'stage')} is unknown"
