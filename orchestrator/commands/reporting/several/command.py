"""`smoothsweep report A B`: several sweeps in one report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.commands.reporting.several.merging import merged
from smoothsweep.orchestrator.commands.reporting.several.page import Several, write_several
from smoothsweep.orchestrator.commands.reporting.several.pairing import pair_sweeps
from smoothsweep.orchestrator.commands.reporting.several.sources import read_sweeps

MOST_SWEEPS = 8
"""Most sweeps in one report: more tables side by side are not read."""
OWN = ("report.html", "results.parquet", "verdicts.parquet", "figures")
"""What a folder of such a report holds; another file in it is not ours."""


def report_several(named: Sequence[Path], overrides: list[str], location: str, out: Path | None) -> int:
    """Write the report into `out`. Returns the exit code; raises InputError before anything is written."""
    if overrides:
        raise InputError(f"--set: expected one sweep file beside it, got {len(named)} sweeps")
    if out is None:
        raise InputError(f"--out: expected a folder for the report of {len(named)} sweeps, got none")
    if len(named) > MOST_SWEEPS:
        raise InputError(f"report: expected at most {MOST_SWEEPS} sweeps, got {len(named)}")
    _refuse_place(out)
    sweeps = read_sweeps(named, location, out)
    pairings = [pair_sweeps(sweeps[0], other) for other in sweeps[1:]]
    alike = [sweeps[0], *(side for side, pairing in zip(sweeps[1:], pairings, strict=True) if pairing.compared)]
    several = Several(sides=sweeps, pairings=pairings, merged=merged(alike) if len(alike) > 1 else None)
    text, page = write_several(several, out)
    screen.out_text(text)
    screen.err(f"report: {page}")
    return 0


def _refuse_place(out: Path) -> None:
    """Raise InputError for a place that holds something else than an earlier report."""
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out}: expected a folder, got a file")
    others = sorted(path.name for path in out.iterdir() if path.name not in OWN) if out.is_dir() else []
    if others:
        raise InputError(
            f"--out {out}: expected a new folder or one of an earlier report, got one that holds {others[0]}"
        )
