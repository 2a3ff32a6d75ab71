"""What the drills found, as a Markdown table; written where DRILLS_TABLE says, between two marks of that page."""

from __future__ import annotations

import os
from pathlib import Path

BEGIN, END = "<!-- drills: begin -->", "<!-- drills: end -->"
rows: list[str] = []


def add(drill: str, seconds: float, lost: list[float], note: str = "") -> None:
    """A drill that passed: how long it took, and the seconds of work that its disturbances can have cost."""
    cost = "-" if not lost else f"{sum(lost):.1f} s" if len(lost) == 1 else f"{sum(lost):.1f} s in {len(lost)}"
    rows.append(f"| {drill} | same table | {seconds:.0f} s | {cost} | {note} |")


def text(earlier: str = "") -> str:
    """The table. earlier: one whose drills stay where they were not run again."""
    head = "| drill | outcome | took | work lost | |\n| --- | --- | --- | --- | --- |\n"
    new = {_drill(row): row for row in rows}
    old = [row for row in earlier.splitlines()[2:] if row.startswith("|")]
    kept = [new.pop(_drill(row), row) for row in old]
    return head + "\n".join([*kept, *new.values()]) + "\n"


def _drill(row: str) -> str:
    return row.split("|")[1].strip()


def write() -> None:
    page = os.environ.get("DRILLS_TABLE")
    if not rows or not page:
        return
    before, _, rest = Path(page).read_text().partition(BEGIN)
    earlier, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"{page}: expected the marks {BEGIN} and {END}")
    Path(page).write_text(f"{before}{BEGIN}\n{text(earlier.strip())}{END}{after}")
