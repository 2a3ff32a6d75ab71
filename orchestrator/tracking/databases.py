"""A tracking store that is a database: whether it is one that can be written, asked once and without MLflow.

MLflow itself tries a database that is away for minutes, and prints every attempt.
"""

from __future__ import annotations

import os
import sqlite3
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
    """The file of an SQLite URI; None of another one, or of a database in memory."""
    from sqlalchemy.engine import make_url

    if not uri.startswith("sqlite"):
        return None
    name = make_url(uri).database
    return None if not name or name == ":memory:" or name.startswith("file:") else Path(name).absolute()


def ask_sqlite(uri: str) -> None:
    """Take the write lock of an SQLite file for a moment. Raises OSError or sqlite3.Error where that cannot be had.

    A file that is not there yet is left to MLflow to make, where its folder can be written.
    """
    path = sqlite_path(uri)
    if path is None:
        raise OSError("a database in memory, which ends with the run; expected a file (sqlite:////path/mlflow.db)")
    if path.is_dir():
        raise OSError("a folder; expected a file (sqlite:////path/mlflow.db)")
    if not path.exists():
        if not path.parent.is_dir():
            raise OSError(f"no such folder: {path.parent}")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise OSError(f"a folder that cannot be written: {path.parent}")
        return
    if not path.is_file():
        raise OSError("neither a file nor a folder")
    connection = sqlite3.connect(path, timeout=PATIENCE_S, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    finally:
        connection.close()


def ask_server(uri: str) -> None:
    """Log in to a database server once. Raises what SQLAlchemy and the driver raise."""
    from sqlalchemy import NullPool, create_engine
    from sqlalchemy.engine import make_url

    url = make_url(uri)
    limits: dict[str, Any] = dict.fromkeys(TIMEOUTS.get(url.get_driver_name(), ()), int(PATIENCE_S))
    create_engine(url, poolclass=NullPool, connect_args=limits).connect().close()
