"""Which modules are mutated, and which tests are about each; `covering` sorts them by the line in question.

Not mutated: what speaks with a real Ray alone (`tasks/ray_train.py`), which slow tests and drills cover, and the table
of stages (`tasks/registry.py`), which is names and numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.mutants.tables import BESIDE, BY_ALL, LEFT_OUT, NAMED, ROOMS, TESTS


@dataclass(frozen=True, kw_only=True)
class Target:
    """A module, the room that it counts for, and its tests: paths from the root."""

    module: str
    room: str
    tests: tuple[str, ...]


def targets(root: Path) -> Iterator[Target]:
    """Every module that is mutated. Raises ValueError for one whose tests are not there."""
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            module = path.relative_to(root).as_posix()
            if path.name == "__init__.py" or module in LEFT_OUT or not _counts(room, module):
                continue
            tests = _files(root, (*_tests_of(root, module, room), *BY_ALL.get(room, ())))
            lost = [test for test in tests if not (root / test.partition("::")[0]).exists()]
            if lost:
                raise ValueError(f"{module}: expected tests that exist, got {', '.join(lost)}")
            yield Target(module=module, room=room, tests=tests)


def _counts(room: str, module: str) -> bool:
    return room not in NAMED or module.removeprefix(f"{room}/").removesuffix(".py") in NAMED[room]


def _files(root: Path, tests: tuple[str, ...]) -> tuple[str, ...]:
    """A folder's test files in its place. Nothing twice."""
    found: list[str] = []
    for test in tests:
        inside = sorted((root / test).rglob("test_*.py")) if (root / test).is_dir() else []
        found += [path.relative_to(root).as_posix() for path in inside] or [test]
    return tuple(dict.fromkeys(found))


def _tests_of(root: Path, module: str, room: str) -> tuple[str, ...]:
    """The test file of the module's name, if there is one, and what the table names; of a module that has neither, the
    room's tests that import it and those of its folder. Nothing twice."""
    folder, name = module.rsplit("/", 1)
    own = f"tests/{folder}/test_{name}"
    mine = [own] if (root / own).exists() else []
    if module in TESTS:
        return tuple(dict.fromkeys([*mine, *TESTS[module]]))
    if mine:
        return (*mine, *BESIDE.get(folder, ()))
    importing = _importing(root, room).get(module.removesuffix(".py").replace("/", "."), [])
    return tuple(dict.fromkeys([*importing, *TESTS.get(folder, TESTS[room])]))


@cache
def _importing(root: Path, room: str) -> dict[str, list[str]]:
    """Module -> the test files of a room that import something of it."""
    found: dict[str, list[str]] = {}
    for path in sorted((root / "tests" / room).rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for module in {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}:
            found.setdefault(module.removeprefix("smoothsweep."), []).append(path.relative_to(root).as_posix())
    return found
