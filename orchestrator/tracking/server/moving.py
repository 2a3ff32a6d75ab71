"""A store that was moved or copied: MLflow notes where artifacts lie by their absolute path, and these follow it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from smoothsweep.orchestrator.tracking.server.databases import PATIENCE_S, sqlite_path

FOLDER = "mlartifacts"  # below the store
PLACES = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)  # table and column, of MLflow's schema


def artifact_folder(root: Path, experiment: str) -> Path:
    """Where the artifacts of an experiment lie, of a store at `root` on this machine."""
    return root / FOLDER / experiment


def follow(uri: str, root: Path) -> list[str]:
    """Have an SQLite database of MLflow name the artifacts of the store at `root` by where they are now.

    Returns a line for each earlier place of which the artifacts are still there and not here (the database alone was
    moved): those are left as they are. Raises sqlite3.Error.
    """
    path, left = sqlite_path(uri), []
    if path is None or not path.is_file():
        return left
    now = root.as_uri()
    with closing(sqlite3.connect(path, timeout=PATIENCE_S)) as database, database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for name, location in database.execute("SELECT name, artifact_location FROM experiments").fetchall():
            suffix = f"/{FOLDER}/{name}"
            if not (location or "").startswith("file://") or not location.endswith(suffix) or location == now + suffix:
                continue
            old = Path(url2pathname(urlsplit(location).path))
            if old.is_dir() and not artifact_folder(root, name).is_dir():
                left.append(f"MLflow: the artifacts of earlier runs of {name} are still in {old}")
                continue
            for table, column in (place for place in PLACES if place[0] in tables):  # an older MLflow has fewer
                database.execute(
                    f"UPDATE {table} SET {column} = :now || substr({column}, length(:old) + 1) "
                    f"WHERE {column} = :old OR substr({column}, 1, length(:old) + 1) = :old || '/'",
                    {"now": now + suffix, "old": location},
                )
    return left
