"""The trials as Ray Tune sees them: thin drivers that hold a slot, no CPU, and ask the scheduler for stages."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.search import Searcher

from smoothsweep.core.errors import InputChanged
from smoothsweep.core.writers import is_gone, machine_id
from smoothsweep.orchestrator.cluster.connection import SLOT
from smoothsweep.orchestrator.planning.trial import Trial, run_trial, stages_to_start_early
from smoothsweep.orchestrator.scheduling.scheduler import one_line
from smoothsweep.orchestrator.search.agenda import Agenda
from smoothsweep.orchestrator.search.setup import Wait
from smoothsweep.orchestrator.stages.stage import Stage
from smoothsweep.sweeps.expand import CellMaker, LoadedSweep, check

DRIVER_RETRIES = 3  # of a trial's own process; the stages it asked for go on meanwhile


class TuneStop(tune.Stopper):
    """Ends Tune's run once it is pulled, from any thread. Copies are the same halt; what is unpickled is a new one."""

    def __init__(self) -> None:
        self._pulled = threading.Event()

    def set(self) -> None:
        self._pulled.set()

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self._pulled.is_set()

    def __deepcopy__(self, memo: dict[int, Any]) -> TuneStop:
        return self

    def __reduce__(self) -> tuple[type[TuneStop], tuple[()]]:
        return TuneStop, ()


def drive_trial(config: dict[str, Any], trials: dict[str, Trial], scheduler: Any) -> dict[str, Any]:
    """One trial. Its numbers lie in the store; how it ended is told to the scheduler, whom the sweep's driver asks."""
    return _drive(trials[config["trial"]], scheduler, planned_as=config["trial"])


def drive_proposals(config: dict[str, Any], raw: str, source: str, scheduler: Any) -> dict[str, Any]:
    """As `drive_trial`, of a trial that a search proposed, made here from its values. raw: the sweep file as JSON."""
    cell = _cell_maker(raw, source)(json.loads(config["values"]), json.loads(config["beside"]))
    trial = Trial(cell=cell, seed=config["seed"], phase=config["phase"])
    return _drive(trial, scheduler, planned_as=config["trial"])


def _drive(trial: Trial, scheduler: Any, *, planned_as: str) -> dict[str, Any]:
    """planned_as: the id under which the sweep's driver knows the trial."""
    failure, early = None, dict[str, Any]()

    def ensure(stage: Stage) -> None:
        for source in stage.inputs.values():
            if source.fingerprint in early:  # what failed there is not tried a second time
                ray.get(early[source.fingerprint])
        ray.get(scheduler.ensure.remote(stage))

    try:
        if trial.id != planned_as:
            raise InputChanged(
                f"expected trial {planned_as}, as planned, got {trial.id} from the files that the sweep reads: one was "
                f"changed meanwhile; put it back, or run again with what is there"
            )
        early |= {stage.fingerprint: scheduler.ensure.remote(stage) for stage in stages_to_start_early(trial.stages)}
        run_trial(trial, ensure)
    except Exception as error:  # every cause becomes the trial's own, so that the others go on
        failure = one_line(error)
    ray.get(scheduler.trial_ended.remote(planned_as, failure))
    return {"failed": int(failure is not None), "failure": failure or ""}


@lru_cache(maxsize=4)
def _cell_maker(raw: str, source: str) -> CellMaker:
    settings = json.loads(raw)
    return CellMaker(LoadedSweep(sweep=check(settings, source), raw=settings, intro="", source=source))


class AgendaSearcher(Searcher):
    """Tune's interface to a search: every suggestion is one trial of it."""

    def __init__(self, agenda: Agenda) -> None:
        super().__init__()
        self._agenda = agenda
        self._open: dict[str, Trial] = {}  # Tune's id -> trial

    def suggest(self, trial_id: str) -> Any:
        trial = self._agenda.next()
        if isinstance(trial, Wait):
            return None
        if trial is None:
            return Searcher.FINISHED
        self._open[trial_id] = trial
        return {
            "trial": trial.id,
            "values": json.dumps(trial.cell.values),
            "beside": json.dumps(trial.cell.other_settings),
            "seed": trial.seed,
            "phase": trial.phase,
        }

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        failure = (result or {}).get("failure") or None
        if failure is None and (error or result is None):
            failure = "its driver ended without a result"
        self._agenda.ended(self._open.pop(trial_id), failure)

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the proposals lie in the store."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: every run begins with what the store has."""

    def __deepcopy__(self, memo: dict[int, Any]) -> AgendaSearcher:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Searcher, ()


def tune_trials(
    trials: dict[str, Trial], scheduler: Any, folder: Path, slots: int, halt: TuneStop | None = None
) -> None:
    """Propose every trial through Tune and wait until all have ended, or `halt` is pulled."""
    trainable = tune.with_parameters(drive_trial, trials=trials, scheduler=scheduler)
    options = {"param_space": {"trial": tune.grid_search(list(trials))}}
    _fit(trainable, folder, slots, halt, options, {})


def tune_search(
    loaded: LoadedSweep, agenda: Agenda, scheduler: Any, folder: Path, slots: int, halt: TuneStop | None = None
) -> None:
    """Have Tune ask the agenda for trials until there are no more, or `halt` is pulled."""
    raw = json.dumps(loaded.raw)
    trainable = tune.with_parameters(drive_proposals, raw=raw, source=loaded.source, scheduler=scheduler)
    _fit(trainable, folder, slots, halt, {}, {"search_alg": AgendaSearcher(agenda), "num_samples": sys.maxsize})


def _fit(
    trainable: Any, folder: Path, slots: int, halt: TuneStop | None, options: dict[str, Any], search: dict[str, Any]
) -> None:
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # a lost trial process is a traceback there; it is retried
    folder = own_folder(folder)
    tuner = tune.Tuner(
        tune.with_resources(trainable, tune.PlacementGroupFactory([{SLOT: 1}])),
        tune_config=tune.TuneConfig(
            max_concurrent_trials=slots,
            reuse_actors=True,  # a process for every trial would cost more than most of its stages
            trial_dirname_creator=lambda trial: trial.trial_id,  # Tune's own name would hold the whole recipe
            **search,
        ),
        run_config=tune.RunConfig(
            name=folder.name,
            storage_path=str(folder.parent),
            stop=halt,
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=DRIVER_RETRIES),
        ),
        **options,
    )
    tuner.fit()
    shutil.rmtree(folder, ignore_errors=True)


def own_folder(folder: Path) -> Path:
    """Tune's own notes of this run: beside `folder`, named after this driver, for two may work on a sweep at once.

    Those of drivers that are gone are removed: the store replaces them.
    """
    own = folder.with_name(f"{folder.name}.{machine_id()}.{os.getpid()}")
    for other in [folder, own, *folder.parent.glob(f"{folder.name}.*.*")]:
        writer = f"{other.name.removeprefix(folder.name).removeprefix('.')}.0"
        if other in (folder, own) or is_gone(writer, other):
            shutil.rmtree(other, ignore_errors=True)
    return own
