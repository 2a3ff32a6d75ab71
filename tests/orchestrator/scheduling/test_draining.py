"""Work on machines that leave: moved, as often as it takes, and never counted as a failure. Ray is a small fake."""

import asyncio
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from ray.exceptions import RayTaskError, WorkerCrashedError

from benchmarks.sleeping import Sleep
from smoothsweep.orchestrator.scheduling import scheduler as scheduler_module
from smoothsweep.orchestrator.scheduling.scheduler import (
    LEAVE_FILE,
    WORKER_RETRIES,
    DrainWatch,
    Process,
    leaving_check,
    limit_is_near,
)
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.tasks.context import MachineLeaving

RESOURCES = {
    "cpus_per_task": 1,
    "gpus_per_task": 1,
    "gpus_per_training": 1,
    "classes_per_task": 2,
    "training_timeout_minutes": None,
    "attack_timeout_minutes": None,
}
HERE, THERE = Process("aa", "spot-1"), Process("bb", "spot-2")


@pytest.fixture
def ray_says(monkeypatch):
    """The nodes that Ray calls draining; and how often it was asked."""
    said = SimpleNamespace(nodes=set(), asked=0)

    def answer():
        said.asked += 1
        return set(said.nodes)

    monkeypatch.setattr(scheduler_module, "draining_nodes", answer)
    return said


@pytest.fixture
def clock(monkeypatch):
    times = [1000.0]
    monkeypatch.setattr(scheduler_module.time, "monotonic", lambda: times[0])
    return times


def test_a_loss_on_a_drained_machine_is_explained_also_after_it_has_gone(ray_says, clock):
    departures = DrainWatch()
    ray_says.nodes = {"aa"}
    departures.look()
    ray_says.nodes = set()
    clock[0] += 100
    departures.look()
    assert departures.explain(WorkerCrashedError(), [HERE])
    assert departures.explain(MachineLeaving(), [])
    assert not departures.explain(WorkerCrashedError(), [THERE])
    assert not departures.explain(RayTaskError("f", "", ValueError("a bug")), [HERE]), "a bug is one on any machine"


class Remote:
    """Stands for a Ray task: every start ends as the next of `ends` says; after them it succeeds."""

    def __init__(self, store, ends) -> None:
        self.store, self.ends, self.started = store, list(ends), 0

    def options(self, **_):
        return self

    def remote(self, store, stage, *rest):
        return asyncio.ensure_future(self._run(stage, rest))

    async def _run(self, stage, rest):
        self.started += 1
        if self.ends:
            raise self.ends.pop(0)
        if isinstance(rest[0], list):
            return len(rest[0])
        folder = self.store.manifest_file(stage.name, stage.fingerprint).parent
        folder.mkdir(parents=True)
        return None


async def nothing():
    """What happens beside the scheduler, mostly."""


def run(tmp_path, ends, beside=nothing):
    """(Ray tasks started, events) of a scheduler that makes a stage of two classes whose shard ends so."""
    store = open_store(str(tmp_path))
    shard, whole = Remote(store, ends), Remote(store, [])

    async def main():
        scheduler = scheduler_module.StageScheduler.__ray_metadata__.modified_class(store, RESOURCES, 2, 0)
        try:
            await asyncio.gather(scheduler.ensure(Sleep(config={"classes": 2, "seconds": 0.0})), beside())
        finally:
            scheduler.watching.cancel()
        return list(scheduler.events)

    with (
        patch.object(scheduler_module, "execute_shard_remotely", shard),
        patch.object(scheduler_module, "execute_remotely", whole),
        patch.object(scheduler_module, "MOVE_PAUSE_S", 0.0),
        patch.object(scheduler_module, "WATCH_EVERY_S", 0.01),
        patch("ray.get_runtime_context"),
    ):
        events = asyncio.run(main())
    return shard.started, events


def test_a_shard_is_moved_more_often_than_a_worker_may_die(tmp_path, ray_says):
    moves = 3 * WORKER_RETRIES
    started, events = run(tmp_path, [MachineLeaving()] * moves)
    assert started == moves + 1
    lines = [event["line"] for event in events if event["what"] == "say"]
    assert len(lines) == moves and all("goes on elsewhere" in line for line in lines)
    assert [event["what"] for event in events].count("done") == 1


def test_a_worker_lost_on_a_machine_that_stays_is_a_failure(tmp_path, ray_says):
    with pytest.raises(WorkerCrashedError):
        run(tmp_path, [WorkerCrashedError()])


def test_near_the_time_limit_of_a_batch_job_every_node_leaves_and_nothing_more_is_started(
    monkeypatch, tmp_path, ray_says
):
    monkeypatch.setenv(LEAVE_FILE, str(tmp_path / "leave"))
    monkeypatch.setattr("smoothsweep.orchestrator.scheduling.scheduler.ASK_EVERY_S", 0.0)
    leaves = leaving_check("aa")
    assert not leaves() and not limit_is_near()
    (tmp_path / "leave").touch()
    assert leaves() and limit_is_near()
    monkeypatch.delenv(LEAVE_FILE)
    assert not limit_is_near()


def test_once_all_work_has_left_the_script_of_the_job_is_told(monkeypatch, tmp_path, ray_says):
    job = tmp_path / "job"
    job.mkdir()
    monkeypatch.setenv(LEAVE_FILE, str(job / "leave"))
    (job / "leave").touch()
    seen = []

    async def beside():
        while not (job / "left").exists():
            seen.append(1)
            await asyncio.sleep(0.01)
        (job / "leave").unlink()  # the next start

    started, events = run(tmp_path / "store", [MachineLeaving()], beside)
    assert started == 2 and seen
    assert [event["line"] for event in events if event["what"] == "say"] == [
        next(event["line"] for event in events if "time limit is near" in event.get("line", ""))
    ]
