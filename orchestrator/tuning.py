"""The trials as Ray Tune sees them: thin drivers that hold a slot, no CPU, and ask the keeper for stages."""

from __future__ import annotations

import queue
import shutil
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune import Callback

from orchestrator.cluster import SLOT
from orchestrator.keeper import one_line
from orchestrator.stage import Stage
from orchestrator.trial import Trial, run_trial

DRIVER_RETRIES = 3  # of a trial's own process; the stages it asked for go on meanwhile


def drive_trial(config: dict[str, Any], trials: dict[str, Trial], keeper: Any) -> dict[str, str | None]:
    """One trial. Its numbers lie in the store; Tune learns only whether there was a failure, and which."""
    trial = trials[config["trial"]]

    def ensure(stage: Stage) -> None:
        ray.get(keeper.ensure.remote(stage))

    try:
        run_trial(trial, ensure)
    except Exception as error:  # every cause becomes the trial's own, so that the others go on
        return {"failure": one_line(error)}
    return {"failure": None}


def tune_trials(
    trials: dict[str, Trial],
    keeper: Any,
    outcomes: queue.Queue[tuple[str, str | None]],
    folder: Path,
    slots: int,
) -> None:
    """Run the trials through Tune; (trial id, failure or None) is put into `outcomes` as each one ends."""
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
            callbacks=[_Outcomes(outcomes)],
        ),
    )
    tuner.fit()
    shutil.rmtree(folder, ignore_errors=True)


class _Outcomes(Callback):
    """Tells the driver of every trial that ended."""

    def __init__(self, outcomes: queue.Queue[tuple[str, str | None]]) -> None:
        self._outcomes = outcomes

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        self._outcomes.put((trial.config["trial"], (trial.last_result or {}).get("failure")))

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        self._outcomes.put((trial.config["trial"], f"its driver was killed {DRIVER_RETRIES + 1} times"))
