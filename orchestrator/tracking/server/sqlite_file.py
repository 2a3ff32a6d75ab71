"""An SQLite database of MLflow: made whole or not at all, brought to MLflow's schema, set aside where it is unreadable.

MLflow makes and upgrades its tables in place, in many steps: killed between two of them it leaves a file that it
refuses ever after. Here every such change happens to a copy, which then takes the file's name.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from smoothsweep.core.files import move, write_file
from smoothsweep.orchestrator.store.base import aside_name, report_damage
from smoothsweep.orchestrator.tracking.server.databases import PATIENCE_S
from smoothsweep.orchestrator.tracking.server.scratch import scratch

BESIDE = ("-journal", "-wal", "-shm")  # SQLite's own: of an unfinished write, and worse than useless to another file
UNREADABLE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class NewerSchema(Exception):
    """The tables are those of a later MLflow."""


def prepare(path: Path, *, ours: bool) -> None:
    """Make the database at `path` where there is none. ours: also upgrade its tables, and set it aside where it is
    unreadable, for all that it holds is in the store; the database of another is left to MLflow.

    Raises OSError, sqlite3.Error or NewerSchema. What is no plain file, or lies in a folder that cannot be written, is
    left to the code that opens it.
    """
    if not os.access(path.parent, os.W_OK | os.X_OK) or (path.exists() and not path.is_file()):
        return
    if not path.exists() or not path.stat().st_size:
        _set_aside(path, there=False)
        _put(path, _initialised)
        return
    if not ours:
        return
    damage = _damage(path) or (_lacking(path) if _is_of_ours(path) else _upgraded(path))
    if damage is not None:
        place = _set_aside(path)
        report_damage(
            f"MLflow: {path} is damaged ({damage}); it is set aside as {place.name}, and each sweep of the store is "
            "recorded anew when it is run again"
        )
        _put(path, _initialised)


def _damage(path: Path) -> str | None:
    """Why SQLite cannot read the file, None where it can. Raises sqlite3.Error where it is merely locked."""
    try:
        with closing(sqlite3.connect(path, timeout=PATIENCE_S)) as database:
            (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code is None or code & 0xFF not in UNREADABLE:
            raise
        return str(error)
    return None if verdict == "ok" else " ".join(verdict.split())[:100]


def _is_of_ours(path: Path) -> bool:
    """Whether the tables say that they are those of this MLflow."""
    from mlflow.store.db.utils import _get_latest_schema_revision

    with closing(sqlite3.connect(path, timeout=PATIENCE_S)) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone():
            return False
        return database.execute("SELECT * FROM alembic_version").fetchall() == [(_get_latest_schema_revision(),)]


def _lacking(path: Path) -> str | None:
    """What tables of this MLflow's version lack, None for nothing."""
    from mlflow.store.db.base_sql_model import Base

    with closing(sqlite3.connect(path, timeout=PATIENCE_S)) as database:
        for name, table in Base.metadata.tables.items():
            known = {row[1] for row in database.execute(f'PRAGMA table_xinfo("{name}")')}  # computed columns too
            if missing := {column.name for column in table.columns} - known:
                return f"table {name} lacks {', '.join(sorted(missing))}"[:100]
    return None


def _upgraded(path: Path) -> str | None:
    """Upgrade a copy, which takes the file's place, and keep the old file beside it. Returns why it cannot, if so."""
    from alembic.util.exc import CommandError

    def upgrade(copy: Path) -> None:
        with closing(sqlite3.connect(path, timeout=PATIENCE_S)) as old, closing(sqlite3.connect(copy)) as new:
            old.backup(new)
        _initialised(copy)
        if not _is_of_ours(copy) or _lacking(copy):
            raise ValueError(_lacking(copy) or "no version of their own")

    def keep() -> None:
        write_file(path.with_name(aside_name(path.name).replace(".damaged-", ".before-upgrade-")), path.read_bytes())

    try:
        _put(path, upgrade, before=keep)
    except (OSError, NewerSchema):
        raise
    except CommandError as error:
        if "Can't locate revision" in str(error):
            raise NewerSchema("tables of a later MLflow than ours; upgrade MLflow, or name another place") from None
        return _line(error)
    except Exception as error:  # of any step of any migration: SQLAlchemy's, SQLite's, Python's own
        return _line(error)
    return None


def _initialised(path: Path) -> None:
    """Make or upgrade MLflow's tables in this file, which no other process has open and which is flushed once whole."""
    from mlflow.store.db import utils
    from sqlalchemy import event

    engine: Any = utils.create_sqlalchemy_engine(f"sqlite:///{path}")
    event.listen(engine, "connect", _without_waiting)
    try:
        utils._initialize_tables(engine)
    finally:
        engine.dispose()


def _without_waiting(database: sqlite3.Connection, _: Any) -> None:
    """Hundreds of small steps, each of which would wait for the disk: a power failure leaves `path` as it was."""
    database.execute("PRAGMA synchronous = OFF")
    database.execute("PRAGMA journal_mode = MEMORY")


def _put(path: Path, make: Callable[[Path], None], before: Callable[[], None] = lambda: None) -> None:
    """Have `make` write a database elsewhere, then let it take its place as one file, readable as the umask says."""
    with scratch() as folder:
        made = folder / "made.db"
        make(made)
        before()
        write_file(path, made.read_bytes())


def _set_aside(path: Path, *, there: bool = True) -> Path:
    """Rename the file, and first what SQLite left beside it, which would be taken for a new file's."""
    place = path.with_name(aside_name(path.name))
    for suffix in BESIDE:
        companion = path.with_name(path.name + suffix)
        if companion.exists():
            move(companion, place.with_name(place.name + suffix))
    if there:
        move(path, place)
    return place


def _line(error: Exception) -> str:
    return f"half-made tables: {' '.join(str(error).split())[:100]}"
