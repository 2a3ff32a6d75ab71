"""`smoothsweep plan`: what would run and what it costs, on the screen; starts nothing, needs no data to be there."""

from __future__ import annotations

import json
from pathlib import Path

from smoothsweep.core import screen
from smoothsweep.orchestrator.commands.confirm import amount
from smoothsweep.orchestrator.commands.reporting.plan_text import plan_text
from smoothsweep.orchestrator.planning.before_data import before_data
from smoothsweep.orchestrator.planning.plan import history_of, make_plan, plan_summary, refuse_impossible
from smoothsweep.orchestrator.planning.power import asked_difference, membership_of_plan, power_of_plan
from smoothsweep.orchestrator.planning.proposals import ProposalLog
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
    *,
    as_json: bool,
) -> int:
    """Print the plan. Returns the exit code; raises InputError for what no run would start.

    Args:
        price: Dollars per device-hour, as written.
        tell: Percentage points that the sweep should detect, as written.
    """
    dollars = None if price is None else amount("--price", price)
    difference = None if tell is None else asked_difference(tell)
    store, loaded = open_store(location), load_sweep(sweep_file, overrides)
    with files_may_be_absent() as absent:
        proposed = ProposalLog(loaded, store)
        trials = proposed.trials()
        planned = make_plan(trials, store, forecast_of(proposed))
        refuse_impossible(planned)
        stated = None if overrides else loaded.hardware  # what the file says is of the file as it is
        history = history_of(planned, store)
        summary = {**plan_summary(planned, store, dollars, history=history), "absent": absent, "stated": stated}
        summary |= before_data(planned, history, absent, dollars)
        summary |= weights_summary(loaded, trials) | power_of_plan(loaded, planned, store, difference)
        summary |= membership_of_plan(planned.stages)
    screen.out_text(json.dumps(summary, indent=1) if as_json else plan_text(summary))
    return 0
