"""Watch by TCP, not through Ray, whether the processes of the driver's cluster still accept connections.

Ray itself waits a minute for a lost GCS and then ends the process; a lost raylet it does not notice at all where the
driver only asks actors. A busy or stopped process still accepts connections (the kernel does), so a busy machine is
not taken for a lost one.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from smoothsweep.orchestrator.cluster import interrupts

CHECK_EVERY_S = 1.0
ANSWER_S = 3.0  # for a connection
MISSES = 3  # in a row: an interrupt of the whole process group must be heard first
PATIENCE_S = 12.0  # of a caller who meets an error of Ray's, for the verdict


@dataclass(frozen=True, kw_only=True)
class Server:
    """A process that the driver cannot do without. name: what a person calls it."""

    name: str
    host: str
    port: int

    def answers(self) -> bool:
        try:
            socket.create_connection((self.host, self.port), timeout=ANSWER_S).close()
        except OSError:
            return False
        return True


class Lifeline:
    """Watches servers until `close`; calls `lost(line)` once, from its own thread, when one has gone."""

    def __init__(self, servers: list[Server], lost: Callable[[str], None] = interrupts.end_for_lost_cluster) -> None:
        self._servers, self._lost, self._closed = servers, lost, threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lifeline", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()

    def _watch(self) -> None:
        misses = dict.fromkeys(self._servers, 0)
        while not self._closed.wait(CHECK_EVERY_S):
            for server in self._servers:
                misses[server] = 0 if server.answers() else misses[server] + 1
                if misses[server] >= MISSES and not self._closed.is_set():
                    self._lost(f"the Ray cluster is lost: {server.name} at {server.host}:{server.port} is gone")
                    return


def lifeline_of_this_driver() -> Lifeline:
    """Watch the GCS of the cluster that Ray is connected to, and the raylet of this machine."""
    import ray
    import ray.exceptions

    _drop_obituaries()
    host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")
    servers = [Server(name="its head (GCS)", host=host.strip("[]"), port=int(port))]
    node_id = ray.get_runtime_context().get_node_id()
    for node in ray.nodes():
        if node["NodeID"] == node_id and node["Alive"]:
            address, port = node["NodeManagerAddress"], node["NodeManagerPort"]
            servers.append(Server(name="the raylet of this machine", host=address, port=port))
    return Lifeline(servers)


@contextlib.contextmanager
def explaining_rays_errors() -> Generator[None]:
    """Raise the loss of the cluster, where it follows an error of Ray in this block, instead of that error.

    Raises ClusterLost after any RayError: the driver cannot continue, but the same command resumes its work.
    """
    import ray

    try:
        yield
    except ray.exceptions.RayError as error:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            interrupts.check()
            time.sleep(0.1)
        reason = " ".join(str(error).split())[:200]
        interrupts.end_for_lost_cluster(f"the Ray cluster does not answer: {type(error).__name__}: {reason}")
        interrupts.check()
        raise


def _drop_obituaries() -> None:
    """Keep Ray from printing pages on a dead raylet, which one line of ours tells, and on workers that end with us."""
    from ray._private import worker as its_worker

    worker: Any = its_worker
    show = worker.print_to_stdstream
    if getattr(show, "drops_obituaries", False):
        return

    def show_others(data: dict[str, Any], *arguments: Any, **options: Any) -> None:
        if not (interrupts.end_requested() or any("Raylet is terminated" in line for line in data.get("lines", []))):
            show(data, *arguments, **options)

    ours: Any = show_others
    ours.drops_obituaries = True
    worker.print_to_stdstream = ours
