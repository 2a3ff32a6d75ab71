"""One node's part of the Ray cluster of a batch job: the first node is the head, the others join it.

`ray symmetric-run` does not serve here: it refuses to start where any other Ray runs on the node, and it ends with
`ray stop`, which also kills the Rays of the user's other jobs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from smoothsweep.core import screen
from smoothsweep.core.allotted import allotted_cpus
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import plain_content, write_file
from smoothsweep.core.text import printable
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

ADDRESS, TOKEN, ENDED = "address", "token", "ended"  # files in the job's folder
LOOK_EVERY_S = 0.5
STARTS = 3
WAIT_FOR_HEAD_S = 900.0  # longer than the head's last start takes on a busy node: who gives up earlier leaves it alone
LOG = "start.log"  # what `ray start` says; shown only where it fails
CURRENT = "ray/ray_current_cluster"  # where Ray notes the address of the cluster of a folder
END_S = 15.0  # for Ray to end by itself; half of what Slurm leaves between SIGTERM and SIGKILL (KillWait, 30 s)
DRAIN = "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"
OF_A_NODE = {**OF_EVERY_RAY, **NO_METRICS, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1", DRAIN: "0"}
"""Ray's environment on a node, as on other clusters: work without a GPU must not see one. What a user has set stays.

A job's nodes end together, so none waits for work to go elsewhere; workers that come and go do, as their script says.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Start Ray on this node and stay until it ends. Returns Ray's exit code."""
    parser = argparse.ArgumentParser(description="One node of the Ray cluster of a batch job.")
    parser.add_argument("folder", type=Path, help="the job's folder, which all nodes see: token, address")
    parser.add_argument("--worker", action="store_true", help="join, also as the first node of its own job")
    options = parser.parse_args(arguments)
    head = not options.worker and os.environ.get("SLURM_PROCID", "0") == "0"
    sweep_away()
    with new_token(_text(options.folder / TOKEN)) as token:
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), BASE_VARIABLE: str(token.parent)}
        os.environ |= {name: value for name, value in OF_A_NODE.items() if name not in os.environ}
        return _start(options.folder, token.parent, head=head)


def _start(folder: Path, own: Path, *, head: bool) -> int:
    """Start Ray and stay, trying again where it does not come up: Ray itself gives a node 30 s, whatever else it does.

    folder: of the job. own: of this node's Ray, mode 700.
    """
    code = 0
    for _ in range(STARTS):
        code = _once(folder, own, None if head else _address_of_head(folder))
        if code <= 0 or (folder / ENDED).exists() or (head and (folder / ADDRESS).exists()):
            return code
        words = [line for line in _text(own / LOG).splitlines() if line.strip()] or ["no word"]
        screen.err(f"Ray on {socket.gethostname()} ended with {code}: {printable(words[-1])}")
    if head:
        write_file(folder / ENDED, "")  # so that no other node waits
    return code


def _once(folder: Path, own: Path, address: str | None) -> int:
    """One start of Ray, to its end. address: of the head, None on the head. Returns its exit code, 0 if it was told.

    It is told by a signal to this process, or once the job's folder says so or is gone: a signal to `srun` would not
    do, which ends with a kill that leaves files behind. What does not end by itself within END_S is killed, for Slurm
    kills whatever is left of a cancelled job after a while, and then nothing of ours removes Ray's files. After SIGUSR1
    it may take its time: work on this node may go elsewhere before the time limit.
    """
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", *start_options(address)]
    current, place, heard = own / CURRENT, folder / ADDRESS, set[int]()
    current.unlink(missing_ok=True)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, lambda number, _: heard.add(number))
    is_told, until, processes = False, float("inf"), list[psutil.Process]()
    with open(own / LOG, "wb") as log:
        ray = subprocess.Popen(command, stdout=log, stderr=log)
        while (code := ray.poll()) is None:
            if until == float("inf") and (heard - {signal.SIGUSR1} or (folder / ENDED).exists() or not folder.exists()):
                is_told, until = True, time.monotonic() + END_S
                with contextlib.suppress(psutil.Error):  # Ray's workers have another parent once the raylet has ended
                    processes = psutil.Process(ray.pid).children(recursive=True)
                ray.terminate()
            elif heard and not is_told:
                is_told = True
                ray.terminate()
            elif address is None and not is_told and not place.exists() and current.exists() and _text(current):
                write_file(place, _text(current))  # for the other nodes, once Ray says where it is
            if time.monotonic() >= until:
                for process in processes:
                    with contextlib.suppress(psutil.Error):
                        process.kill()
                ray.kill()
            time.sleep(LOOK_EVERY_S)
    return 0 if is_told else code


def start_options(address: str | None) -> list[str]:
    """Options of `ray start` for this node. address: of the head, None for the head itself.

    Every port is free or absent, so that any number of jobs share a node.
    """
    own_address = _own_address()
    options = ["--block", "--num-cpus", str(allotted_cpus()), "--object-store-memory", str(OBJECT_STORE_BYTES)]
    options += ["--disable-usage-stats", "--dashboard-agent-listen-port", str(_free_port())]
    options += ["--node-ip-address", own_address] if own_address else []
    if address is not None:
        return [*options, "--address", address]
    cpus, nodes = os.environ.get("SLURM_CPUS_ON_NODE", "8"), os.environ.get("SLURM_JOB_NUM_NODES", "1")
    slots = json.dumps({SLOT: SLOTS_PER_CPU * int(cpus) * int(nodes)})
    ports = ["--port", str(_free_port()), "--ray-client-server-port", str(_free_port())]
    return [*options, "--head", "--include-dashboard", "false", "--resources", slots, *ports]


def _text(path: Path) -> str:
    return plain_content(path).decode(errors="replace").strip()


def _own_address() -> str | None:
    """The address that Slurm's name of this node stands for, where it is one of this machine; else Ray finds one."""
    try:
        named = socket.gethostbyname(os.environ.get("SLURMD_NODENAME", ""))
    except OSError:
        return None
    addresses = {entry.address for entries in psutil.net_if_addrs().values() for entry in entries}
    return named if named in addresses and not named.startswith("127.") else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def _address_of_head(folder: Path) -> str:
    deadline = time.monotonic() + WAIT_FOR_HEAD_S
    while time.monotonic() < deadline:
        if (folder / ADDRESS).exists():
            return _text(folder / ADDRESS)
        if (folder / ENDED).exists() or not folder.exists():
            break
        time.sleep(0.5)
    raise InputError(f"{folder / ADDRESS}: expected the head's address within {WAIT_FOR_HEAD_S:g} s, got none")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InputError as error:
        sys.exit(f"smoothsweep: {error}")
