"""`make nightly`: the slow tests, group after group, and what came of them with its date in docs/reliability.md.

    python -m tools.nightly [--table FILE] [--only GROUP ...]

A group that fails does not end the night. The table between the marks `<!-- nightly: begin -->` and
`<!-- nightly: end -->` is written after every group, so that an interrupted night says how far it came; groups that
were not run keep their row. Exit codes: 0 all passed; 1 something failed, or a group ran no test; 2 no table to write.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- nightly: begin -->", "<!-- nightly: end -->"
HEAD = (
    "| group | date | result | passed | failed | skipped | took |",
    "| --- | --- | --- | ---: | ---: | ---: | ---: |",
)
MOST_NAMED = 10  # failed tests of a group


@dataclass(frozen=True, kw_only=True)
class Group:
    """Slow tests that are run together. paths: from the root, with wildcards; `REST` has none, and all other files."""

    name: str
    paths: tuple[str, ...]


REST = "other slow tests"
GROUPS = (
    Group(name="audit", paths=("tests/orchestrator/commands/test_audit*.py",)),
    Group(name="rehearsal", paths=("tests/orchestrator/commands/test_rehearsal*.py",)),
    Group(name=REST, paths=()),
    Group(name="drills", paths=("tests/drills",)),
)
"""In the order in which they run: the longest last."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a group. failed: names of tests that failed or could not begin."""

    group: str
    date: str
    passed: int
    failed: tuple[str, ...]
    skipped: int
    seconds: float
    code: int

    @property
    def fine(self) -> bool:
        """Whether pytest says that tests were run and none failed."""
        return self.code == 0 and not self.failed and self.passed > 0

    @property
    def row(self) -> str:
        """A line of the table."""
        ended = "no tests were run" if not self.passed and not self.failed else f"pytest ended with {self.code}"
        names = ", ".join(f"`{name}`" for name in self.failed[:MOST_NAMED])
        more = f" and {len(self.failed) - MOST_NAMED} more" if len(self.failed) > MOST_NAMED else ""
        said = "passed" if self.fine else f"failed: {names}{more}" if names else f"failed: {ended}"
        numbers = f"{self.passed} | {len(self.failed)} | {self.skipped} | {self.seconds / 60:.0f} min"
        return f"| {self.group} | {self.date} | {said} | {numbers} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the groups and write the table. Returns the exit code."""
    options = _options(arguments)
    try:
        write_row(options.table, None)
    except (OSError, ValueError) as error:
        print(f"nightly: {error}", file=sys.stderr)
        return 2
    fine = True
    for group in GROUPS:
        if options.only and group.name not in options.only:
            continue
        print(f"nightly: {group.name}", flush=True)
        outcome = run_group(group, ROOT, options.table)
        write_row(options.table, outcome)
        print(outcome.row, flush=True)
        fine = fine and outcome.fine
    return 0 if fine else 1


def arguments_of(group: Group, root: Path) -> list[str]:
    """What pytest is given to run a group: its files; for `REST` all tests but the files of the other groups."""
    if group.paths:
        return [path.relative_to(root).as_posix() for pattern in group.paths for path in sorted(root.glob(pattern))]
    others = [name for other in GROUPS if other.paths for name in arguments_of(other, root)]
    return ["tests", *(f"--ignore={name}" for name in others)]


def run_group(group: Group, root: Path, table: Path) -> Outcome:
    """One run of pytest on the group's slow tests, one after the other."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="nightly-") as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-m", "slow", "-p", "no:cacheprovider", f"--junitxml={report}"]
        environment = {**os.environ, "DRILLS_TABLE": str(table)}
        code = subprocess.run([*command, *arguments_of(group, root)], cwd=root, env=environment, check=False).returncode
        passed, failed, skipped = counts(report)
    return Outcome(
        group=group.name,
        date=datetime.now(UTC).date().isoformat(),
        passed=passed,
        failed=failed,
        skipped=skipped,
        seconds=time.monotonic() - started,
        code=code,
    )


def counts(report: Path) -> tuple[int, tuple[str, ...], int]:
    """Tests that passed, names of those that failed, and how many were skipped; nothing where pytest left no report."""
    if not report.is_file():
        return 0, (), 0
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = [case for case in cases if case.find("skipped") is not None]
    names = tuple(dict.fromkeys(f"{case.get('classname', '')}.{case.get('name', '')}".strip(".") for case in failed))
    return len(cases) - len(failed) - len(skipped), names, len(skipped)


def write_row(path: Path, outcome: Outcome | None) -> None:
    """Put a group's row between the marks, in the place of its earlier one; None only looks whether there are marks.

    Raises ValueError where they are missing, OSError where the page cannot be read or written.
    """
    before, found, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    earlier, closed, after = rest.partition(END)
    if not (found and closed):
        raise ValueError(f"{path}: expected the marks {BEGIN} and {END}")
    if outcome is None:
        return
    rows = {line.split("|")[1].strip(): line for line in earlier.splitlines() if line.startswith("|")}
    rows[outcome.group] = outcome.row
    lines = [rows[group.name] for group in GROUPS if group.name in rows]
    path.write_text(f"{before}{BEGIN}\n" + "\n".join([*HEAD, *lines]) + f"\n{END}{after}", encoding="utf-8")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.nightly", description=__doc__.splitlines()[0])
    parser.add_argument("--table", type=Path, default=ROOT / "docs" / "reliability.md", help="the page with the marks")
    parser.add_argument("--only", nargs="+", choices=[group.name for group in GROUPS], help="these groups alone")
    options = parser.parse_args(arguments)
    options.table = options.table.resolve()
    return options


if __name__ == "__main__":
    sys.exit(main())
