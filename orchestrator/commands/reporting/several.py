"""`smoothsweep report A B ... --out DIR`: the recipes of several sweeps in one table.

A row joins the table of the first sweep where data, protocol, deciding judge and attacks are the same, by digest, and
a training seed is in both: then the one rule of comparison reads them as one sweep's, with the baseline of the first.
A recipe is its trained network, and a trial that two sweeps hold counts once. Other sweeps have tables of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from pydantic import ValidationError

from smoothsweep.core import screen
from smoothsweep.core.declared import first_mistake
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.judges.columns import BY_KEY, CLASS_METRICS, metric_of
from smoothsweep.core.readers.tables import UnreadableTable, read_columns
from smoothsweep.core.text import printable, quoted
from smoothsweep.orchestrator.commands.reporting.bundle import (
    COMPARISON,
    ROWS_BY_CLASS,
    STATED,
    Conditions,
    conditions_of,
    opened_bundle,
)
from smoothsweep.orchestrator.commands.reporting.report import gather_sweep, sweep_to_share
from smoothsweep.orchestrator.page.tables import terminal_text
from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.estimates import images_column
from smoothsweep.orchestrator.result.format import ascii_text, count, listing
from smoothsweep.orchestrator.result.rows import measured, write_rows
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of, verdict_rows
from smoothsweep.orchestrator.store.notes import read_with_repair

MOST_SWEEPS = 8
RESULTS, VERDICTS = "results.parquet", "verdicts.parquet"
AXES = (Axis(key="recipe", bare=True, defense=True), Axis(key="attack", role="attack", bare=True))
COLUMNS = ("trial", "seed", "status", "failure", "attack_access", "attack_control", "attack_published")
PER_CLASS = ("trial", "class", *CLASS_METRICS, *map(images_column, CLASS_METRICS))
FRONT = ("sweep", "trial", "recipe", "recipe_in_sweep", "attack")
DIGESTS = {"recipe": "recipe_digest", "label": "recipe_in_sweep", "attack": "attack_digest"}
"""Field of a trial's note -> its column beside the results, where that is another."""


@dataclass(frozen=True, kw_only=True)
class ComparedSweep:
    """One of the sweeps.

    Attributes:
        rows: A row per trial with `COLUMNS`, metrics, what each rests on (`DIGESTS`, `attack_label`, `data`, `judges`,
            `defense`), and once all are read `FRONT`.
        per_class: As of `ReportData`.
    """

    name: str
    conditions: Conditions
    rows: pd.DataFrame
    per_class: pd.DataFrame | None

    @property
    def done(self) -> pd.DataFrame:
        """The finished rows."""
        return self.rows[self.rows["status"] == "done"]

    @property
    def attacks(self) -> dict[str, str]:
        """Digest -> name, of those that recipes are compared under: no controls."""
        rows = self.rows[~self.rows["attack_control"].astype(bool)] if "attack_control" in self.rows else self.rows
        return dict(zip(rows["attack_digest"], rows["attack_label"], strict=True))

    def judges(self, metric: str) -> set[str]:
        """Digests of the judges that measured this metric; empty for what no judge measures."""
        stage = metric_of(metric).stage
        return {judges[stage] for judges in self.rows["judges"] if stage in judges}

    @cached_property
    def deciding(self) -> str | None:
        """The leak that decides, None where none was measured."""
        return summarise(self.data).primary

    @property
    def data(self) -> ReportData:
        """The rows as a report has them. Raises ValueError for rows that are no results."""
        stated, rows = self.conditions, self.rows.reset_index(drop=True)
        baselines = [note.recipe for note in stated.trials if note.label == stated.baseline]
        named = rows.loc[rows["recipe_digest"].isin(baselines), "recipe"]
        return ReportData(
            **{name: getattr(stated, name) for name in STATED},
            title=self.name,
            axes=AXES,
            results=rows,
            per_class=self.per_class if self.per_class is not None and len(self.per_class) else None,
            baseline={"recipe": named.iloc[0]} if len(named) else {},
            defenses={trial: defense for trial, defense in zip(rows["trial"], rows["defense"], strict=True) if defense},
            reasons={key: why for key, why in stated.reasons.items() if key in BY_KEY},
        )


