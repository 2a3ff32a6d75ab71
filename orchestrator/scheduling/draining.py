"""Machines that are about to be taken away: spot machines with notice, pods that are evicted, nodes that are drained.

Ray knows of them by `ray drain-node`, and by the SIGTERM of a `ray start --block`. It gives such a node no new work;
what runs there is ours to bring away in time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from ray.exceptions import RayError, RayTaskError

from smoothsweep.core.files import write_file
from smoothsweep.orchestrator.scheduling.tasks_in_flight import Process
from smoothsweep.tasks.context import MachineLeaving

ASK_EVERY_S = 2.0
LEAVE_FILE = "SMOOTHSWEEP_LEAVE_FILE"  # a path: where the file exists, all of the job's nodes leave
LEFT = "left"  # beside it: they have


def draining_nodes() -> set[str]:
    """Ray's ids of the nodes that are being drained now."""
    from ray._private.state import state  # where Ray Train's own watcher asks

    return set(state.get_draining_nodes())


def limit_is_near() -> bool:
    """Whether the batch job that this process belongs to is about to reach its time limit."""
    path = os.environ.get(LEAVE_FILE)
    return path is not None and os.path.exists(path)


def report_all_left() -> None:
    """Tell the script of the batch job that nothing runs any more, so that it waits for the limit no longer."""
    write_file(Path(os.environ[LEAVE_FILE]).with_name(LEFT), "", flush=False)


def leaving_check(node: str) -> Callable[[], bool]:
    """Whether this node is being drained, or its batch job nears the time limit: asked every few seconds at most, and
    for good once it is so."""
    asked_at, is_leaving = -ASK_EVERY_S, False

    def ask() -> bool:
        nonlocal asked_at, is_leaving
        if not is_leaving and time.monotonic() - asked_at >= ASK_EVERY_S:
            asked_at = time.monotonic()
            is_leaving = node in draining_nodes() or limit_is_near()
        return is_leaving

    return ask


class DrainWatch:
    """Which nodes have been drained while the scheduler looked, so that a loss on them counts as no failure."""

    def __init__(self) -> None:
        self._left: set[str] = set()
        self._asked = -ASK_EVERY_S

    def look(self) -> None:
        """Ask Ray, every few seconds at most. A node that is gone is not in its answer any more: we remember."""
        if time.monotonic() - self._asked >= ASK_EVERY_S:
            self._asked = time.monotonic()
            self._left |= draining_nodes()

    def explain(self, error: BaseException, processes: Iterable[Process]) -> bool:
        """Whether the task ended because its machine leaves: it says so itself, or was lost with a drained node."""
        if isinstance(error, MachineLeaving):
            return True
        lost = isinstance(error, RayError) and not isinstance(error, RayTaskError)
        return lost and any(process.node in self._left for process in processes)
