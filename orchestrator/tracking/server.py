"""The tracking server or database: connecting with a deadline, making databases whole, finding moved artifacts, and
the runs that it has, each found again by a fingerprint among its tags."""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from smoothsweep.core.deadline import run_within
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import move, write_file
from smoothsweep.core.uris import ambiguity, shown_uri, without_secrets
from smoothsweep.orchestrator.store.base import Store, aside_name, report_damage
from smoothsweep.orchestrator.store.manifests import cache_folder, locked


@contextmanager
def scratch() -> Generator[Path]:
    """A folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="smoothsweep-record-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


PATIENCE_S = 10.0  # for another process's lock
BESIDE = ("-journal", "-wal", "-shm")  # SQLite's own: of an unfinished write, and worse than useless to another file
UNREADABLE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


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


def prepare(path: Path, *, ours: bool) -> None:
    """Make the database at `path` where there is none, and where ours is unreadable, which is then set aside: all that
    it holds is in the store.

    MLflow makes its tables in place, in many steps: killed between two of them it leaves a file that it refuses ever
    after. Here it makes them under another name, and the file is put in place whole.

    Raises OSError or sqlite3.Error. What is no plain file, or lies in a folder that cannot be written, is left to the
    code that opens it, as are the unreadable database of another and the tables of another MLflow.
    """
    exists = path.exists()
    is_there = exists and path.stat().st_size > 0
    if (exists and not path.is_file()) or not os.access(path.parent, os.W_OK | os.X_OK):
        return
    damage = _damage(path) if is_there and ours else None
    if is_there and damage is None:
        return
    with scratch() as folder:
        _initialise(folder / "made.db")
        aside = path.with_name(aside_name(path.name))
        for suffix in (*BESIDE, ""):  # first what SQLite left beside it, which would be taken for the new file's
            there = path.with_name(path.name + suffix)
            if there.exists() and (suffix or is_there):
                move(there, aside.with_name(aside.name + suffix))
        if damage:
            report_damage(
                f"MLflow: {path} is damaged ({damage}); it is set aside as {aside.name}, and each sweep of the store "
                "is recorded anew when it is run again"
            )
        write_file(path, (folder / "made.db").read_bytes())


def _damage(path: Path) -> str | None:
    """Why no SQLite reads this file; None where one does. Raises sqlite3.Error where another process holds it."""
    try:
        with closing(sqlite3.connect(path, timeout=PATIENCE_S)) as database:
            (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in UNREADABLE:
            raise
        verdict = str(error)
    return None if verdict == "ok" else " ".join(verdict.split())[:100]


def _initialise(path: Path) -> None:
    """Make MLflow's tables in this file, which no other process has open and which is flushed once whole."""
    from mlflow.store.db import utils
    from sqlalchemy import event

    engine: Any = utils.create_sqlalchemy_engine(f"sqlite:///{path}")
    # Hundreds of small steps, each of which would wait for the disk: a power failure leaves what is there as it was.
    for setting in ("synchronous = OFF", "journal_mode = MEMORY"):
        event.listen(engine, "connect", lambda database, _, setting=setting: database.execute(f"PRAGMA {setting}"))
    try:
        utils._initialize_tables(engine)
    finally:
        engine.dispose()


SETTINGS = {  # of MLflow's client; a user's own settings stay
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",  # seconds; a server that is away costs the recorder seconds, not the sweep
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # a run that seemed lost must be looked up, not created again
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "PGCONNECT_TIMEOUT": "10",  # seconds, of libpq, for whenever MLflow connects anew
}
PROBE_S = 10  # for the first answer of a server
OPEN_S = 240  # for MLflow to make or upgrade the tables of a database, after another driver that does so
DATABASES = ("postgresql", "mysql", "mssql")
CREDENTIALS = "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD (or MLFLOW_TRACKING_TOKEN)"
TALKATIVE = ("mlflow", "alembic", "sqlalchemy", "urllib3")  # muted: each failure becomes one line here
SYSTEMS_WORDS = re.compile(
    r"\((?:[\w.]+\.)?\w*(?:Error|Exception)\) (.+?)(?: \[SQL: | \(Background on this error|$)|"
    r"\[Errno -?\d+\] ([\w ]+)|(Read timed out)"
)
"""What a driver, or the operating system, said, within MLflow's words around it."""


