"""The table of `search_quality` from a store in which benchmarks/recorded_grid.yaml has run.

python -m benchmarks.record_grid --store DIR
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from benchmarks.search_quality import ACCURACY, COST, LEAK, TABLE
from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.planning.trials import trials_of
from smoothsweep.orchestrator.reading.results import trial_row
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep

SWEEP = Path(__file__).with_name("recorded_grid.yaml")
OF_THE_RECIPE = ("target", "candidates", "attack", "loot", "judge_embedder")  # stages that no other recipe shares


def recorded(store: Store) -> pd.DataFrame:
    """One row per recipe and seed. Raises InputError unless every trial has finished."""
    trials = trials_of(load_sweep(SWEEP), store)
    if missing := sum(not all(store.has(stage) for stage in trial.stages) for trial in trials):
        raise InputError(f"--store {store.location}: expected all {len(trials)} trials, got {len(trials) - missing}")
    return pd.DataFrame([_row(trial, store) for trial in trials])


def _row(trial: Trial, store: Store) -> dict[str, object]:
    found, schedule = trial_row(trial, store), trial.settings.recipe.defense.schedule
    begins = schedule.at if schedule.kind == "step" else schedule.start
    seconds = {s.name: store.manifest(s)["seconds"] for s in _with_candidates(trial) if s.name in OF_THE_RECIPE}
    return {
        "alpha": trial.settings.recipe.defense.alpha,
        "kind": schedule.kind,
        "begins": begins,
        "seed": trial.seed,
        ACCURACY: round(found[ACCURACY], 6),
        LEAK: round(found[LEAK], 6),
        COST: round(sum(seconds.values()), 2),
    }


def _with_candidates(trial: Trial) -> list[Stage]:
    return [*trial.stages, *(s.inputs["candidates"] for s in trial.stages if "candidates" in s.inputs)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", required=True)
    table = recorded(open_store(parser.parse_args().store))
    table.to_csv(TABLE, index=False)
    print(f"{TABLE}: {len(table)} rows")


if __name__ == "__main__":
    main()
