"""Which tests execute a line: measured once per test file, by coverage's contexts, and kept while its files stay.

A fault is asked of the tests that execute its statement first, the quickest before the others. Most faults are noticed
there, in seconds; only one that is not is asked of all tests about its module.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import coverage
import pytest

PRODUCT = ("core", "tasks", "sweeps", "orchestrator", "smoothsweep.py")
QUICK_S = 0.5
"""Tests below this come first, whatever file they are in."""


@dataclass(frozen=True, kw_only=True)
class Executed:
    """What one test file, or one function of it, executed without any fault.

    seconds: test -> seconds of its call. whole_s: of all tests, their fixtures and imports.
    lines: module -> line -> numbers of tests in the order of `seconds`; [] where it was executed on import alone.
    digests: path of every file that was executed, the tests' own included -> SHA-256.
    """

    seconds: Mapping[str, float]
    whole_s: float
    lines: Mapping[str, Mapping[str, list[int]]]
    digests: Mapping[str, str]

    def is_current(self, root: Path) -> bool:
        """Whether all files that were executed are as they were."""
        return all((root / path).is_file() and digest_of(root / path) == was for path, was in self.digests.items())

    def executing(self, module: str, lines: Collection[int]) -> set[str]:
        """The tests that execute one of these lines of a module."""
        named, found = list(self.seconds), self.lines.get(module, {})
        return {named[number] for line in lines for number in found.get(str(line), ())}


class Watcher:
    """A plugin of pytest that notes which tests execute which lines. Fixtures that several tests share count for all
    tests of their file."""

    def __init__(self, root: Path, tests: str) -> None:
        self._root, self._file = root, tests.partition("::")[0]
        include = [f"{root}/{name}/*" if "." not in name else f"{root}/{name}" for name in PRODUCT]
        self._coverage = coverage.Coverage(data_file=None, config_file=False, include=include)
        self._seconds: dict[str, float] = {}
        self._context = ""

    def start(self) -> None:
        """Before anything of ours is imported."""
        self._coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Called by pytest."""
        self._seconds.setdefault(nodeid, 0.0)
        self._to(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest."""
        if report.when == "call":
            self._seconds[report.nodeid] = report.duration

    def pytest_runtest_logfinish(self) -> None:
        """Called by pytest."""
        self._to("")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        """Called by pytest."""
        before = self._context
        if fixturedef.scope != "function":
            self._to(f"{self._file}::")
        yield
        self._to(before)

    def _to(self, context: str) -> None:
        self._context = context
        self._coverage.switch_context(context)

    def found(self, whole_s: float) -> Executed:
        """After the last test."""
        self._coverage.stop()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", coverage.exceptions.CoverageWarning)  # that nothing of ours was executed
            data = self._coverage.get_data()
        lines, places = {}, {name: at for at, name in enumerate(self._seconds)}
        paths = {str(Path(file).relative_to(self._root)): file for file in data.measured_files()}
        for module, file in paths.items():
            lines[module] = {
                str(line): sorted({place for one in contexts for place in self._places(one, places)})
                for line, contexts in data.contexts_by_lineno(file).items()
            }
        digests = {path: digest_of(self._root / path) for path in (*paths, self._file)}
        return Executed(seconds=self._seconds, whole_s=whole_s, lines=lines, digests=digests)

    def _places(self, context: str, places: Mapping[str, int]) -> Collection[int]:
        if context.endswith("::"):
            return places.values()
        return [places[context]] if context in places else []


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """tests: what pytest is given; first: those of its tests that execute the line; seconds: without a fault."""

    tests: tuple[str, ...]
    first: frozenset[str]
    seconds: Mapping[str, float]


class Sorter:
    """A plugin of pytest that runs tests that execute a line before all others, and of both the quick ones first."""

    def __init__(self, chosen: Chosen) -> None:
        self._chosen = chosen
        self._spent: dict[str, float] = {}
        for name, seconds in chosen.seconds.items():
            file = name.partition("::")[0]
            self._spent[file] = self._spent.get(file, 0.0) + seconds

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Called by pytest."""
        items.sort(key=lambda item: self._place(item.nodeid))

    def _place(self, name: str) -> tuple[bool, bool, float, str, float]:
        """By file where both are alike, so that no shared fixture is made twice."""
        file, seconds = name.partition("::")[0], self._chosen.seconds.get(name, 0.0)
        return name not in self._chosen.first, seconds > QUICK_S, self._spent.get(file, 0.0), file, seconds


def choose(executed: Mapping[str, Executed], tests: Collection[str], module: str, lines: Collection[int]) -> Chosen:
    """A module's tests, and which of them execute these lines.

    The others follow, since a test may read a constant, or run the line in another process, without executing it here.
    """
    first = frozenset(name for test in tests for name in executed[test].executing(module, lines))
    seconds = {name: one for test in tests for name, one in executed[test].seconds.items()}
    return Chosen(tests=tuple(tests), first=first, seconds=seconds)


def read_executed(path: Path, root: Path) -> dict[str, Executed]:
    """What an earlier run has measured and still holds; nothing where there is no such file."""
    if not path.is_file():
        return {}
    found = {test: Executed(**one) for test, one in json.loads(path.read_text()).items()}
    return {test: one for test, one in found.items() if one.is_current(root)}


def write_executed(path: Path, executed: Mapping[str, Executed]) -> None:
    """Keep what was measured for the next run."""
    path.write_text(json.dumps({test: asdict(one) for test, one in executed.items()}))


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
