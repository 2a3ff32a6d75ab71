"""Where the sweeps of a report come from: sweep files with the store, and colleagues' bundles."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pandas as pd
from pydantic import ValidationError

from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_pieces
from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.readers.archives import Members, members_of
from smoothsweep.core.readers.parquet import UnreadableTable, read_columns
from smoothsweep.core.text import quoted
from smoothsweep.orchestrator.commands.damage import read_with_repair
from smoothsweep.orchestrator.commands.reporting.comparable.comparison import (
    COMPARISON,
    ROWS_BY_CLASS,
    Comparison,
    compared,
    comparison_of,
)
from smoothsweep.orchestrator.commands.reporting.several.side import COLUMNS, PER_CLASS, ComparedSweep, comparable_rows
from smoothsweep.orchestrator.commands.reporting.sharing import contents
from smoothsweep.orchestrator.commands.reporting.sharing.archive import Index, index_of
from smoothsweep.orchestrator.commands.reporting.sharing.export import sweep_to_share
from smoothsweep.orchestrator.reading.results import relative_links
from smoothsweep.sweeps.loaded import as_inversion

RESULTS = "results.parquet"


def read_sweeps(named: Sequence[Path], location: str, out: Path) -> list[ComparedSweep]:
    """The sweeps by their names, in this order; sweeps of one name are numbered. out: where the report goes.

    Raises InputError for what cannot be read, and for one sweep named twice.
    """
    sweeps: list[ComparedSweep] = []
    for path in named:
        side = _bundled(path) if path.suffix == ".zip" else _stored(path, location, out)
        if any(same_rows(side, other) for other in sweeps):
            raise InputError(f"{path}: expected sweeps that differ, got the same results twice")
        alike = sum(other.name.partition(" #")[0] == side.name for other in sweeps)
        sweeps.append(replace(side, name=f"{side.name} #{alike + 1}") if alike else side)
    return sweeps


def same_rows(first: ComparedSweep, other: ComparedSweep) -> bool:
    """Whether two sides are the same trials under the same names."""
    return first.conditions.trials == other.conditions.trials


def _stored(path: Path, location: str, out: Path) -> ComparedSweep:
    loaded, trials, store = sweep_to_share(path, [], location)
    sweep, _ = read_with_repair(lambda: contents.gather_sweep(loaded, trials, store))
    page = store.sweep_folder(sweep.name) / "report.html"
    links = {
        trial.id: relative_links(trial, store, out, workers=float(as_inversion(trial.settings).recipe.workers))
        for trial in compared(trials)
    }
    return ComparedSweep(
        name=sweep.name,
        source=str(path),
        comparison=comparison_of(trials, sweep.data, sweep.summary),
        rows=comparable_rows(sweep.data.results),
        per_class=sweep.data.per_class,
        links=links,
        page=Path(os.path.relpath(page, out)).as_posix() if page.is_file() else None,
    )


def _bundled(path: Path) -> ComparedSweep:
    """The sweep of a bundle, read without laying it out. Raises InputError for what is no whole bundle."""
    if not path.is_file():
        raise InputError(f"{path}: expected a bundle, got no such file")
    with members_of(path, "a bundle of smoothsweep") as members, tempfile.TemporaryDirectory() as folder:
        index, _ = index_of(members, str(path))
        for needed in (COMPARISON, RESULTS):
            if needed not in index.files:
                remedy = "smoothsweep bundle of this version writes it"
                raise InputError(f"{path}: expected a bundle with {needed}, got one without ({remedy})")
        comparison = _comparison(_checked(members, COMPARISON, index, path), path)
        held = [name for name in (RESULTS, ROWS_BY_CLASS) if name in index.files]
        tables = {name: _table(members, name, index, path, Path(folder)) for name in held}
    rows = tables[RESULTS]
    if "phase" not in rows or not {"trial", "seed", "status"} <= set(rows):
        raise InputError(f"{path}: {RESULTS}: expected columns trial, seed, phase and status, got others")
    side = ComparedSweep(
        name=index.sweep,
        source=str(path),
        comparison=comparison,
        rows=comparable_rows(rows[rows["phase"] == "sweep"]),
        per_class=tables.get(ROWS_BY_CLASS),
    )
    _check(side, path)
    return side


def _check(side: ComparedSweep, path: Path) -> None:
    """Raise InputError for rows that do not belong to the conditions, or are no results."""
    notes = {note.trial: note for note in side.conditions.trials}
    unknown = [trial for trial in side.rows["trial"] if trial not in notes]
    unknown += [note.attack for note in notes.values() if note.attack not in side.conditions.attacks]
    if unknown:
        raise InputError(
            f"{path}: {COMPARISON}: expected every trial with its attack, got none for {quoted(unknown[0])}"
        )
    try:
        _ = side.summary
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: {RESULTS}: expected results, got: {' '.join(str(error).split())[:200]}") from None


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


def _table(members: Members, name: str, index: Index, path: Path, folder: Path) -> pd.DataFrame:
    place, wanted = folder / name, (*COLUMNS, "phase", *BY_KEY) if name == RESULTS else PER_CLASS
    write_pieces(place, iter([_checked(members, name, index, path)]))
    try:
        return pd.DataFrame(dict(read_columns(place, wanted).values))
    except (UnreadableTable, InputError) as error:
        raise InputError(f"{path}: {name}: expected a table, got: {' '.join(str(error).split())[:200]}") from None
