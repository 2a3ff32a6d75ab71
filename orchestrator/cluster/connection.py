"""A Ray of this run alone: it listens on the loopback interface, and only to callers who hold the run's token.

Ray reads these settings from the environment, where its processes find them too. The token itself is in no environment
and on no command line: they hold the path of a file that its owner alone can read, gone when the run ends. Ray's own
files (sessions, logs, sockets) lie beside it, in the same folder, which other users cannot enter.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
import psutil
import ray
import ray.exceptions
from ray._private import ray_constants, services
from ray._raylet import AuthenticationTokenLoader, Config  # ty: ignore[missing-module-member]  # compiled

from smoothsweep.core import screen
from smoothsweep.core.allotted import allotted_cpus
from smoothsweep.core.errors import InputError
from smoothsweep.core.uris import shown_uri, without_secrets
from smoothsweep.orchestrator.cluster import interrupts
from smoothsweep.orchestrator.cluster.run_folder import (
    BASE_VARIABLE,
    NO_METRICS,
    OBJECT_STORE_BYTES,
    OF_EVERY_RAY,
    SLOT,
    SLOTS_PER_CPU,
    new_token,
    sweep_away,
)
from smoothsweep.orchestrator.stages.stage import CODE_VERSION_VARIABLE, code_version
from smoothsweep.tasks.context import PROMISED_PER_NODE, promised_gpus

GUARDS = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": None,  # not set
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # as on macOS: Ray's address is 127.0.0.1, and it binds no other
}
QUIET = {  # what a user has set stays
    **NO_METRICS,
    "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",  # Ray Train's workers on CPUs
}
_running = contextlib.ExitStack()


def start_ray(**settings: Any) -> None:
    """Start a Ray on this machine and join it. settings: of `ray.init`. Raises what `ray.init` raises, and InputError
    where its files cannot be closed to other users."""
    stop_ray()
    try:
        _running.enter_context(_guarded())
        ray.init(address="local", include_dashboard=False, configure_logging=False, log_to_driver=False, **settings)
    except BaseException:
        stop_ray()
        raise


def stop_ray() -> None:
    """Leave Ray, ours (which ends) or another's, and put the environment back."""
    ray.shutdown()
    _running.close()


@contextlib.contextmanager
def _guarded() -> Generator[None]:
    """Have the Ray that is started in this block ask for a new token, on the loopback interface.

    This process's own Ray, loaded long ago, reads the environment anew; all is put back afterwards.
    """
    sweep_away()
    with new_token() as path:
        chosen = {name: value for name, value in QUIET.items() if name not in os.environ}
        settings = {**GUARDS, **chosen, "RAY_AUTH_TOKEN_PATH": str(path), BASE_VARIABLE: str(path.parent)}
        before = {name: os.environ.get(name) for name in settings}
        of_many_machines = ray_constants.ENABLE_RAY_CLUSTER
        _set(settings)
        ray_constants.ENABLE_RAY_CLUSTER = False
        _read_anew()
        try:
            yield
        finally:
            _set(before)
            ray_constants.ENABLE_RAY_CLUSTER = of_many_machines
            _read_anew()


def _set(settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _read_anew() -> None:
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


HEAD = "node:__internal_head__"  # what Ray gives the head alone: for what must not die with a spot machine
STARTS, TOO_SLOW = 3, "timed out"  # of a local Ray; what it says where its processes were too slow
SAID_AFTER_S, ANSWER_S = 10.0, 10.0  # of a start that lasts; of a head that is asked whether it is one
ALIVE = "/ray.rpc.NodeInfoGcsService/CheckAlive"


@dataclass(frozen=True, kw_only=True)
class ClusterFacts:
    """What the cluster offers: CPUs, GPUs, and how many trials may be open at once.

    node_cpus, node_gpus: of its largest machine; None where machines may come of which nothing is known yet.
    """

    cpus: int
    gpus: float
    trial_slots: int
    is_local: bool
    node_cpus: int | None = None
    node_gpus: float | None = None


def connect(address: str | None, trial_slots: int | None) -> ClusterFacts:
    """Join the cluster at `address` (or RAY_ADDRESS, as under `ray job submit`); without one, start a local Ray.

    Raises InputError if there is no cluster at the address, or one without trial slots.
    """
    _quiet_environment()
    address = address or os.environ.get("RAY_ADDRESS")
    if address:
        return _join(address)
    cpus = allotted_cpus()
    slots = trial_slots or SLOTS_PER_CPU * cpus
    _start_here(num_cpus=cpus, object_store_memory=OBJECT_STORE_BYTES)
    interrupts.listen()  # Ray has just taken SIGTERM for itself
    gpus = ray.cluster_resources().get("GPU", 0)
    return ClusterFacts(cpus=cpus, gpus=gpus, trial_slots=slots, is_local=True, node_cpus=cpus, node_gpus=gpus)


def _start_here(**settings: Any) -> None:
    """Start a local Ray. Try again where its processes were not up within 30 s, as on a busy machine.

    What a start that failed has left running is ended first. Raises InputError if Ray does not start.
    """
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    for attempts_left in reversed(range(STARTS)):
        waiting = threading.Timer(SAID_AFTER_S, screen.err, ("smoothsweep: Ray is slow to start here; waiting for it",))
        waiting.daemon = True
        waiting.start()
        try:
            with interrupts.sheltered():
                return start_ray(**settings)
        except InputError:
            raise
        except Exception as error:  # Ray raises a bare one when its processes are not up in time
            interrupts.kill_descendants(but=before)
            if attempts_left and TOO_SLOW in str(error).lower():
                screen.err("smoothsweep: Ray was not up in time; it is started again")
                continue
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"expected Ray to start on this machine, got: {reason}") from None
        finally:
            waiting.cancel()
    return None


