"""A Ray cluster of several nodes on this machine: a head without CPUs and two workers with one each."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from ray._common.utils import get_default_system_temp_dir
from ray._private.utils import write_ray_address
from ray._raylet import GcsClient, GcsClientOptions, GlobalStateAccessor
from ray.cluster_utils import Cluster
from ray.core.generated.autoscaler_pb2 import DRAIN_NODE_REASON_PREEMPTION as PREEMPTION
from ray.core.generated.gcs_pb2 import ActorTableData, PlacementGroupTableData

OBJECT_STORE_BYTES = 80 * 2**20
WORKER_NODES = 2
PATIENCE_S = 400.0
VICTIMS = {
    "scheduler": ("ray::StageScheduler",),
    "task": ("ray::execute_remotely",),
    "shard": ("ray::execute_shard_remotely",),
    "train_worker": ("ray::RayTrainWorker", "ray::_RayTrainWorker"),
    "controller": ("ray::TrainController",),
}  # kind -> how Ray titles the processes that do such work now

RAYS_OWN = "_AutoscalingCoordinatorActor"  # one per cluster, for all jobs, detached by Ray itself; it holds nothing
LIVE: list[EmulatedCluster] = []  # closing one must not kill what belongs to another
AT_REST = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent", f"ray::{RAYS_OWN}")


def wait_until(condition: Callable[[], Any], seconds: float = PATIENCE_S, every: float = 0.02) -> Any:
    """What the condition gives once it is true; TimeoutError otherwise."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(every)
    raise TimeoutError(f"not within {seconds:g} s: {condition}")


class EmulatedCluster:
    """Head (trial slots, scheduler, no work) and worker nodes, all children of this process; nothing is shared."""

    def __init__(self, *, dashboard: bool = False) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="dr", dir="/tmp"))  # short: Ray's socket names hold it
        Path(get_default_system_temp_dir(), "ray").mkdir(exist_ok=True)  # Cluster notes its address there
        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 0,
                "resources": {"trial_slot": 4},
                "include_dashboard": dashboard,
                "object_store_memory": OBJECT_STORE_BYTES,
                "temp_dir": str(self._folder),
                **({"dashboard_port": free_port(), "dashboard_agent_listen_port": free_port()} if dashboard else {}),
            },
        )
        # As `ray start` notes it: a submitted job is told this address even where other Rays run on the machine.
        write_ray_address(self._cluster.address, str(self._folder))
        self._workers: list[Any] = []
        self._state: GlobalStateAccessor | None = None
        self.mend()
        LIVE.append(self)

    @property
    def address(self) -> str:
        return self._cluster.address

    @property
    def dashboard(self) -> str:
        """Where jobs are submitted; of a cluster with a dashboard."""
        return f"http://{self._cluster.webui_url}"

    def mend(self) -> None:
        """As many worker nodes as in the beginning; one that Ray gave up, on a machine too busy, is taken away."""
        alive = {node["NodeID"] for node in self._accessor().get_node_table() if node["Alive"]}
        for node in [node for node in self._workers if node.node_id not in alive]:
            self.take_away(node)
        while len(self._workers) < WORKER_NODES:
            node = self._cluster.add_node(num_cpus=1, object_store_memory=OBJECT_STORE_BYTES, wait=True)
            self._workers.append(node)

    def remove_node_of(self, process: psutil.Process) -> None:
        """Take away the worker node that this process runs on, all its processes by kill -9, as a lost machine."""
        self.take_away(self._node_of(process))

    def _node_of(self, process: psutil.Process) -> Any:
        above = {parent.pid for parent in process.parents()}
        for node in self._workers:
            if node.all_processes["raylet"][0].process.pid in above:
                return node
        raise LookupError(f"{process}: not on a worker node")

    def add_node(self) -> None:
        """One worker node more than there were, until it is removed."""
        self._workers.append(self._cluster.add_node(num_cpus=1, object_store_memory=OBJECT_STORE_BYTES, wait=True))

    def drain_node_of(self, process: psutil.Process, seconds: float) -> Any:
        """Tell Ray, as a notice of a spot machine's end does, that this process's node goes in so many seconds."""
        node = self._node_of(process)
        client, deadline = GcsClient(address=self.address), int(1000 * (time.time() + seconds))
        accepted, why = client.drain_node(node.node_id, PREEMPTION, "spot machine reclaimed", deadline)
        assert accepted, why
        return node

    def take_away(self, node: Any) -> None:
        """The machine is gone: all its processes by kill -9."""
        self._workers.remove(node)
        self._cluster.remove_node(node, allow_graceful=False)

    def process_of_head(self, name: str) -> psutil.Process:
        """The head's `gcs_server` or `raylet`."""
        return psutil.Process(self._cluster.head_node.all_processes[name][0].process.pid)

    def find(self, kind: str) -> list[psutil.Process]:
        """The processes of Ray that do this kind of work at this moment."""
        return [worker for worker in self.workers() if _title(worker).startswith(VICTIMS[kind])]

    def workers(self) -> list[psutil.Process]:
        """Every process of the cluster that is titled as one of Ray's workers."""
        here = psutil.Process().children(recursive=True)
        return [child for child in here if _title(child).startswith("ray::")]

    def leftovers(self) -> list[str]:
        """Actors, placement groups and busy workers on the cluster: with no driver there, none should be."""
        found = []
        for raw in self._accessor().get_actor_table(None, None):
            actor = ActorTableData.FromString(raw)
            if actor.state != ActorTableData.DEAD and actor.class_name != RAYS_OWN:
                found.append(f"actor {actor.class_name}")
        for raw in self._accessor().get_placement_group_table():
            group = PlacementGroupTableData.FromString(raw)
            if group.state != PlacementGroupTableData.REMOVED:
                found.append(f"placement group {group.name or 'of Ray Train'}")
        return found + [title for worker in self.workers() if not (title := _title(worker)).startswith(AT_REST)]

    def wait_until_clear(self, seconds: float = 60.0) -> None:
        """Until nothing is left over; TimeoutError naming what is."""
        try:
            wait_until(lambda: not self.leftovers(), seconds, every=0.2)
        except TimeoutError:
            raise TimeoutError(f"left on the cluster after {seconds:g} s: {', '.join(self.leftovers())}") from None

    def _processes(self) -> set[int]:
        """The processes of this cluster's nodes, and all that they have started."""
        found: set[int] = set()
        for node in (self._cluster.head_node, *self._workers):
            for one in (info.process for infos in node.all_processes.values() for info in infos):
                with contextlib.suppress(psutil.NoSuchProcess):
                    found |= {one.pid, *(child.pid for child in psutil.Process(one.pid).children(recursive=True))}
        return found

    def _accessor(self) -> GlobalStateAccessor:
        if self._state is None:
            options = GcsClientOptions.create(self.address, None, True, False)
            self._state = GlobalStateAccessor(options)
            self._state.connect()
        return self._state

    def close(self) -> None:
        LIVE.remove(self)
        others = {pid for cluster in LIVE for pid in cluster._processes()}
        ours = [child for child in psutil.Process().children(recursive=True) if child.pid not in others]
        self._cluster.shutdown()
        for process in ours:  # workers of removed nodes live on for a moment
            if process.is_running() and _title(process).startswith("ray::"):
                process.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def kill(process: psutil.Process) -> bool:
    """Kill -9; False if it had gone already."""
    try:
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=30)
    except ProcessLookupError:
        return False
    except psutil.Error:
        return True
    return True


def _title(process: psutil.Process) -> str:
    try:
        return (process.cmdline() or [""])[0]
    except psutil.Error:
        return ""
