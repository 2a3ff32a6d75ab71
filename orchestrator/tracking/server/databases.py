"""A tracking store that is a database: whether it is one that can be written, asked once and without MLflow.

MLflow itself tries a database that is away for minutes, and prints every attempt.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

PATIENCE_S = 10.0  # for another process's lock, and for a server's answer
TIMEOUTS = {  # of the drivers' own; whatever else hangs is given up by the caller
    "psycopg2": ("connect_timeout",),
    "psycopg": ("connect_timeout",),
    "pymysql": ("connect_timeout", "read_timeout"),
    "mysqldb": ("connect_timeout",),
}


def sqlite_path(uri: str) -> Path | None:
    """The file of an SQLite URI; None of another one, of none, or of a database in memory."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(uri)
    except (ArgumentError, ValueError):
        return None
    name = url.database if url.drivername.split("+")[0] == "sqlite" else None
    # An SQLite database has no host: what stands there was meant as part of the path.
    unfit = not name or url.host or name == ":memory:" or name.startswith("file:")
    return None if unfit else Path(name).absolute()


def ask_sqlite(uri: str) -> None:
    """Write to an SQLite file and take it back. Raises OSError, ValueError or sqlite3.Error if it cannot.

    A file that is not there yet is left to MLflow to make, where its folder can be written.
    """
    path = sqlite_path(uri)
    if path is None:
        raise OSError("no file, so that it would end with the run; expected sqlite:////path/mlflow.db")
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise OSError(f"no such folder: {path.parent}") from None
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise OSError(f"a folder that cannot be written: {path.parent}") from None
        return
    if not stat.S_ISREG(mode):
        raise OSError(f"{'a folder' if stat.S_ISDIR(mode) else 'no regular file'}; expected sqlite:////path/mlflow.db")
    with closing(sqlite3.connect(path, timeout=PATIENCE_S, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {version:d}")  # a write, which the lock alone does not prove
        connection.execute("ROLLBACK")


def ask_server(uri: str) -> None:
    """Log in to a database server once. Raises what SQLAlchemy and the driver raise."""
    from sqlalchemy import NullPool, create_engine
    from sqlalchemy.engine import make_url

    url = make_url(uri)
    limits: dict[str, Any] = dict.fromkeys(TIMEOUTS.get(url.get_driver_name(), ()), int(PATIENCE_S))
    create_engine(url, poolclass=NullPool, connect_args=limits).connect().close()
