"""Isolated processes for tests of programs, started as forks of a process that has torch loaded already.

A new Python spends two seconds on torch before it looks at a program, and the tests open a hundred. The process that is
forked has one thread, so a fork gives up files and system calls as a new Python does; what it runs from then on is the
product's. That new Pythons are started, with which environment, and how they end is what those tests in
`tests/core/isolation` are about that ask for `new_programs`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[1]
LOADED = (
    "smoothsweep.core.isolation.worker",
    "smoothsweep.core.isolation.sandbox",
    "torch._dynamo",  # these two for exported programs
    "torch._export.serde.serialize",
    "smoothsweep.core.priors.official",
)


class Fork:
    """What `core.isolation.process` asks of a `subprocess.Popen`."""

    def __init__(self, forks: Forks, pid: int, descriptor: int) -> None:
        self._forks, self.pid, self._descriptor, self.returncode = forks, pid, descriptor, None

    def kill(self) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._descriptor], [], [], 0)[0]:
            self._reap()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._descriptor], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a program", timeout)
            self._reap()
        return self.returncode

    def _reap(self) -> None:
        self.returncode = self._forks.ask({"reap": self.pid})[0]["code"]
        os.close(self._descriptor)


class Forks:
    """The process that is forked."""

    def __init__(self) -> None:
        self._asked, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, "-B", str(Path(__file__)), str(theirs.fileno()), json.dumps([str(ROOT), *sys.path])],
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            cwd="/",
        )
        theirs.close()

    def started(self, said: dict[str, Any], passed: tuple[int, ...], output: int) -> Fork:
        """In the place of `core.isolation.process._started`."""
        from smoothsweep.core.isolation import process

        answer, descriptors = self.ask({"said": said, "environment": process._environment()}, *passed, output)
        return Fork(self, answer["pid"], descriptors[0])

    def ask(self, question: dict[str, Any], *descriptors: int) -> tuple[dict[str, Any], list[int]]:
        """Each question brings the socket for its answer: a finaliser may ask in the middle of another question."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs:
                socket.send_fds(self._asked, [json.dumps(question).encode()], [theirs.fileno(), *descriptors])
            answer, found, _, _ = socket.recv_fds(ours, 2**16, 1)
        assert answer, "the process that is forked has ended"
        return json.loads(answer), list(found)


@contextmanager
def forked() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """What is started within the block is a fork, of a process that the first one starts and that ends with this one.

    Gives how programs start otherwise.
    """
    from smoothsweep.core.isolation import process

    made, as_users = list[Forks](), process._started

    def started(said: dict[str, Any], passed: tuple[int, ...], output: int) -> Fork:
        if not made:
            made.append(Forks())
        return made[0].started(said, passed, output)

    with patch.object(process, "_started", started):
        yield as_users


def _serve(asked: socket.socket) -> None:
    """In the process."""
    for name in LOADED:
        __import__(name)
    assert len(os.listdir("/proc/self/task")) == 1, "a fork of several threads is no new process"
    while True:
        question, descriptors, _, _ = socket.recv_fds(asked, 2**20, 8)
        if not question:
            os._exit(0)  # the kernel ends its forks with it
        told = json.loads(question)
        with socket.socket(fileno=descriptors[0]) as answer:
            if "reap" in told:
                code = os.waitstatus_to_exitcode(os.waitpid(told["reap"], 0)[1])
                answer.send(json.dumps({"code": code}).encode())
                continue
            parent, pid = os.getpid(), os.fork()
            if pid == 0:
                asked.close()
                answer.close()
                _be_a_program(told, descriptors[1:], parent)
            descriptor = os.pidfd_open(pid)
            socket.send_fds(answer, [json.dumps({"pid": pid}).encode()], [descriptor])
            for number in (descriptor, *descriptors[1:]):
                os.close(number)


def _be_a_program(told: dict[str, Any], descriptors: list[int], parent: int) -> None:
    """In the fork: never returns."""
    code, said, output = 0, told["said"], descriptors.pop()
    try:
        os.setsid()
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        os.environ.clear()
        os.environ.update(told["environment"])
        sys.path[:] = said["path"]
        said["socket"], said["program"] = descriptors
        orders = {**said, "parent": parent}
        sys.modules[LOADED[1]].give_up_files(orders)
        sys.modules[LOADED[0]].main(orders)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.path[:] = json.loads(sys.argv[2])
    _serve(socket.socket(fileno=int(sys.argv[1])))
