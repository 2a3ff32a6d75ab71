"""Refuse imports of changed source files: a digest of this tree's sources, and a check at every import.

Modules are imported when they are first needed, hours into some stages. Where the tree is edited meanwhile, a stage
would run new code under its old version.
"""

from __future__ import annotations

import hashlib
import os
import socket
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType

from smoothsweep.core.errors import CodeChanged

TREE = Path(__file__).resolve().parent.parent
"""Where this source tree lies: the folder that holds core, tasks, sweeps and orchestrator."""

ROOMS = ("core", "orchestrator", "sweeps", "tasks")
SUFFIXES = (".py", ".json")  # programs, and the descriptions of networks that come with them
Facts = tuple[int, int, int, int]  # size, times of the last change of content and of inode, inode

_seen: dict[Path, tuple[dict[str, Facts], str]] = {}  # tree -> its files as they were, and their digest
_seeing = threading.Lock()
_expected: ContextVar[str | None] = ContextVar("the code that is meant", default=None)


def code_digest(tree: Path = TREE) -> str:
    """SHA-256 (hexadecimal) of the names and contents of all sources of a tree, wherever it lies.

    Read anew where a file's size, times or inode have moved since this process last looked.
    """
    with _seeing:
        facts = _facts(tree)
        if tree not in _seen or _seen[tree][0] != facts:
            _seen[tree] = (facts, _digest(tree, facts))
        return _seen[tree][1]


def expected_code() -> str | None:
    """The digest that `only_this_code` holds this process to; None outside of it."""
    return _expected.get()


@contextmanager
def only_this_code(expected: str | None) -> Generator[None]:
    """Refuse, within the block, imports from this tree unless its digest is `expected`; None allows any.

    Raises CodeChanged, one line, at once where the tree has another digest, and wherever something is imported from a
    file that was changed since. Modules imported before the change stay usable: they are the expected code.
    """
    if expected is None:
        yield
        return
    _refuse_other_code(expected)
    token, watch = _expected.set(expected), _Watch(expected, _seen[TREE][0])
    sys.meta_path.insert(0, watch)
    try:
        yield
    finally:
        sys.meta_path.remove(watch)
        _expected.reset(token)


class _Watch(MetaPathFinder):
    """An import hook that checks the file of every module of this tree, and leaves finding it to others."""

    def __init__(self, expected: str, facts: dict[str, Facts]) -> None:
        self._expected, self._facts = expected, facts

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        package, _, rest = name.partition(".")
        inner = rest.replace(".", "/")
        if (
            package == "smoothsweep"
            and "." in rest
            and not any(self._is_as_it_was(file) for file in (f"{inner}.py", f"{inner}/__init__.py"))
        ):
            _refuse_other_code(self._expected)

    def _is_as_it_was(self, file: str) -> bool:
        try:
            return self._facts.get(file) == _of(os.stat(TREE / file))
        except OSError:
            return False


def _refuse_other_code(expected: str) -> None:
    digest = code_digest()
    if digest != expected:
        facts = _seen[TREE][0]
        newest = max(facts, key=lambda name: facts[name][2], default="nothing")
        when = time.strftime("%d.%m. %H:%M:%S", time.localtime(facts[newest][2] / 1e9)) if facts else "never"
        raise CodeChanged(
            f"{TREE} on {socket.gethostname()}: expected the code that this run began with (source-{expected[:12]}), "
            f"got source-{digest[:12]}; last changed: {newest}, {when}. Nothing is made of it; the same command goes on"
        )


def _facts(tree: Path) -> dict[str, Facts]:
    """Every source of the tree, relative and with slashes, and how it looks."""
    facts: dict[str, Facts] = {}
    pending = [room for room in ROOMS if (tree / room).is_dir()]
    while pending:
        folder = pending.pop()
        with os.scandir(tree / folder) as entries:
            for entry in entries:
                if entry.name.startswith((".", "__pycache__")):
                    continue
                if entry.is_dir():
                    pending.append(f"{folder}/{entry.name}")
                elif entry.name.endswith(SUFFIXES):
                    facts[f"{folder}/{entry.name}"] = _of(os.stat(entry.path))
    return facts


def _of(facts: os.stat_result) -> Facts:
    return facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino


def _digest(tree: Path, names: dict[str, Facts]) -> str:
    digest = hashlib.sha256()
    for name in sorted(names):
        content = (tree / name).read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()
