"""`smoothsweep plan`: what would run and what it costs, on the screen; starts nothing, needs no data to be there."""

from __future__ import annotations

import gc
import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from smoothsweep.core import screen
from smoothsweep.orchestrator.commands.confirm import amount
from smoothsweep.orchestrator.commands.reporting.plan_text import plan_text
from smoothsweep.orchestrator.planning.before_data import before_data
from smoothsweep.orchestrator.planning.plan import history_of, make_plan, plan_summary, refuse_impossible
from smoothsweep.orchestrator.planning.power.membership import membership_of_plan
from smoothsweep.orchestrator.planning.power.summary import asked_difference, power_of_plan
from smoothsweep.orchestrator.planning.trials import trials_of
from smoothsweep.orchestrator.search.forecast import ahead_of
from smoothsweep.orchestrator.stages.fingerprints import files_may_be_absent
from smoothsweep.orchestrator.stages.weights import weights_summary
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep


def tell_plan(
    sweep_file: Path, overrides: list[str], location: str, price: str | None, tell: str | None, *, as_json: bool
) -> int:
    """Print the plan. Returns the exit code; raises InputError for what no run would start.

    price: dollars per device-hour, as written; tell: percentage points that the sweep should detect, as written.
    """
    dollars = None if price is None else amount("--price", price)
    difference = None if tell is None else asked_difference(tell)
    store, loaded = open_store(location), load_sweep(sweep_file, overrides)
    with without_collection(), files_may_be_absent() as absent:
        trials = trials_of(loaded, store)
        planned = make_plan(trials, store, ahead_of(loaded, store))
        refuse_impossible(planned)
        stated = None if overrides else loaded.hardware  # what the file says is of the file as it is
        history = history_of(planned, store)
        summary = {**plan_summary(planned, store, dollars, history=history), "absent": absent, "stated": stated}
        summary |= before_data(planned, history, absent, dollars)
        summary |= weights_summary(loaded, trials) | power_of_plan(loaded, planned, store, history, difference)
        summary |= membership_of_plan(planned.stages)
    screen.out_text(json.dumps(summary, indent=1) if as_json else plan_text(summary))
    return 0


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
