"""The trials as Ray Tune sees them: thin drivers that hold a slot, no CPU, and ask the keeper for stages."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import ray
from ray import tune

from orchestrator.cluster import SLOT
from orchestrator.keeper import one_line
from orchestrator.stage import Stage
from orchestrator.trial import Trial, run_trial

DRIVER_RETRIES = 3  # of a trial's own process; the stages it asked for go on meanwhile


def drive_trial(config: dict[str, Any], trials: dict[str, Trial], keeper: Any) -> dict[str, int]:
    """One trial. Its numbers lie in the store; how it ended is told to the keeper, whom the sweep's driver asks."""
    trial, failure = trials[config["trial"]], None

    def ensure(stage: Stage) -> None:
        ray.get(keeper.ensure.remote(stage))

    try:
        run_trial(trial, ensure)
    except Exception as error:  # every cause becomes the trial's own, so that the others go on
        failure = one_line(error)
    ray.get(keeper.trial_ended.remote(trial.id, failure))
    return {"failed": int(failure is not None)}


def tune_trials(trials: dict[str, Trial], keeper: Any, folder: Path, slots: int) -> None:
    """Propose every trial through Tune and wait until all have ended."""
    logging.getLogger("ray.tune").setLevel(logging.ERROR)
    shutil.rmtree(folder, ignore_errors=True)  # Tune's own notes of an earlier run: the store replaces them
    trainable = tune.with_resources(
        tune.with_parameters(drive_trial, trials=trials, keeper=keeper), tune.PlacementGroupFactory([{SLOT: 1}])
    )
    tuner = tune.Tuner(
        trainable,
        param_space={"trial": tune.grid_search(list(trials))},
        tune_config=tune.TuneConfig(max_concurrent_trials=slots),
        run_config=tune.RunConfig(
            name=folder.name,
            storage_path=str(folder.parent),
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=DRIVER_RETRIES),
        ),
    )
    tuner.fit()
    shutil.rmtree(folder, ignore_errors=True)