def remove_lost_groups() -> int:
    """Remove the placement groups of this job whose creator, the controller of a Ray Train run, has died.

    Ray's own cleaner of these groups asks the dashboard, which need not run, and outlives the job where it does not;
    `tasks.ray_train` runs without it. Returns how many were removed.
    """
    from ray._private.state import state  # the public table does not tell who created a group
    from ray.core.generated import gcs_pb2
    from ray.util.placement_group import PlacementGroup, remove_placement_group

    table: Any = gcs_pb2  # protobuf makes its classes when it is imported
    job = ray.get_runtime_context().get_job_id()
    lost = []
    for raw in state._connect_and_get_accessor().get_placement_group_table():
        group = table.PlacementGroupTableData.FromString(raw)
        by_lost_actor = group.creator_actor_dead and not ray.ActorID(group.creator_actor_id).is_nil()
        if by_lost_actor and group.creator_job_id.hex() == job and group.state != table.PlacementGroupTableData.REMOVED:
            lost.append(PlacementGroup(ray.PlacementGroupID(group.placement_group_id)))
    for group in lost:
        remove_placement_group(group)
    return len(lost)


def _join(address: str) -> ClusterFacts:
    try:
        _ask_whether_alive(address)
        ray.init(address=address, configure_logging=False, log_to_driver=False, namespace="smoothsweep")
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = " ".join(without_secrets(str(error), address).split())[:200]
        raise InputError(f"--address {shown_uri(address)}: expected a Ray cluster there, got: {reason}") from None
    interrupts.listen()
    resources = ray.cluster_resources()
    if not resources.get(SLOT):
        ray.shutdown()
        raise InputError(
            f"--address {shown_uri(address)}: expected a cluster with the resource {SLOT} "
            f"(start the head with --resources='{{\"{SLOT}\": 16}}'), got none"
        )
    promised = promised_gpus() or 0.0
    grows = promised > resources.get("GPU", 0.0)
    return ClusterFacts(
        cpus=int(resources.get("CPU", 0)),
        gpus=max(resources.get("GPU", 0.0), promised),
        trial_slots=int(resources[SLOT]),
        is_local=False,
        node_cpus=None if grows else int(_most("CPU")),
        node_gpus=promised_gpus(PROMISED_PER_NODE) if grows else _most("GPU"),
    )


def _ask_whether_alive(address: str) -> None:
    """Raise ConnectionError unless a head of Ray answers there, if only by asking for a token.

    Ray itself goes on asking for minutes, and prints every try.
    """
    if os.environ.get("RAY_USE_TLS", "0") != "0":
        return  # Ray knows the certificates
    scheme, _, place = address.rpartition("://")
    place = place if scheme else services.canonicalize_bootstrap_address(address)
    with grpc.insecure_channel(place, options=[("grpc.enable_http_proxy", 0)]) as channel:
        try:
            channel.unary_unary(ALIVE)(b"", timeout=ANSWER_S)
        except grpc.RpcError as error:
            answer: Any = error  # also a grpc.Call, whose code it has
            other = () if scheme else (grpc.StatusCode.UNIMPLEMENTED,)  # the port of Ray's client has other methods
            if answer.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, *other):
                raise ConnectionError(f"no answer of Ray's from {place}") from None


def _most(resource: str) -> float:
    """How much of it the largest machine of the cluster has."""
    return max((node["Resources"].get(resource, 0.0) for node in ray.nodes() if node["Alive"]), default=0.0)


def _quiet_environment() -> None:
    """Settings that Ray reads when it starts; what the user has set already stays."""
    for name, value in {
        **OF_EVERY_RAY,
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        CODE_VERSION_VARIABLE: code_version(),
    }.items():
        os.environ.setdefault(name, value)
