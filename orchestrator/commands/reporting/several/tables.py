"""The tables of a report of several sweeps, results and verdicts, which join by sweep and recipe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from smoothsweep.orchestrator.commands.reporting.several.merging import Merged
from smoothsweep.orchestrator.commands.reporting.several.side import ComparedSweep
from smoothsweep.orchestrator.reading.leak.hiding import hiding_verdicts, verdict_frame
from smoothsweep.orchestrator.reading.numbers.format import listing
from smoothsweep.orchestrator.reading.numbers.summary import Summary
from smoothsweep.orchestrator.reading.results import measured, write_rows

FRONT = ("sweep", "trial", "recipe", "recipe_in_sweep", "attack")


def results_of(sides: Sequence[ComparedSweep], merged: Merged | None) -> pd.DataFrame:
    """A row per sweep and trial. `recipe`: the name in the comparison; `recipe_in_sweep`: the one in its own sweep."""
    tables = []
    for side in sides:
        rows, called = side.data.results, merged.recipes if merged else {}
        trials_and_recipes = zip(rows["trial"], rows["recipe"], strict=True)
        names = [called.get((side.name, trial), recipe) for trial, recipe in trials_and_recipes]
        tables.append(rows.assign(sweep=side.name, recipe_in_sweep=rows["recipe"], recipe=names))
    rows = measured(pd.concat(tables, ignore_index=True))
    return rows[[*FRONT, *(name for name in rows.columns if name not in FRONT)]]


def verdicts_of(
    results: pd.DataFrame, apart: Sequence[ComparedSweep], merged: Merged | None, summary: Summary | None
) -> pd.DataFrame:
    """A row per sweep and recipe that has a verdict. apart: the sweeps that are read by themselves; summary: of the
    others. `compared`: the sweeps whose recipes the verdict was corrected for; one that two of them hold has two rows.
    """
    tables = []
    if merged is not None and summary is not None:
        alone = {side.name for side in apart}
        held = results.loc[~results["sweep"].isin(alone), ["sweep", "recipe"]].drop_duplicates()
        tables.append(_joined(held, verdict_frame(summary, hiding_verdicts(summary))))
    for side in apart:
        held = results.loc[results["sweep"] == side.name, ["sweep", "recipe"]].drop_duplicates()
        tables.append(_joined(held, verdict_frame(side.summary, hiding_verdicts(side.summary))))
    known = [table for table in tables if len(table)]
    return pd.concat(known, ignore_index=True) if known else pd.DataFrame()


def write_tables(
    out: Path,
    sides: Sequence[ComparedSweep],
    apart: Sequence[ComparedSweep],
    merged: Merged | None,
    summary: Summary | None,
) -> None:
    """Write both; no verdicts.parquet where no recipe is compared with a baseline."""
    results = results_of(sides, merged)
    write_rows(results, out / "results.parquet")
    verdicts = verdicts_of(results, apart, merged, summary)
    if len(verdicts):
        write_rows(verdicts, out / "verdicts.parquet")
    else:
        (out / "verdicts.parquet").unlink(missing_ok=True)  # of an earlier report in this folder


def _joined(held: pd.DataFrame, verdicts: pd.DataFrame) -> pd.DataFrame:
    if not len(verdicts):
        return verdicts
    compared = listing(dict.fromkeys(held["sweep"]))
    return held.merge(verdicts, on="recipe", how="inner").assign(compared=compared)
