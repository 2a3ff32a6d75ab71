"""`smoothsweep report A B ... --out DIR`: the recipes of several sweeps in one table.

A row joins the table of the first sweep where data, protocol, deciding judge and attacks are the same, by digest, and
a training seed is in both: then the one rule of comparison reads them as one sweep's, with the baseline of the first.
A recipe is its trained network, and a trial that two sweeps hold counts once. Other sweeps have tables of their own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_pieces
from smoothsweep.core.judges.columns import BY_KEY, CLASS_METRICS, metric_of
from smoothsweep.core.readers.files import Members, members_of
from smoothsweep.core.readers.tables import UnreadableTable, read_columns
from smoothsweep.core.text import printable, quoted
from smoothsweep.orchestrator.commands.damage import read_with_repair
from smoothsweep.orchestrator.commands.reporting.comparison import (
    COMPARISON,
    ROWS_BY_CLASS,
    Comparison,
    comparison_of,
)
from smoothsweep.orchestrator.commands.reporting.sharing.bundle import Index, index_of
from smoothsweep.orchestrator.commands.reporting.sharing.export import gather_sweep, sweep_to_share
from smoothsweep.orchestrator.page.tables import terminal_text
from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.estimates import images_column
from smoothsweep.orchestrator.result.format import ascii_text, count, listing
from smoothsweep.orchestrator.result.rows import measured, write_rows
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of, verdict_rows

MOST_SWEEPS = 8
RESULTS, VERDICTS = "results.parquet", "verdicts.parquet"
AXES = (Axis(key="recipe", bare=True, defense=True), Axis(key="attack", role="attack", bare=True))
COLUMNS = ("trial", "seed", "status", "failure", "attack_access", "attack_control", "attack_published")
PER_CLASS = ("trial", "class", *CLASS_METRICS, *map(images_column, CLASS_METRICS))
FRONT = ("sweep", "trial", "recipe", "recipe_in_sweep", "attack")


@dataclass(frozen=True, kw_only=True)
class ComparedSweep:
    """One of the sweeps.

    Attributes:
        comparison: What it states and rests on.
        rows: A row per trial with `COLUMNS` and metrics.
        per_class: As of `ReportData`.
    """

    name: str
    comparison: Comparison
    rows: pd.DataFrame
    per_class: pd.DataFrame | None

    def data(self, names: Mapping[str, str], attacks: Mapping[str, str]) -> ReportData:
        """The sweep by itself. names, attacks: what recipes and attacks are called, by digest."""
        return _report_data(self.name, self.comparison, self.named_rows(names, attacks), self.per_class, names)

    def named_rows(self, names: Mapping[str, str], attacks: Mapping[str, str]) -> pd.DataFrame:
        notes = {note.trial: note for note in self.comparison.conditions.trials}
        recipes = [names[notes[trial].recipe] for trial in self.rows["trial"]]
        return self.rows.assign(
            recipe=recipes,
            recipe_in_sweep=[notes[trial].label for trial in self.rows["trial"]],
            attack=[attacks[notes[trial].attack] for trial in self.rows["trial"]],
            sweep=self.name,
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
    sweeps = _read_sweeps(named, location)
    names, attacks = _names(sweeps)
    first, texts = sweeps[0], [line for side in sweeps for line in _unfinished(side)]
    joined, apart = [first], []
    for side in sweeps[1:]:
        differing = _differences(first, side)
        (apart if differing else joined).append(side)
        pair = f"The recipes of {first.name} and {side.name} are"
        texts.append(f"{pair} not compared: {listing(differing)}." if differing else f"{pair} compared.")
    tables = (
        [(joined, *_joined(joined, names, attacks))] if len(joined) > 1 else [(joined, first.data(names, attacks), ())]
    )
    tables += [([side], side.data(names, attacks), ()) for side in apart]
    verdicts = []
    for sides, data, notes in tables:
        result = result_of(data, summarise(data))
        texts += [*notes, "", f"{listing(side.name for side in sides)}:", terminal_text(result)]
        found = verdict_rows(result)
        if len(found):
            held = pd.concat([side.named_rows(names, attacks)[["sweep", "recipe"]] for side in sides]).drop_duplicates()
            compared = listing(side.name for side in sides)
            verdicts.append(held.merge(found, on="recipe", how="inner").assign(compared=compared))
    results = measured(pd.concat([side.named_rows(names, attacks) for side in sweeps], ignore_index=True))
    write_rows(results[[*FRONT, *(name for name in results.columns if name not in FRONT)]], out / RESULTS)
    (out / VERDICTS).unlink(missing_ok=True)  # of an earlier report in this folder
    if verdicts:
        write_rows(pd.concat(verdicts, ignore_index=True), out / VERDICTS)
    screen.out_text("\n".join(ascii_text(text) if "\n" not in text else text for text in texts))
    screen.err(f"table: {out / RESULTS}")
    return 0


def _unfinished(side: ComparedSweep) -> Iterator[str]:
    if missing := int((side.rows["status"] != "done").sum()):
        what = f"{count(missing, 'trial')} of {len(side.rows)} {'is' if missing == 1 else 'are'} missing or failed"
        yield f"{side.name} is not finished: {what}."


def _differences(first: ComparedSweep, other: ComparedSweep) -> list[str]:
    """Why recipes of the two are not compared; empty where they are."""
    mine, theirs = first.comparison, other.comparison
    found = []
    if mine.standing.protocol != theirs.standing.protocol:
        found.append(f"the protocols differ ({mine.standing.protocol} and {theirs.standing.protocol})")
    data = [{one.digest: one.settings for one in side.conditions.data} for side in (mine, theirs)]
    if len(data[0]) > 1 or data[0].keys() != data[1].keys():
        found.append(f"the private data differ{_keys(*(next(iter(one.values())) for one in data))}")
    elif (leak := _deciding(first)) is None or leak != _deciding(other) or not _same_judge(first, other, leak):
        found.append("the deciding judge is another one")
    attacks = [_attacked_by(side) for side in (first, other)]
    if attacks[0].keys() != attacks[1].keys():
        only = [[one for digest, one in a.items() if digest not in b] for a, b in (attacks, attacks[::-1])]
        alike = [(a, b) for a in only[0] for b in only[1] if a.label == b.label]
        why = "".join(_keys(a.settings, b.settings) for a, b in alike[:1])
        found.append(f"the attacks differ{why or f' ({listing(one.label for one in [*only[0], *only[1]])})'}")
    seeds = [set(side.rows.loc[side.rows["status"] == "done", "seed"]) for side in (first, other)]
    if not seeds[0] & seeds[1]:
        found.append("no training seed is in both")
    return found


def _keys(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """` (attack.steps: 3 and 4)` of the first keys that differ."""
    keys = [key for key in dict.fromkeys((*mine, *theirs)) if mine.get(key) != theirs.get(key)]
    words = [f"{key}: {mine.get(key, 'none')} and {theirs.get(key, 'none')}"[:120] for key in keys[:3]]
    return f" ({'; '.join(words)})" if words else ""


def _deciding(side: ComparedSweep) -> str | None:
    """The leak that decides, None where none was measured."""
    ones = {note.recipe: note.label for note in side.comparison.conditions.trials}
    attacks = {digest: one.label for digest, one in side.comparison.conditions.attacks.items()}
    summary = summarise(side.data(ones, attacks))
    return None if summary.primary is None else summary.deciding


def _same_judge(first: ComparedSweep, other: ComparedSweep, metric: str) -> bool:
    """Whether one judge measured this metric in both; what no judge measures is alike wherever the data are."""
    stage = metric_of(metric).stage or ""
    mine, theirs = (
        {condition.digest for condition in side.comparison.conditions.judges.get(stage, ())} for side in (first, other)
    )
    return mine == theirs


def _attacked_by(side: ComparedSweep) -> dict[str, Any]:
    """Digest -> attack, those that recipes are compared under: no controls."""
    rows = side.rows
    controls = set(rows.loc[rows["attack_control"].astype(bool), "trial"]) if "attack_control" in rows else set()
    used = {note.attack for note in side.comparison.conditions.trials if note.trial not in controls}
    return {digest: one for digest, one in side.comparison.conditions.attacks.items() if digest in used}


def _names(sides: Sequence[ComparedSweep]) -> tuple[dict[str, str], dict[str, str]]:
    """Digest -> name of every recipe, and of every attack; a name that two of them have says the sweep too."""
    recipes: dict[str, str] = {}
    attacks: dict[str, str] = {}
    for side in sides:
        conditions = side.comparison.conditions
        for note in conditions.trials:
            for names, digest, label in (
                (recipes, note.recipe, note.label),
                (attacks, note.attack, conditions.attacks[note.attack].label),
            ):
                if digest not in names:
                    names[digest] = f"{label} ({side.name})" if label in names.values() else label
    return recipes, attacks


def _joined(
    sides: Sequence[ComparedSweep], names: Mapping[str, str], attacks: Mapping[str, str]
) -> tuple[ReportData, tuple[str, ...]]:
    """The rows of sweeps that may be compared as one sweep's, and what a reader has to know of them."""
    first, notes, frames, by_class = sides[0], [], [], []
    for side in sides:
        known = [key for key in BY_KEY if key in side.rows and side.rows[key].notna().any()]
        left_out = [] if side is first else [key for key in known if not _same_judge(first, side, key)]
        if left_out:
            labels = listing(dict.fromkeys(metric_of(key).label for key in left_out))
            notes.append(f"Of {side.name} these numbers are left out, since another judge measured them: {labels}.")
        frames.append(side.named_rows(names, attacks).assign(**dict.fromkeys(left_out, np.nan)))
        if side.per_class is not None:
            dropped = [*left_out, *map(images_column, left_out)]
            by_class.append(side.per_class.drop(columns=dropped, errors="ignore"))
        if side.comparison.standing.baseline != first.comparison.standing.baseline:
            notes.append(f"The baseline is that of {first.name}.")
    rows = pd.concat(frames, ignore_index=True)
    place = ["recipe", "attack", "seed"]
    rows = rows.assign(_open=rows["status"] != "done").sort_values("_open", kind="stable")
    once = rows.drop_duplicates(place).sort_index().drop(columns="_open").reset_index(drop=True)
    if twice := len(rows) - len(once):
        notes.append(f"{count(twice, 'trial')} {'is' if twice == 1 else 'are'} counted once: two sweeps hold the work.")
    per_class = pd.concat(by_class, ignore_index=True) if by_class else None
    if per_class is not None:
        per_class = per_class[per_class["trial"].isin(once["trial"])].drop_duplicates(["trial", "class"])
    asked = {side.comparison.standing.min_test_acc for side in sides}
    standing = first.comparison.standing.model_copy(
        update={"primary": _deciding(first), "min_test_acc": asked.pop() if len(asked) == 1 else None}
    )
    comparison = first.comparison.model_copy(update={"standing": standing})
    defenses = [note for side in sides for note in side.comparison.conditions.trials]
    title = listing(side.name for side in sides)
    return _report_data(title, comparison, once, per_class, names, defenses), tuple(dict.fromkeys(notes))