def local_uri(store: Store) -> str:
    """The tracking store of one machine: SQLite beside the artifacts."""
    return f"sqlite:///{store.root / 'mlflow.db'}"


def tracking_errors() -> tuple[type[Exception], ...]:
    """What MLflow raises when it cannot be reached or refuses a write."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError  # MlflowException wraps it nearly everywhere

    return (MlflowException, SQLAlchemyError, sqlite3.Error)


def error_line(error: BaseException, uri: str) -> str:
    """An error as one line without SQL statement, traceback or password, at most 300 characters."""
    words = " ".join(without_secrets(str(error), uri).split()) or type(error).__name__
    said = SYSTEMS_WORDS.search(words)
    path = sqlite_path(uri)
    if path is not None and said is not None and not path.exists():
        return f"{path} is no longer there"
    return (next(filter(None, said.groups())) if said else words)[:300]


@contextmanager
def refusals(uri: str) -> Generator[None]:
    """Raise errors of the tracking store in this block as an InputError of one line."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # MLflow, SQLAlchemy, any driver or the system may raise here: the user chooses the URI
        reason = error_line(error, uri)[:200]
        raise InputError(f"--tracking-uri {shown_uri(uri)}: expected an MLflow tracking store, got: {reason}") from None


def connect(uri: str, *, ours: bool = False) -> Any:
    """A client that has reached the tracking store once.

    ours: the URI is `local_uri` of a store, from which an unreadable database is rebuilt. Raises InputError, within
    seconds, where no tracking store answers at the URI.
    """
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    with refusals(uri):
        if unclear := ambiguity(uri):
            raise ValueError(unclear)
        import mlflow  # noqa: F401 - here, so that what follows waits for the network alone

        for name in TALKATIVE:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        return run_within(OPEN_S, lambda: _opened(uri, ours))


def _opened(uri: str, ours: bool) -> Any:
    """The client, alone with an SQLite file: MLflow makes and upgrades its tables without a lock, and the second of two
    drivers that begin at once would fail in the middle."""
    from mlflow import MlflowClient

    path = sqlite_path(uri)
    lock = None if path is None else f"mlflow-{sha256(str(path.resolve()).encode()).hexdigest()[:16]}"
    with nullcontext() if lock is None else locked(cache_folder(), lock):
        if path is not None:
            prepare(path, ours=ours)
        run_within(2 * PROBE_S, lambda: _probe(uri))
        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        client.search_experiments(max_results=1)
        return client


def _probe(uri: str) -> None:
    """Check once that a server, a database or a folder answers at the URI; `refusals` rewords the errors."""
    if not uri:
        raise ValueError("nothing")
    scheme = urlsplit(uri).scheme
    kind = scheme.split("+")[0]
    if scheme in ("http", "https"):
        _check_server(uri)
    elif kind == "sqlite":
        _ask_sqlite(uri)
    elif kind in DATABASES:
        from sqlalchemy import NullPool, create_engine

        create_engine(uri, poolclass=NullPool).connect().close()  # once; MLflow would try for minutes


