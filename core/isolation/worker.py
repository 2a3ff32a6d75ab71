"""The isolated process: it gives up what it does not need, then loads a program, and answers until no more is asked.

Started by `core.isolation.process` as a new Python. Files are given up before torch is loaded, which starts threads;
system calls after that and before the program's first byte is looked at.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from smoothsweep.core.isolation import landlock, seccomp

_PR_SET_PDEATHSIG = 1


def main(orders: dict[str, Any]) -> None:
    """Confine this process, load the program and answer for it until the other side closes the connection.

    orders: the JSON object that `core.isolation.process` passes on the command line.
    """
    _end_with(orders["parent"])
    peer = socket.socket(fileno=orders["socket"])
    isolated = orders["isolated"]
    if isolated and landlock.version():
        landlock.confine_files(map(Path, orders["readable"]), map(Path, orders["devices"]))
    from smoothsweep.core.isolation.serving import Server  # loads torch: its threads are to be confined as well

    server = Server(peer, orders)
    _limit(orders["memory"], on_cpu=orders["device"] == "cpu")
    if isolated:
        seccomp.confine_calls(devices=orders["device"] != "cpu" and landlock.version() > 0)
        _prove(orders)
    with os.fdopen(orders["program"], "rb", closefd=True) as program:
        module, _, name = orders["loader"].partition(":")
        server.load(getattr(import_module(module), name), program)
    server.serve()


def _end_with(parent: int) -> None:
    """Have the kernel end this process with the one that started it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before that
        os._exit(1)


def _limit(memory: int, *, on_cpu: bool) -> None:
    """memory: bytes beyond those in use. A GPU's driver reserves address space without end: there data alone count."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if sys.platform != "linux":
        return
    status = Path("/proc/self/status").read_text().split("\n")
    used = {
        line.partition(":")[0]: int(line.split()[1]) * 1024 for line in status if line.startswith(("VmSize", "VmData"))
    }
    for limit, now in ((resource.RLIMIT_DATA, used["VmData"]), (resource.RLIMIT_AS, used["VmSize"])):
        if on_cpu or limit == resource.RLIMIT_DATA:
            resource.setrlimit(limit, (now + memory, now + memory))


def _prove(orders: dict[str, Any]) -> None:
    """Try what must not work. Raises RuntimeError, so that nothing is loaded, where it does."""
    for what, attempt in (
        ("write a file", lambda: os.close(os.open(orders["attempt"], os.O_WRONLY | os.O_CREAT, 0o600))),
        ("open a socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()),
        ("start a process", lambda: _end_child(os.fork())),
    ):
        try:
            attempt()
        except OSError:
            continue
        raise RuntimeError(f"this process can still {what}")


def _end_child(pid: int) -> None:
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