def report_several(named: Sequence[Path], overrides: list[str], location: str, out: Path | None) -> int:
    """Write results.parquet and verdicts.parquet into `out`, print the table. Returns the exit code.

    Raises InputError before anything is written.
    """
    if overrides:
        raise InputError(f"--set: expected one sweep file beside it, got {len(named)} sweeps")
    if out is None:
        raise InputError(f"--out: expected a folder for the table of {len(named)} sweeps, got none")
    if len(named) > MOST_SWEEPS:
        raise InputError(f"report: expected at most {MOST_SWEEPS} sweeps, got {len(named)}")
    if others := sorted(path.name for path in out.glob("*") if path.name not in (RESULTS, VERDICTS)):
        raise InputError(f"--out {out}: expected a new or empty folder, got one that holds {others[0]}")
    first, *others = sweeps = _read_sweeps(named, location)
    texts, joined, apart = [], [first], []
    for side in sweeps:
        if missing := len(side.rows) - len(side.done):
            what = f"{count(missing, 'trial')} of {len(side.rows)} {'is' if missing == 1 else 'are'} missing or failed"
            texts.append(f"{side.name} is not finished: {what}.")
    for side in others:
        differing = _differences(first, side)
        (apart if differing else joined).append(side)
        pair = f"The recipes of {first.name} and {side.name} are"
        texts.append(f"{pair} not compared: {listing(differing)}." if differing else f"{pair} compared.")
    verdicts = []
    for sides in (joined, *([side] for side in apart)):
        together, notes = _joined(sides) if len(sides) > 1 else (sides[0], ())
        data = together.data
        result = result_of(data)
        texts += [*notes, "", f"{together.name}:", terminal_text(result)]
        held = pd.concat([side.rows[["sweep", "recipe"]] for side in sides]).drop_duplicates()
        verdicts.append(held.merge(verdict_rows(result), on="recipe", how="inner").assign(compared=together.name))
    results = pd.concat([side.rows for side in sweeps], ignore_index=True)
    known = [name for name in (*FRONT, *COLUMNS, *BY_KEY) if name in results]
    write_rows(measured(results[list(dict.fromkeys(known))]), out / RESULTS)
    (out / VERDICTS).unlink(missing_ok=True)  # of an earlier report in this folder
    if any(map(len, verdicts)):
        write_rows(pd.concat([found for found in verdicts if len(found)], ignore_index=True), out / VERDICTS)
    screen.out_text("\n".join(ascii_text(text) if "\n" not in text else text for text in texts))
    screen.err(f"table: {out / RESULTS}")
    return 0


def _differences(first: ComparedSweep, other: ComparedSweep) -> list[str]:
    """Why recipes of the two are not compared; empty where they are."""
    sides, found = (first, other), []
    protocols = [side.conditions.protocol for side in sides]
    if protocols[0] != protocols[1]:
        found.append(f"the protocols differ ({listing(protocols)})")
    data = [set(side.rows["data"]) for side in sides]
    if len(data[0] | data[1]) > 1:
        found.append(f"the private data differ{_keys(*sides, *map(min, data))}")
    elif (leak := first.deciding) is None or leak != other.deciding or first.judges(leak) != other.judges(leak):
        found.append("the deciding judge is another one")
    mine, theirs = (side.attacks for side in sides)
    if mine.keys() != theirs.keys():
        only = [{key: one[key] for key in one if key not in there} for one, there in ((mine, theirs), (theirs, mine))]
        alike = [(a, b) for a, name in only[0].items() for b, label in only[1].items() if name == label]
        why = "".join(_keys(*sides, *pair) for pair in alike[:1])
        found.append(f"the attacks differ{why or f' ({listing([*only[0].values(), *only[1].values()])})'}")
    if not set(first.done["seed"]) & set(other.done["seed"]):
        found.append("no training seed is in both")
    return found


def _keys(first: ComparedSweep, other: ComparedSweep, mine: str, theirs: str) -> str:
    """` (attack.steps: 3 and 4)`: the first keys in which what has these digests differs."""
    pair = [side.conditions.settings.get(digest, {}) for side, digest in ((first, mine), (other, theirs))]
    keys = [key for key in dict.fromkeys((*pair[0], *pair[1])) if pair[0].get(key) != pair[1].get(key)]
    words = [f"{key}: {' and '.join(str(one.get(key, 'none')) for one in pair)}"[:120] for key in keys[:3]]
    return f" ({'; '.join(words)})" if words else ""


def _joined(sides: Sequence[ComparedSweep]) -> tuple[ComparedSweep, tuple[str, ...]]:
    """The rows of sweeps that may be compared as one sweep's, and what a reader has to know of them."""
    first, notes, frames, by_class = sides[0], [], [], []
    for side in sides:
        known = [key for key in BY_KEY if key in side.rows and side.rows[key].notna().any()]
        left_out = [key for key in known if side.judges(key) != first.judges(key)]
        if left_out:
            labels = listing(dict.fromkeys(metric_of(key).label for key in left_out))
            notes.append(f"Of {side.name} these numbers are left out, since another judge measured them: {labels}.")
        frames.append(side.rows.assign(**dict.fromkeys(left_out, np.nan)))
        if side.per_class is not None:
            dropped = [*left_out, *map(images_column, left_out)]
            by_class.append(side.per_class.drop(columns=dropped, errors="ignore"))
        if side.conditions.baseline != first.conditions.baseline:
            notes.append(f"The baseline is that of {first.name}.")
    rows = pd.concat(frames, ignore_index=True)
    finished_first = rows.sort_values("status", key=lambda status: status != "done", kind="stable")
    once = finished_first.drop_duplicates(["recipe", "attack", "seed"]).sort_index()
    if twice := len(rows) - len(once):
        notes.append(f"{count(twice, 'trial')} {'is' if twice == 1 else 'are'} counted once: two sweeps hold the work.")
    per_class = pd.concat(by_class, ignore_index=True) if by_class else None
    if per_class is not None:
        per_class = per_class[per_class["trial"].isin(once["trial"])].drop_duplicates(["trial", "class"])
    asked = {side.conditions.min_test_acc for side in sides}
    stated = {"primary": first.deciding, "min_test_acc": asked.pop() if len(asked) == 1 else None}
    conditions = first.conditions.model_copy(update=stated)
    title = listing(side.name for side in sides)
    together = ComparedSweep(name=title, conditions=conditions, rows=once, per_class=per_class)
    return together, tuple(dict.fromkeys(notes))