def _ask_sqlite(uri: str) -> None:
    """Raise OSError or sqlite3.Error unless the URI names an SQLite file that can be written, or be made by MLflow."""
    path = sqlite_path(uri)
    if path is None:
        raise OSError("no file, so that it would end with the run; expected sqlite:////path/mlflow.db")
    if not path.parent.is_dir():
        raise OSError(f"no such folder: {path.parent}")
    if path.exists():
        if not path.is_file():
            raise OSError(f"{'a folder' if path.is_dir() else 'no regular file'}; expected sqlite:////path/mlflow.db")
        with closing(sqlite3.connect(path, timeout=PATIENCE_S, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
    elif not os.access(path.parent, os.W_OK | os.X_OK):
        raise OSError(f"a folder that cannot be written: {path.parent}")


def _check_server(uri: str) -> None:
    """Raise ValueError unless an MLflow server of our own major version answers to the client's credentials."""
    from mlflow import __version__
    from mlflow.utils.credentials import get_default_host_creds
    from mlflow.utils.rest_utils import http_request

    patience = {"max_retries": 0, "timeout": PROBE_S, "retry_codes": (), "raise_on_status": False}
    answer = http_request(get_default_host_creds(uri.rstrip("/")), "/version", "GET", **patience)
    if answer.status_code in (401, 403):
        raise ValueError(f"status {answer.status_code}; credentials are read from {CREDENTIALS}")
    version = answer.text.strip()[:40]
    if not answer.ok or version.split(".")[0] != __version__.split(".")[0]:
        raise ValueError(f"no MLflow as ours, {__version__}: status {answer.status_code}, its /version says {version}")


def answers(client: Any) -> bool:
    """Whether the tracking store still answers, asked with little patience."""
    try:
        run_within(PROBE_S / 2, lambda: client.search_experiments(max_results=1))
    except (*tracking_errors(), OSError):
        return False
    return True


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


def follow(uri: str, root: Path) -> None:
    """Have an SQLite database of MLflow name the artifacts of the store at `root` by where they are now; those that
    are still in their earlier place, and not here, are left as they are. Raises sqlite3.Error.
    """
    path = sqlite_path(uri)
    if path is None or not path.is_file():
        return
    with closing(sqlite3.connect(path, timeout=PATIENCE_S)) as database, database:
        for name, location in database.execute("SELECT name, artifact_location FROM experiments").fetchall():
            here = artifact_folder(root, name)
            now, was = here.as_uri(), location or ""
            if not was.startswith("file://") or not was.endswith(f"/{FOLDER}/{name}") or was == now:
                continue
            old = Path(url2pathname(urlsplit(was).path))
            if old.is_dir() and not here.is_dir():  # the database alone was moved, or is of several stores
                continue
            for table, column in PLACES:
                database.execute(
                    f"UPDATE {table} SET {column} = :now || substr({column}, length(:old) + 1) "
                    f"WHERE {column} = :old OR substr({column}, 1, length(:old) + 1) = :old || '/'",
                    {"now": now, "old": was},
                )


KIND = "smoothsweep.kind"
KEYS = {"sweep": "smoothsweep.sweep", "trial": "smoothsweep.trial", "recipe": "smoothsweep.recipe"}
CONTENT = "smoothsweep.content"  # of a recipe's run: which trials its means are over
SEEDS = "smoothsweep.seeds"  # that the means are over
PARENT = "mlflow.parentRunId"
PAGE = 500
NOTHING: Mapping[str, str] = {}
PER_CALL, OTHERS_PER_CALL = 800, 100  # metrics, params and tags: MLflow takes 1,000 in all, 100 of each of the others


def pages(search: Callable[..., Any], *asked: Any, **options: Any) -> Iterator[Any]:
    """Everything that one of the client's searches finds, a page at a time."""
    token = None
    while True:
        page = search(*asked, page_token=token, **options)
        yield from page
        token = page.token
        if not token:
            return


@contextmanager
def already_gone() -> Generator[None]:
    """Take what is to be deleted, and is not there, for deleted: by another driver, or before a kill."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise


@dataclass(kw_only=True)
class StoredRun:
    """A run that exists, as the server had it when it was read, with the tags that were written since.

    Attributes:
        status: RUNNING, FINISHED, FAILED or KILLED.
        started: Time of its start, in milliseconds.
    """

    run_id: str
    status: str
    started: int
    tags: dict[str, str] = field(default_factory=dict)


class Runs:
    """kind ("sweep" | "trial" | "recipe") and fingerprint -> run. Read once; `read` again after a failure.

    A request that seemed lost may yet have created its run, and drivers on two machines may both have created one.
    Reading keeps one of them, a finished one before others and then the oldest, and deletes the rest.
    """

    def __init__(self, client: Any, experiment_id: str) -> None:
        self._client, self._experiment_id = client, experiment_id
        self._known: dict[tuple[str, str], StoredRun] = {}
        self.read()

    def get(self, kind: str, fingerprint: str) -> StoredRun | None:
        return self._known.get((kind, fingerprint))

    @contextmanager
    def alone(self, kind: str, fingerprint: str) -> Generator[None]:
        """One process of this machine at a time, which knows the run as the server has it: nobody creates it twice."""
        place = sha256(f"{self._experiment_id} {kind} {fingerprint}".encode()).hexdigest()[:16]
        with locked(cache_folder(), f"mlflow.{place}"):
            self._known.pop((kind, fingerprint), None)
            self.read(f"tags.`{KEYS[kind]}` = '{fingerprint}'")
            yield

    def read(self, only: str = "") -> None:
        """What the server has now: a few hundred bytes per run. only: MLflow's filter, where not all is read."""
        known: dict[tuple[str, str], StoredRun] = {}
        doubles: dict[str, str] = {}  # run that is one too many -> the one that is kept
        parents: dict[str, str] = {}  # run -> its parent
        oldest_first = {"filter_string": only, "max_results": PAGE, "order_by": ["attributes.start_time ASC"]}
        for run in pages(self._client.search_runs, [self._experiment_id], **oldest_first):
            info, data = run.info, run.data
            new = StoredRun(run_id=info.run_id, status=info.status, started=info.start_time, tags=dict(data.tags))
            parents[new.run_id] = new.tags.get(PARENT, "")
            for kind, key in KEYS.items():
                if key in new.tags and (old := known.setdefault((kind, new.tags[key]), new)) is not new:
                    kept, other = (new, old) if new.status == "FINISHED" != old.status else (old, new)
                    known[kind, new.tags[key]], doubles[other.run_id] = kept, kept.run_id
        for child, parent in parents.items():
            if child in doubles:
                with already_gone():
                    self._client.delete_run(child)
            elif parent in doubles:
                self._client.set_tag(child, PARENT, doubles[parent])
        self._known = {**self._known, **known} if only else known

    def create(
        self, kind: str, fingerprint: str, name: str, tags: dict[str, str], started: int | None = None
    ) -> StoredRun:
        """A new run with these tags, in one transaction. started: when its work began, in milliseconds; None: now."""
        tags = {KIND: kind, KEYS[kind]: fingerprint, "mlflow.runName": name, **tags}
        run = self._client.create_run(self._experiment_id, start_time=started, tags=tags)
        stored = StoredRun(run_id=run.info.run_id, status="RUNNING", started=run.info.start_time)
        self._known[kind, fingerprint] = stored
        return stored

    def write(
        self, run: StoredRun, tags: Mapping[str, str], params: Mapping[str, str] = NOTHING, points: Sequence[Any] = ()
    ) -> None:
        """Write into a run in as few calls as MLflow's limits allow, mostly one."""
        from mlflow.entities import Param, RunTag

        told = [RunTag(key, value[:4900]) for key, value in tags.items()], [Param(*each) for each in params.items()]
        parts = max(-(-len(points) // PER_CALL), *(-(-len(each) // OTHERS_PER_CALL) for each in told))
        for part in range(parts):
            some = slice(part * OTHERS_PER_CALL, (part + 1) * OTHERS_PER_CALL)
            metrics = points[part * PER_CALL : (part + 1) * PER_CALL]
            self._client.log_batch(run.run_id, metrics=metrics, params=told[1][some], tags=told[0][some])
        run.tags.update(tags)

    def end(self, run: StoredRun, status: str, *, at: int | None) -> None:
        """End a run. at: milliseconds since 1970, None for now."""
        self._client.set_terminated(run.run_id, status, end_time=at)
        run.status = status

    def drop(self, kind: str, fingerprint: str) -> None:
        """Delete a run, to start over."""
        stored = self._known.pop((kind, fingerprint), None)
        if stored is not None:
            with already_gone():
                self._client.delete_run(stored.run_id)
