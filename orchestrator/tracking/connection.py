"""Reaching a tracking store: is there an MLflow at the URI, and does it still answer."""

from __future__ import annotations

import logging
import os
import re
import socket
from typing import Any
from urllib.parse import urlsplit

from core.errors import InputError
from orchestrator.store import Store

SETTINGS = {  # of MLflow's client; a user's own settings stay
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",  # seconds; a server that is away costs the recorder seconds, not the sweep
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # a run that seemed lost must be looked up, not created again
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
PROBE_S = 10  # for the first answer of a server
DEFAULT_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
VERSION = re.compile(r"(\d+)\.\d+(\.\w+)*")
CREDENTIALS = "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD (or MLFLOW_TRACKING_TOKEN)"


def local_uri(store: Store) -> str:
    """The tracking store of one machine: SQLite beside the artifacts."""
    return f"sqlite:///{store.root / 'mlflow.db'}"


def shown_uri(uri: str) -> str:
    """The URI without its password."""
    return re.sub(r"(?<=://)([^/@:]*):[^/@]*@", r"\1:***@", uri)


def tracking_errors() -> tuple[type[Exception], ...]:
    """What MLflow raises when it cannot be reached or refuses a write."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError  # MlflowException wraps it nearly everywhere

    return (MlflowException, SQLAlchemyError)


def connect(uri: str) -> Any:
    """A client that has spoken with the tracking store once. InputError, in one line, if there is none at the URI."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    scheme = urlsplit(uri).scheme
    if scheme in ("http", "https"):
        _check_server(uri)
    elif scheme.split("+")[0] in DEFAULT_PORTS:
        _check_port(uri)
    try:
        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        client.search_experiments(max_results=1)
    except (*tracking_errors(), OSError, ImportError) as error:
        raise _nothing_there(uri, str(error)) from None
    return client


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
    """Raise InputError if nobody listens where a database should: SQLAlchemy would try for minutes."""
    parts = urlsplit(uri)
    if not parts.hostname:
        return  # a socket in a folder: answers or fails at once
    try:
        port = parts.port or DEFAULT_PORTS[parts.scheme.split("+")[0]]
        socket.create_connection((parts.hostname, port), timeout=PROBE_S).close()
    except (OSError, ValueError) as error:
        raise _nothing_there(uri, str(error)) from None


def _nothing_there(uri: str, reason: str) -> InputError:
    password = urlsplit(uri).password
    reason = " ".join(reason.replace(uri, shown_uri(uri)).split())
    if password:
        reason = reason.replace(password, "***")
    return InputError(f"--tracking-uri {shown_uri(uri)}: expected an MLflow tracking store, got: {reason[:200]}")


def _cause(error: BaseException) -> str:
    """The last words of a chain of wrapped connection errors: what the operating system said."""
    text = str(error)
    found = re.search(r"(Connection refused|Name or service not known|No route to host|[A-Z][a-z]+ error: [^)]*)", text)
    return found[1].lower() if found else text