def _read_sweeps(named: Sequence[Path], location: str) -> list[ComparedSweep]:
    """The sweeps in this order; sweeps of one name are numbered. Raises InputError for what cannot be read."""
    sweeps: list[ComparedSweep] = []
    for path in named:
        if path.suffix == ".zip":
            side = _bundled(path)
        else:
            loaded, trials, store = sweep_to_share(path, [], location)
            sweep, _ = read_with_repair(partial(gather_sweep, loaded, trials, store))
            side = _compared(sweep.name, conditions_of(sweep), sweep.data.results, sweep.data.per_class)
        if any(side.conditions.trials == other.conditions.trials for other in sweeps):
            raise InputError(f"{path}: expected sweeps that differ, got the same results twice")
        alike = sum(other.name.partition(" #")[0] == side.name for other in sweeps)
        sweeps.append(replace(side, name=f"{side.name} #{alike + 1}") if alike else side)
    every = pd.concat([side.rows.assign(sweep=side.name) for side in sweeps], ignore_index=True)
    for name, label in (("recipe", "recipe_in_sweep"), ("attack", "attack_label")):
        once = every.drop_duplicates(f"{name}_digest")
        # Of two that are called the same the second says its sweep.
        names = once[label].where(~once.duplicated(label), once[label] + " (" + once["sweep"] + ")")
        every[name] = every[f"{name}_digest"].map(dict(zip(once[f"{name}_digest"], names, strict=True)))
    return [replace(side, rows=every[every["sweep"] == side.name].dropna(axis=1, how="all")) for side in sweeps]


def _compared(name: str, said: Conditions, results: pd.DataFrame, per_class: pd.DataFrame | None) -> ComparedSweep:
    rows = results[[column for column in (*COLUMNS, *BY_KEY) if column in results]].copy()
    if "failure" in rows:
        rows["failure"] = [printable(failure) if isinstance(failure, str) else None for failure in rows["failure"]]
    notes = pd.DataFrame([note.model_dump() for note in said.trials]).rename(columns=DIGESTS)
    return ComparedSweep(name=name, conditions=said, rows=rows.merge(notes, on="trial"), per_class=per_class)


def _bundled(path: Path) -> ComparedSweep:
    """The sweep of a bundle, read without laying it out. Raises InputError for what is no whole bundle."""
    wanted, tables = {RESULTS: (*COLUMNS, "phase", *BY_KEY), ROWS_BY_CLASS: PER_CLASS}, {}
    with opened_bundle(path) as opened, TemporaryDirectory() as folder:
        try:
            conditions = Conditions.model_validate_json(opened.read(COMPARISON))
        except ValidationError as error:
            raise InputError(f"{path}: {COMPARISON}: {first_mistake(error)}") from None
        for name, columns in wanted.items():
            if name == RESULTS or name in opened.index.files:
                place = Path(folder) / name
                write_file(place, opened.read(name), flush=False)
                try:
                    tables[name] = pd.DataFrame(dict(read_columns(place, columns).values))
                except (UnreadableTable, InputError) as error:
                    why = " ".join(str(error).split())[:200]
                    raise InputError(f"{path}: {name}: expected a table, got: {why}") from None
    rows = tables[RESULTS]
    if not {"trial", "seed", "status", "phase"} <= set(rows):
        raise InputError(f"{path}: {RESULTS}: expected columns trial, seed, phase and status, got others")
    rows = rows[rows["phase"] == "sweep"]
    if unknown := sorted(set(rows["trial"]) - {note.trial for note in conditions.trials}):
        raise InputError(f"{path}: {COMPARISON}: expected every trial, got none for {quoted(unknown[0])}")
    side = _compared(opened.index.sweep, conditions, rows, tables.get(ROWS_BY_CLASS))
    try:
        whole = side.rows.assign(sweep=side.name, recipe=side.rows["recipe_digest"], attack=side.rows["attack_digest"])
        _ = replace(side, rows=whole).deciding
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: {RESULTS}: expected results, got: {' '.join(str(error).split())[:200]}") from None
    return side
