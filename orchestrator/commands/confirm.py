"""The question before the money: what a run is expected to cost, and whether a person wants that."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.text import counted
from smoothsweep.orchestrator.commands.reporting.plan_text import expectation
from smoothsweep.orchestrator.planning.plan import Plan, plan_summary
from smoothsweep.orchestrator.store.base import Store

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


def confirm(plan: Plan, store: Store, limits: Confirmation, budget_hours: float | None = None) -> None:
    """Say what the run is expected to cost and, above a threshold, ask. Raises InputError where it must not start.

    A plan of partly unknown cost asks as soon as its known part is too much; what another machine would take counts
    where this store knows nothing. Where neither tells the cost, it asks unless a budget bounds it.
    budget_hours: device-hours that are left of the sweep's budget, None without one.
    """
    summary = plan_summary(plan, store, limits.price)
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
