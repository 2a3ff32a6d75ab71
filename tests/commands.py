"""Commands in a process of their own that has its imports behind it: what six seconds of each would be spent on.

The process is a driver like a user's: it starts its own Ray for every command, and takes signals as it does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

SECONDS = 280.0
_DONE = b"\0done\0"


@dataclass(frozen=True, kw_only=True)
class Done:
    """What `subprocess.run` would say."""

    returncode: int
    stdout: str
    stderr: str


class Commands:
    """The process; one command at a time."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._process, self._folder = process, folder

    def __call__(self, *arguments: object) -> Done:
        """Run `smoothsweep` with these arguments; after -c, a program as `python -c` does."""
        self._process.stdin.write(json.dumps([str(self._folder), *map(str, arguments)]).encode() + b"\n")
        self._process.stdin.flush()
        late = Timer(SECONDS, self._process.kill)
        late.start()
        try:
            line = self._process.stdout.readline()
        finally:
            late.cancel()
        out, err = ((self._folder / name).read_text() for name in ("out", "err"))
        assert line.startswith(_DONE), f"the process ended: {err}"
        return Done(returncode=int(line.removeprefix(_DONE)), stdout=out, stderr=err)


@contextmanager
def commands(*places: Path) -> Iterator[Commands]:
    """Start the process, end it with the block. places: where else it finds packages."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(map(str, places))}
    with tempfile.TemporaryDirectory(prefix="commands-") as folder:
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__)), str(Path(__file__).parents[1])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        try:
            yield Commands(process, Path(folder))
        finally:
            process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()


def _serve() -> None:
    """In the process: every line of stdin is a folder for what is printed, then the arguments."""
    from smoothsweep.orchestrator.cli import main

    answers, asked = os.fdopen(os.dup(1), "wb"), os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for line in asked:
        folder, *arguments = json.loads(line)
        for number, name in ((1, "out"), (2, "err")):
            file = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, number)
            os.close(file)
        try:
            code = main(arguments) if arguments[0] != "-c" else _program(*arguments[1:])
        except SystemExit as end:
            code = end.code
        sys.stdout.flush()
        sys.stderr.flush()
        answers.write(_DONE + str(code).encode() + b"\n")
        answers.flush()


def _program(code: str, *arguments: str) -> int:
    sys.argv = ["-c", *arguments]
    try:
        exec(compile(code, "-c", "exec"), {"__name__": "__main__"})
    except Exception:  # of any program, told as `python -c` tells it: the traceback, and 1
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.path[0] = sys.argv[1]
    _serve()
