"""`smoothsweep ui`: MLflow's pages on the local store, and the links to where its sweeps are compared."""

from __future__ import annotations

import os
import sys

from core import screen
from core.errors import InputError
from core.words import printable
from orchestrator.doors.records.opening import HOST, answers, open_beside
from orchestrator.store.opening import open_store
from orchestrator.tracking import arrivals, follow, local_uri, refusals


def serve_pages(location: str, port: int, *, browser: bool) -> None:
    """Become MLflow's server on the store at `location`. Does not return.

    browser: whether to open the newest sweep in the user's. Raises InputError, before anything is started, where
    nothing was recorded or the port is taken: the links would lead to another's pages.
    """
    store = open_store(location)  # of a remote one, its mirror here
    database = store.root / "mlflow.db"
    if not database.is_file():
        raise InputError(f"{database}: expected the MLflow database of an earlier run, got none")
    if answers(port):
        raise InputError(f"--port {port}: expected a free port, got one that another server listens on")
    uri, root = local_uri(store), f"http://{HOST}:{port}"
    with refusals(uri):
        remarks, found = follow(uri, store.root), arrivals(uri)
    for line in remarks:
        screen.err(line)
    lines = [f"MLflow on {root} (Ctrl-C ends it)"]
    for one in found:
        lines += [f"{printable(one.sweep)}: {what:<7} {root}{route}"
                  for what, route in (("trials", one.table), ("charts", one.charts))]  # fmt: skip
    screen.out_text("\n".join(lines))  # as they are: the name of a view is no secret, though its key is called one
    beside = open_beside(port, root + found[0].table) if browser and found else None  # noqa: F841 - ours until then
    sys.stdout.flush()
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    command = [sys.executable, "-m", "mlflow", "ui", "--workers", "1", "--backend-store-uri", uri]  # one reader
    os.execv(sys.executable, [*command, "--host", HOST, "--port", str(port)])
