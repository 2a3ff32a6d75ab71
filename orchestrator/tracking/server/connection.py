"""Connect to a tracking store, and check that it still answers."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
import sqlite3
from collections.abc import Generator
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.core.uris import ambiguity, shown_uri, without_secrets
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.verified import cache_folder, locked
from smoothsweep.orchestrator.tracking.server.databases import ask_server, ask_sqlite, sqlite_path
from smoothsweep.orchestrator.tracking.server.deadline import run_within

SETTINGS = {  # of MLflow's client; a user's own settings stay
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",  # seconds; a server that is away costs the recorder seconds, not the sweep
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # a run that seemed lost must be looked up, not created again
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "PGCONNECT_TIMEOUT": "10",  # seconds, of libpq, for whenever MLflow connects anew
}
PROBE_S = 10  # for the first answer of a server
OPEN_S = 180  # for MLflow to make or upgrade the tables of a database that answers
DEFAULT_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
VERSION = re.compile(r"(\d+)\.\d+(\.\w+)*")
CREDENTIALS = "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD (or MLFLOW_TRACKING_TOKEN)"
TALKATIVE = (
    "mlflow",
    "alembic",
    "sqlalchemy",
    "urllib3",
)  # their log lines are muted: each failure becomes one line here
DRIVERS_WORDS = re.compile(r"\((?:[\w.]+\.)?\w*(?:Error|Exception)\) (.+?)(?: \[SQL: | \(Background on this error|$)")


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
    driver_words = DRIVERS_WORDS.search(words)
    path = sqlite_path(uri)
    if path is not None and driver_words is not None and not path.exists():
        return f"{path} is no longer there"
    return (driver_words[1] if driver_words else words)[:300]


def connect(uri: str, *, ours: bool = False) -> Any:
    """A client that has reached the tracking store once.

    ours: the URI is `local_uri` of a store, from which an unreadable database is rebuilt. Raises InputError, within
    seconds, where no tracking store answers at the URI.
    """
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    if unclear := ambiguity(uri):
        raise InputError(f"--tracking-uri {shown_uri(uri)}: expected an MLflow tracking store, got {unclear}")
    import mlflow  # noqa: F401 - here, so that what follows waits for the network alone

    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with refusals(uri):
        if sqlite_path(uri) is not None:
            run_within(OPEN_S, lambda: _prepare(uri, ours))
        run_within(2 * PROBE_S, lambda: _probe(uri))
        return run_within(OPEN_S, lambda: _open(uri))


@contextlib.contextmanager
def refusals(uri: str) -> Generator[None]:
    """Raise errors of the tracking store in this block as an InputError of one line."""
    try:
        yield
    except InputError:
        raise
    except (
        Exception
    ) as error:  # MLflow, SQLAlchemy, any driver or the system may raise here, since the user chooses the URI
        raise _nothing_there(uri, error_line(error, uri)) from None


def _probe(uri: str) -> None:
    """Check once that a server, a database or a folder answers at the URI; `refusals` rewords the errors."""
    if not uri:
        raise ValueError("nothing")
    scheme = urlsplit(uri).scheme
    kind = scheme.split("+")[0]
    if scheme in ("http", "https"):
        _check_server(uri)
    elif kind == "sqlite":
        ask_sqlite(uri)
    elif kind in DEFAULT_PORTS:
        _check_port(uri)
        ask_server(uri)


def _prepare(uri: str, ours: bool) -> None:
    from smoothsweep.orchestrator.tracking.server.sqlite_file import prepare

    with _alone_with(uri):
        prepare(present(sqlite_path(uri), "file of SQLite"), ours=ours)


def _open(uri: str) -> Any:
    from mlflow import MlflowClient

    with _alone_with(uri):
        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        client.search_experiments(max_results=1)
        return client


def _alone_with(uri: str) -> contextlib.AbstractContextManager[None]:
    """Lock the SQLite file against other drivers of this machine that would create or upgrade its tables.

    MLflow does that without a lock, and the second of two that begin at once fails in the middle.
    """
    path = sqlite_path(uri)
    if path is None:
        return contextlib.nullcontext()
    return locked(cache_folder(), f"mlflow-{sha256(str(path.resolve()).encode()).hexdigest()[:16]}")


def answers(uri: str, client: Any) -> bool:
    """Whether the tracking store still answers, asked with little patience."""
    try:
        if urlsplit(uri).scheme in ("http", "https"):
            return _ask(uri, timeout=PROBE_S / 2).status_code < 500
        client.search_experiments(max_results=1)
    except (*tracking_errors(), OSError):
        return False
    return True


def _check_server(uri: str) -> None:
    """Raise InputError unless an MLflow server of our own major version answers."""
    from mlflow import __version__
    from mlflow.exceptions import MlflowException

    try:
        answer = _ask(uri, timeout=PROBE_S)
    except (MlflowException, OSError) as error:
        timed_out = "timed out" in str(error) or "timeout" in str(error).lower()
        raise _nothing_there(uri, f"no answer within {PROBE_S} s" if timed_out else _cause(error)) from None
    if answer.status_code in (401, 403):
        raise _nothing_there(uri, f"{answer.status_code} {answer.reason}; credentials are read from {CREDENTIALS}")
    version = VERSION.fullmatch(answer.text.strip()[:40]) if answer.ok else None
    if version is None:
        kind = answer.headers.get("content-type", "an answer of unknown type").split(";")[0]
        raise _nothing_there(uri, f"another service (its /version is {kind} with status {answer.status_code})")
    if version[1] != __version__.split(".")[0]:
        raise _nothing_there(uri, f"an MLflow server {version[0]}, which our client {__version__} does not speak with")


def _ask(uri: str, timeout: float) -> Any:
    """GET /version with the credentials that MLflow's client would send."""
    from mlflow.utils.credentials import get_default_host_creds
    from mlflow.utils.rest_utils import http_request

    credentials = get_default_host_creds(uri.rstrip("/"))
    return http_request(
        credentials, "/version", "GET", max_retries=0, timeout=timeout, retry_codes=(), raise_on_status=False
    )


def _check_port(uri: str) -> None:
    """Raise InputError if nothing listens where a database should: SQLAlchemy would try for minutes."""
    parts = urlsplit(uri)
    if not parts.hostname:
        return  # a socket in a folder: answers or fails at once
    try:
        port = parts.port or DEFAULT_PORTS[parts.scheme.split("+")[0]]
        socket.create_connection((parts.hostname, port), timeout=PROBE_S).close()
    except (OSError, ValueError) as error:
        raise _nothing_there(uri, str(error)) from None


def _nothing_there(uri: str, reason: str) -> InputError:
    reason = " ".join(without_secrets(reason, uri).split())
    return InputError(f"--tracking-uri {shown_uri(uri)}: expected an MLflow tracking store, got: {reason[:200]}")


def _cause(error: BaseException) -> str:
    """The last words of a chain of wrapped connection errors: what the operating system said."""
    text = str(error)
    match = re.search(r"(Connection refused|Name or service not known|No route to host|[A-Z][a-z]+ error: [^)]*)", text)
    return match[1].lower() if match else text
