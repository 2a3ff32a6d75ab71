"""To which worker Ray has handed a task that has not reported in, and what becomes of a worker that never begins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from smoothsweep.core.durations import duration
from smoothsweep.orchestrator.scheduling.limits import SETUP_S
from smoothsweep.orchestrator.scheduling.tasks_in_flight import Process, Running, TasksInFlight, kill

LOOK_EVERY_S = 15.0  # the table that Ray gives is that of all tasks


@dataclass(frozen=True, kw_only=True)
class TaskDispatch:
    """Where Ray stands with a task that was handed to it.

    Attributes:
        attempt: Number of the attempt, as Ray counts from 0.
        runs: The worker has begun it, as far as Ray knows (it may be loading code).
        process: The worker's; None where Ray does not know it any more.
    """

    attempt: int
    runs: bool
    process: Process | None


def read_dispatches(task_ids: list[bytes]) -> dict[bytes, TaskDispatch]:
    """The last attempt of those of these tasks that a worker has been given; one that waits for resources is not here.

    Ray's public table of tasks needs the dashboard, which need not run; this is where it reads from.
    """
    from ray._private.state import state
    from ray.core.generated import common_pb2, gcs_pb2

    status: Any = common_pb2  # protobuf makes its classes and values when it is imported
    table: Any = gcs_pb2
    accessor, dispatches = state._connect_and_get_accessor(), {}
    for raw in accessor.get_task_events():
        if not any(task_id in raw for task_id in task_ids):  # most are not ours: not worth the reading
            continue
        event = table.TaskEvents.FromString(raw)
        if event.task_id in task_ids and status.SUBMITTED_TO_WORKER in event.state_updates.state_ts_ns:
            known = dispatches.get(event.task_id)
            if known is None or known.attempt_number < event.attempt_number:
                dispatches[event.task_id] = event
    if not dispatches:
        return {}
    workers = [table.WorkerTableData.FromString(raw) for raw in accessor.get_worker_table()]
    by_id = {worker.worker_address.worker_id: worker for worker in workers if worker.is_alive}
    return {
        task_id: TaskDispatch(
            attempt=event.attempt_number,
            runs=status.RUNNING in event.state_updates.state_ts_ns,
            process=_process(by_id.get(event.state_updates.worker_id)),
        )
        for task_id, event in dispatches.items()
    }


def _process(worker: Any) -> Process | None:
    """worker: a `WorkerTableData`, or None."""
    if worker is None or not worker.pid:
        return None
    address = worker.worker_address
    return Process(node=address.node_id.hex(), pid=worker.pid, host=address.ip_address)


class StartWatch:
    """Sees to it that workers begin what they were given. One that does not is killed: Ray gives its task to another.

    begin_s: what a worker gets to begin; SETUP_S on top to load its code. say: gets a line for people.
    """

    def __init__(self, tasks: TasksInFlight, begin_s: float, say: Callable[[str], None]) -> None:
        self._tasks, self._begin_s, self._say = tasks, begin_s, say
        self._next, self._kills = 0.0, set()

    async def check(self, now: float) -> None:
        """now: monotonic seconds. Asks Ray only if a task has not begun, and not often: most of them just wait."""
        waiting = {task.ref.task_id().binary(): task for task in self._tasks.not_begun()}
        if not waiting or now < self._next:
            return
        self._next = now + min(LOOK_EVERY_S, self._begin_s / 4)
        dispatches = await asyncio.to_thread(read_dispatches, list(waiting))
        for task_id, task in waiting.items():
            dispatch = dispatches.get(task_id)
            if dispatch is None or dispatch.process is None:
                task.given = None
            elif task.given is None or task.given[0] != dispatch.attempt:
                task.given = (dispatch.attempt, now)
            elif not task.processes and (late := now - task.given[1]) > self._begin_s + dispatch.runs * SETUP_S:
                task.given = (dispatch.attempt, now)
                self._replace(task, dispatch.process, late)

    def _replace(self, task: Running, process: Process, late: float) -> None:
        self._say(
            f"{task.stage.label}: process {process.pid} on {process.host} was given it {duration(late)} ago "
            "and has not begun; killed, so that another does it"
        )
        killing = asyncio.ensure_future(kill({process}))
        self._kills.add(killing)
        killing.add_done_callback(self._kills.discard)
