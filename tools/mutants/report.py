"""What the tests noticed, in lines and in the table of docs/reliability.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.mutants.running import UNNOTICED
from tools.mutants.targets import ROOMS

BEGIN, END = "<!-- mutants: begin -->", "<!-- mutants: end -->"


def rates(results: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    """(room, faults, noticed) for every room, and for all of them."""
    found = []
    for room in (*ROOMS, "all"):
        mine = [result for result in results if room in ("all", result["room"])]
        if mine:
            found.append((room, len(mine), sum(result["said"] != UNNOTICED for result in mine)))
    return found


def summary_lines(results: list[dict[str, Any]], seed: int, seconds: float) -> list[str]:
    """The rates, and every fault that was not noticed."""
    lines = [
        f"{room:14} {noticed} of {total} noticed ({noticed / total:.0%})" for room, total, noticed in rates(results)
    ]
    lines += [f"sample of seed {seed}, {seconds / 60:.0f} minutes", "not noticed:"]
    return lines + [
        f"  {result['module']}:{result['line']}  {result['before']}  ->  {result['after']}"
        for result in results
        if result["said"] == UNNOTICED
    ]


def write_table(path: Path, results: list[dict[str, Any]], seed: int) -> None:
    """Replace what stands between the marks. Raises ValueError where they are missing."""
    text = path.read_text()
    before, found, rest = text.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not (found and closed):
        raise ValueError(f"{path}: expected the marks {BEGIN} and {END}")
    rows = [f"| {room} | {total} | {noticed} | {noticed / total:.0%} |" for room, total, noticed in rates(results)]
    table = [f"Seed {seed}:", "", "| room | faults | noticed | share |", "| --- | ---: | ---: | ---: |", *rows]
    path.write_text(f"{before}{BEGIN}\n" + "\n".join(table) + f"\n{END}{after}")
