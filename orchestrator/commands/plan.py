"""`smoothsweep plan`: what would run and what it costs, on the screen; starts nothing, needs no data to be there."""

from __future__ import annotations

import gc
import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.text import shortened
from smoothsweep.orchestrator.commands.confirm import amount
from smoothsweep.orchestrator.commands.reporting.plan_text import plan_text
from smoothsweep.orchestrator.planning.plan import history_of, make_plan, plan_summary, refuse_impossible
from smoothsweep.orchestrator.planning.power.membership import membership_of_plan
from smoothsweep.orchestrator.planning.power.summary import asked_difference, power_of_plan
from smoothsweep.orchestrator.planning.proposals import ProposalLog
from smoothsweep.orchestrator.planning.rates.before_data import before_data
from smoothsweep.orchestrator.planning.rates.calibrated import calibrated_cost
from smoothsweep.orchestrator.planning.rates.calibration import Calibration, read_calibration
from smoothsweep.orchestrator.planning.rates.devices import DEVICES
from smoothsweep.orchestrator.search.forecast import forecast_of
from smoothsweep.orchestrator.stages.fingerprints import files_may_be_absent
from smoothsweep.orchestrator.stages.weights import weights_summary
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep


def print_plan(
    sweep_file: Path,
    overrides: list[str],
    location: str,
    price: str | None,
    tell: str | None,
    rates: str | None = None,
    *,
    as_json: bool,
) -> int:
    """Print the plan. Returns the exit code; raises InputError for what no run would start.

    Args:
        price: Dollars per device-hour, as written.
        tell: Percentage points that the sweep should detect, as written.
        rates: The name of a device with a stated rate, or a file of measured ones.
    """
    dollars = None if price is None else amount("--price", price)
    difference = None if tell is None else asked_difference(tell)
    device, calibration = _rates(rates)
    store, loaded = open_store(location), load_sweep(sweep_file, overrides)
    with without_collection(), files_may_be_absent() as absent:
        proposed = ProposalLog(loaded, store)
        trials = proposed.trials()
        planned = make_plan(trials, store, forecast_of(proposed))
        refuse_impossible(planned)
        stated = None if overrides else loaded.hardware  # what the file says is of the file as it is
        history = history_of(planned, store)
        summary = {**plan_summary(planned, store, dollars, history=history), "absent": absent, "stated": stated}
        summary |= before_data(planned, history, absent, dollars, device)
        if device is not None and summary.get("stated_cost") is None:
            summary["no_rate_of"] = device
        if calibration is not None:  # in the place of the stated rate, which is of another device
            cost = calibrated_cost(planned, history, calibration, dollars)
            summary |= {"stated_cost": None, "calibrated_cost": cost}
        summary |= weights_summary(loaded, trials) | power_of_plan(loaded, planned, store, history, difference)
        summary |= membership_of_plan(planned.stages)
    screen.out_text(json.dumps(summary, indent=1) if as_json else plan_text(summary))
    return 0


def _rates(path: str | None) -> tuple[str | None, Calibration | None]:
    """A device with a stated rate, or what a file says. Raises InputError for what is neither."""
    if path is None or path in DEVICES:
        return path, None
    if not Path(path).is_file():
        raise InputError(f"--rates: expected one of {', '.join(DEVICES)}, or a file that exists, got {shortened(path)}")
    return None, read_calibration(Path(path))


@contextmanager
def without_collection() -> Generator[None]:
    """Within it the collector of circular garbage rests: a plan makes millions of objects and next to no garbage.

    It would look through all that was made, again and again as that grows, and find nothing.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
