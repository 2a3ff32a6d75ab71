"""Answers of an endpoint, in one SQLite file that all processes of a machine share, with the pace and the budget."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from smoothsweep.core.errors import InputError

WAIT_S = 120.0  # for another process that writes

_TABLES = """
CREATE TABLE IF NOT EXISTS answers (digest TEXT PRIMARY KEY, answer TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS agreed (one INTEGER PRIMARY KEY CHECK (one = 1), queries INTEGER NOT NULL,
                                   per_second REAL NOT NULL, asked INTEGER NOT NULL, next REAL NOT NULL);
"""


class KeptAnswers:
    """What an endpoint has answered, and how often and how fast it may be asked. Opened anew for every look, so that
    it can be sent to other processes."""

    def __init__(self, path: Path, *, more: str = "--queries") -> None:
        """more: by what a user says that more may be asked."""
        self.path, self._more = path, more

    def agree(self, *, queries: int, per_second: float) -> None:
        """Makes the file where there is none. queries: that may be sent in all, those that were sent included."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path, timeout=WAIT_S)) as base, base:
            base.executescript(_TABLES)
            base.execute(
                "INSERT INTO agreed VALUES (1, ?, ?, 0, 0) ON CONFLICT (one) DO UPDATE SET queries = ?, per_second = ?",
                (queries, per_second, queries, per_second),
            )

    def get(self, digest: str) -> Any:
        """The answer, None for what was never answered."""
        with self._open() as base:
            row = base.execute("SELECT answer FROM answers WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else json.loads(row[0])

    def put(self, digest: str, answer: Any) -> None:
        """Keeps an answer."""
        with self._open() as base:
            base.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (digest, json.dumps(answer)))

    @property
    def asked(self) -> int:
        """How many queries were sent."""
        with self._open() as base:
            return base.execute("SELECT asked FROM agreed").fetchone()[0]

    def take_turn(self, who: str) -> None:
        """Counts a query and waits until it may be sent. Raises InputError, one line, where the budget is spent."""
        with self._open() as base:
            base.execute("BEGIN IMMEDIATE")
            row = base.execute("SELECT queries, per_second, asked, next FROM agreed").fetchone()
            queries, per_second, sent, free = row
            if sent >= queries:
                raise InputError(
                    f"{who}: expected no more than {queries} queries, got one after all were spent: what "
                    f"was answered is kept; say more with {self._more}"
                )
            turn = max(time.time(), free)
            base.execute("UPDATE agreed SET asked = asked + 1, next = ?", (turn + 1 / per_second,))
        time.sleep(max(0.0, turn - time.time()))

    def give_turn_back(self) -> None:
        """Take a query off the count that never left this machine."""
        with self._open() as base:
            base.execute("UPDATE agreed SET asked = max(0, asked - 1)")

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        if not self.path.is_file():
            raise InputError(f"{self.path}: expected an endpoint's answers, got nothing: import it again")
        with closing(sqlite3.connect(self.path, timeout=WAIT_S, isolation_level=None)) as base:
            try:
                yield base
            except BaseException:
                if base.in_transaction:
                    base.rollback()
                raise
            if base.in_transaction:
                base.commit()