def _report_data(
    title: str,
    comparison: Comparison,
    rows: pd.DataFrame,
    per_class: pd.DataFrame | None,
    names: Mapping[str, str],
    notes: Sequence[Any] | None = None,
) -> ReportData:
    """Rows of recipes and attacks as a report has them. Raises ValueError for rows that are no results."""
    standing, own = comparison.standing, comparison.conditions.trials
    baseline = next((names[note.recipe] for note in own if note.label == standing.baseline), None)
    return ReportData(
        title=title,
        axes=AXES,
        results=rows.reset_index(drop=True),
        per_class=per_class if per_class is not None and len(per_class) else None,
        protocol=standing.protocol,
        baseline={"recipe": baseline} if baseline in set(rows["recipe"]) else {},
        min_test_acc=standing.min_test_acc,
        accuracy_margin=standing.accuracy_margin,
        primary=standing.primary,
        defenses={note.trial: note.defense for note in notes or own if note.defense},
        real_images=standing.real_images,
        people=standing.people,
        reasons={key: why for key, why in comparison.reasons.items() if key in BY_KEY},
    )


def _read_sweeps(named: Sequence[Path], location: str) -> list[ComparedSweep]:
    """The sweeps in this order; sweeps of one name are numbered. Raises InputError for what cannot be read."""
    sweeps: list[ComparedSweep] = []
    for path in named:
        side = _bundled(path) if path.suffix == ".zip" else _stored(path, location)
        if any(side.comparison.conditions.trials == other.comparison.conditions.trials for other in sweeps):
            raise InputError(f"{path}: expected sweeps that differ, got the same results twice")
        alike = sum(other.name.partition(" #")[0] == side.name for other in sweeps)
        sweeps.append(replace(side, name=f"{side.name} #{alike + 1}") if alike else side)
    return sweeps


