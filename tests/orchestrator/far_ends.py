"""Where a setting of a sweep file ends: the stages it makes, what a search proposes, what Ray is asked for."""

from __future__ import annotations

import asyncio
import itertools
import json
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.cluster import connection as cluster
from smoothsweep.orchestrator.commands.reporting.report import _paper
from smoothsweep.orchestrator.planning.plan import make_plan, plan_summary
from smoothsweep.orchestrator.planning.trial import ProposalLog, Trial, trials_of
from smoothsweep.orchestrator.running.driver import ClusterSession
from smoothsweep.orchestrator.scheduling import scheduler
from smoothsweep.orchestrator.scheduling.scheduler import StageScheduler
from smoothsweep.orchestrator.search.agenda import Agenda, Meter, forecast_of
from smoothsweep.orchestrator.search.record import frontier_recipes
from smoothsweep.orchestrator.stages.stage import Stage, canonical_json, with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.expand import LoadedSweep, check, check_search
from smoothsweep.sweeps.schema import InversionSweep
from tests.orchestrator.search.made import finish, work_off

STAGES = (Stage(name="target", config={"workers": 1}), Stage(name="attack", config={"classes": 12}))


@patch("smoothsweep.core.files._flush", lambda path: None)  # small files, which need not outlive a power failure
def far_ends(raw: dict[str, Any], folder: Path) -> dict[str, Any] | str:
    """Everything that a sweep does, as values that can be compared; the refusal in one line where it is refused."""
    store = Store(root=folder / "store")
    try:
        loaded = LoadedSweep(sweep=check(raw, "sweep"), raw=raw, intro="", source="sweep")
        sweep, opened = loaded.sweep, 0
        if getattr(sweep, "search", None):
            check_search(loaded)
            opened = _opened_at_once(loaded, Store(root=folder / "first"))
            work_off(loaded, store)
        if sweep.looks is not None:
            work_off(loaded, store)
        if getattr(sweep, "reaudit", None):
            for trial in trials_of(loaded, store):
                finish(store, trial)
            ProposalLog(loaded, store).write_reaudit(frontier_recipes(loaded, trials_of(loaded, store), store))
        trials = trials_of(loaded, store)
        found = {"folder": store.sweep_folder(sweep.name).name, "trials": [_trial(trial) for trial in trials]}
        forecast = forecast_of(ProposalLog(loaded, Store(root=folder / "empty")))
        found["plan"] = plan_summary(make_plan(trials, store, forecast))
        found["opened"] = opened
        found["ray"] = _asked_of_ray(sweep, store)
        found["models"], found["needed"] = sweep.tracking.models, sweep.accuracy_needed
        found["margin"] = sweep.accuracy_margin
        if isinstance(sweep, InversionSweep):
            found["paper"], found["ends"] = repr(_paper(loaded, trials)), _when_a_budget_ends(sweep, store)
    except InputError as error:
        return f"refused: {error}"
    return json.loads(json.dumps(found))


def _opened_at_once(loaded: LoadedSweep, store: Store) -> int:
    """How many trials a search opens before one must end."""
    agenda = Agenda(ProposalLog(loaded, store))
    agenda.begin()
    return sum(1 for _ in iter(lambda: isinstance(agenda.next(), Trial), False))


def _trial(trial: Trial) -> list[Any]:
    stages = [[stage.label, stage.fingerprint, canonical_json(stage.hints)] for stage in with_ancestors(trial.stages)]
    return [trial.label, trial.id, trial.cell.is_baseline, trial.phase, stages]


def _when_a_budget_ends(sweep: InversionSweep, store: Store) -> list[str | None]:
    """What is said after more and more device time and wall time; the part of the audit kept back."""
    kept, said = sweep.reaudit.share if sweep.reaudit else 0.0, []
    for device_s, wall_s in itertools.product((0, 900, 5000), repeat=2):
        meter = Meter(store, sweep.name, sweep.budget)
        event = {"what": "work", "stage": "target", "device_seconds": device_s}
        meter.update({"events": [event], "running": []})
        meter._started -= wall_s
        said.append(meter.exceeded(kept))
    return said


def _asked_of_ray(sweep: Any, store: Store) -> dict[str, Any]:
    """What Ray is asked for a training, for the groups of an attack's classes, and for a cluster started here."""
    return {"slots": _slots(sweep, store), "tasks": [asyncio.run(_launched(sweep, store, stage)) for stage in STAGES]}


class _Remote:
    """In the place of a Ray task: its options and arguments are what it gives."""

    def options(self, **share: Any) -> _Remote:
        self.share = share
        return self

    def remote(self, store: Store, stage: Stage, *arguments: Any) -> list[Any]:
        return [self.share, *arguments[:-1]]


async def _launched(sweep: Any, store: Store, stage: Stage) -> list[Any]:
    """Options, arguments, devices and limit of every task that a scheduler launches for a stage."""
    plain = StageScheduler.__ray_metadata__.modified_class  # the class under the actor
    made, seen = plain(store, sweep.resources.model_dump(), 8, 2.0), []

    async def attempt(task: Any, remote: Any, *arguments: Any) -> int:
        launched = remote.options(**made._share(task.stage)).remote(*arguments, None)
        seen.append([launched, task.devices, repr(task.limit)])
        return 1

    made._attempt = attempt
    with (
        patch.object(scheduler, "execute_remotely", _Remote()),
        patch.object(scheduler, "execute_shard_remotely", _Remote()),
    ):
        await made.ensure(stage)
    made.watching.cancel()
    return seen


def _slots(sweep: Any, store: Store) -> int | None:
    """The number of trial slots with which a cluster is started here."""
    seen: list[int | None] = []

    def connect(address: str | None, trial_slots: int | None) -> None:
        seen.append(trial_slots)
        raise InterruptedError

    with patch.object(cluster, "connect", connect), suppress(InterruptedError):
        ClusterSession(None, sweep.resources, store).facts  # noqa: B018
    return seen[0]
