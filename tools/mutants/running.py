"""Tests run against one fault after the other: in a copy of the tree, in forks of a process with libraries loaded.

Importing torch and its like takes longer than most of the tests; our own modules are imported anew in every fork.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.mutants.covering import Chosen, Executed, Sorter, Watcher

LIBRARIES = (
    "torch",
    "torchvision",
    "numpy",
    "pandas",
    "scipy.linalg",
    "sklearn.linear_model",
    "sklearn.decomposition",
    "pydantic",
    "safetensors.torch",
    "pyarrow.parquet",
    "yaml",
    "PIL.Image",
    "ray",
    "optuna",
    "pytest",
)
NO_SOURCES = {".git", ".venv", ".hypothesis", ".pytest_cache", ".ruff_cache", "build", "store", "report", "mlruns"}
LEAST_S, TIMES = 60.0, 4.0  # a fault that makes the tests four times as slow counts as noticed
NOTICED, UNNOTICED, TOO_SLOW = "noticed", "unnoticed", "too slow"
EXECUTED, TEMPORARY = ".mutants-executed", ".mutants-temporary"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the tests said; seconds: of the wall; tail: the end of what pytest wrote."""

    said: str
    seconds: float
    tail: str


def load_libraries() -> None:
    """Import what the tests will need of other people's code, so that forks have it."""
    for name in LIBRARIES:
        importlib.import_module(name)


class Copy:
    """A copy of a tree without what is no source, removed at the end. Use as a context manager."""

    def __init__(self, source: Path) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="mutants-"))

        def is_none(folder: str, names: list[str]) -> set[str]:
            return {"__pycache__"} | (NO_SOURCES if Path(folder) == source else set())

        shutil.copytree(source, self.root, dirs_exist_ok=True, ignore=is_none, symlinks=True)

    def __enter__(self) -> Copy:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def ask(self, module: str, source: str, chosen: Chosen, limit_s: float) -> Answer:
        """Run the chosen tests with `source` in the place of a module."""
        path = self.root / module
        original = path.read_text()
        try:
            path.write_text(source)
            return self._run(chosen.tests, limit_s, Sorter(chosen))
        finally:
            path.write_text(original)

    def watch(self, tests: str, limit_s: float) -> tuple[Answer, Executed | None]:
        """Run a test file without a fault: what it said, and what it executed, None where a test failed."""
        answer = self._run((tests,), limit_s, Watcher(self.root, tests))
        kept = self.root / EXECUTED
        return answer, Executed(**json.loads(kept.read_text())) if answer.said == UNNOTICED else None

    def _run(self, tests: tuple[str, ...], limit_s: float, plugin: Sorter | Watcher) -> Answer:
        started, output = time.monotonic(), self.root / ".mutants-output"
        child = os.fork()
        if child == 0:
            _be_pytest(self.root, tests, output, plugin)
        said = TOO_SLOW
        while time.monotonic() - started < limit_s:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                said = UNNOTICED if status == 0 else NOTICED
                break
            time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # whatever the tests have started
        if said == TOO_SLOW:
            os.waitpid(child, 0)
        tail = output.read_text(errors="replace")[-2000:] if output.is_file() else ""
        return Answer(said=said, seconds=time.monotonic() - started, tail=tail)


def _be_pytest(root: Path, tests: tuple[str, ...], output: Path, plugin: Sorter | Watcher) -> None:
    """In the fork: never returns."""
    code, started = 3, time.monotonic()
    try:
        os.setsid()
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(descriptor, stream)
        os.chdir(root)
        (temporary := root / TEMPORARY).mkdir(mode=0o700, exist_ok=True)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(
            temporary
        )  # else pytest clears away what others have left, in minutes
        sys.path[:] = [str(root), *(place for place in sys.path if Path(place or ".").resolve() != Path.cwd())]
        sys.dont_write_bytecode = True  # a source changed twice within a second has two faces under one time
        for name in [name for name in sys.modules if name.split(".")[0] in OURS]:
            del sys.modules[name]
        import pytest

        if isinstance(plugin, Watcher):
            plugin.start()
        quiet = ["-x", "-q", "--no-header", "--assert=plain", "-p", "no:cacheprovider"]
        code = int(pytest.main([*quiet, "--hypothesis-seed=0", *tests], plugins=[plugin]))
        if isinstance(plugin, Watcher) and code == 0:
            (root / EXECUTED).write_text(json.dumps(asdict(plugin.found(time.monotonic() - started))))
    except BaseException:
        traceback.print_exc()
        code = 3
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


OURS = ("smoothsweep", "tests", "benchmarks", "tools")