def _stored(path: Path, location: str) -> ComparedSweep:
    loaded, trials, store = sweep_to_share(path, [], location)
    sweep, _ = read_with_repair(lambda: gather_sweep(loaded, trials, store))
    return ComparedSweep(
        name=sweep.name,
        comparison=comparison_of(trials, sweep.data, sweep.summary),
        rows=_comparable(sweep.data.results),
        per_class=sweep.data.per_class,
    )


def _comparable(results: pd.DataFrame) -> pd.DataFrame:
    rows = results[[name for name in (*COLUMNS, *BY_KEY) if name in results]].copy()
    if "failure" in rows:
        rows["failure"] = [printable(failure) if isinstance(failure, str) else None for failure in rows["failure"]]
    return rows


def _bundled(path: Path) -> ComparedSweep:
    """The sweep of a bundle, read without laying it out. Raises InputError for what is no whole bundle."""
    if not path.is_file():
        raise InputError(f"{path}: expected a bundle, got no such file")
    with members_of(path, "a bundle of smoothsweep") as members, tempfile.TemporaryDirectory() as folder:
        index, _ = index_of(members, str(path))
        for needed in (COMPARISON, RESULTS):
            if needed not in index.files:
                raise InputError(f"{path}: expected a bundle with {needed}, got one without")
        comparison = _comparison(_checked(members, COMPARISON, index, path), path)
        wanted = {RESULTS: (*COLUMNS, "phase", *BY_KEY), ROWS_BY_CLASS: PER_CLASS}
        tables = {
            name: _table(_checked(members, name, index, path), columns, Path(folder) / name, f"{path}: {name}")
            for name, columns in wanted.items()
            if name in index.files
        }
    rows = tables[RESULTS]
    if not {"trial", "seed", "status", "phase"} <= set(rows):
        raise InputError(f"{path}: {RESULTS}: expected columns trial, seed, phase and status, got others")
    rows = _comparable(rows[rows["phase"] == "sweep"])
    side = ComparedSweep(name=index.sweep, comparison=comparison, rows=rows, per_class=tables.get(ROWS_BY_CLASS))
    conditions = comparison.conditions
    unknown = sorted(set(rows["trial"]) - {note.trial for note in conditions.trials})
    unknown += sorted({note.attack for note in conditions.trials} - set(conditions.attacks))
    if unknown or not conditions.data:
        what = quoted(unknown[0]) if unknown else "the data"
        raise InputError(f"{path}: {COMPARISON}: expected every trial with its attack, got none for {what}")
    try:
        _deciding(side)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: {RESULTS}: expected results, got: {' '.join(str(error).split())[:200]}") from None
    return side


def _checked(members: Members, name: str, index: Index, path: Path) -> bytes:
    content = members.read(name)
    if sha256(content).hexdigest() != index.files[name]:
        raise InputError(f"{path}: {name}: expected the content whose digest the bundle has, got another")
    return content


def _comparison(content: bytes, path: Path) -> Comparison:
    try:
        return Comparison.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "content"
        raise InputError(f"{path}: {COMPARISON}: {quoted(key)}: {first['msg']}") from None


def _table(content: bytes, wanted: Sequence[str], place: Path, where: str) -> pd.DataFrame:
    write_pieces(place, iter([content]))
    try:
        return pd.DataFrame(dict(read_columns(place, wanted).values))
    except (UnreadableTable, InputError) as error:
        raise InputError(f"{where}: expected a table, got: {' '.join(str(error).split())[:200]}") from None
