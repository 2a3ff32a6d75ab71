"""`smoothsweep ui`: MLflow's own server on the local store, and the links to where its sweeps are compared.

It answers this machine's names alone, and only to the user and password that are made for this run: other users of
the machine, and pages that a browser shows beside ours, reach the port as well.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
import webbrowser
from pathlib import Path

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.text import printable
from smoothsweep.orchestrator.commands.requests import UiRequest
from smoothsweep.orchestrator.store.opening import REMEDY, open_store
from smoothsweep.orchestrator.tracking.server import follow, local_uri, refusals
from smoothsweep.orchestrator.tracking.tracker import list_sweep_pages

HOST, USER = "127.0.0.1", "smoothsweep"
AUTH = """[mlflow]
default_permission = MANAGE
database_uri = sqlite:///{folder}/users.db
admin_username = {user}
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
auth_cache_ttl_seconds = 3600
"""
UNWANTED = ("_MLFLOW_STATIC_PREFIX", "_MLFLOW_SERVER_ARTIFACTS_ONLY", "prometheus_multiproc_dir")
"""Variables of another server of the user's."""


def serve_pages(request: UiRequest) -> int:
    """Serve the store until interrupted. Returns the server's exit code.

    Raises InputError, before anything is started, where nothing was recorded or the port is taken.
    """
    store = open_store(request.store)  # of a remote one, its mirror here
    database = store.root / "mlflow.db"
    if not database.is_file():
        raise InputError(f"{database}: expected the MLflow database of an earlier run, got none{REMEDY}")
    port, uri, password = _free(request.port), local_uri(store), secrets.token_urlsafe(24)
    with refusals(uri):
        follow(uri, store.root)
        pages = list_sweep_pages(uri)
    root = f"http://{HOST}:{port}"
    lines = [f"MLflow on {root}/ (user {USER}, password {password}; Ctrl-C ends it)"]
    for sweep, *routes in pages:
        for what, route in zip(("trials", "charts"), routes, strict=True):
            lines.append(f"{printable(sweep)}: {what:<7} {root}{route}")
    screen.out_text("\n".join(lines))
    sys.stdout.flush()
    with tempfile.TemporaryDirectory(prefix="smoothsweep-ui-") as folder:  # mode 700
        server = _server(uri, port, password, Path(folder))
        if request.browser and pages:
            threading.Thread(target=_open, args=(server, port, f"{root}{pages[0][1]}"), daemon=True).start()
        try:
            return server.wait()
        finally:
            server.terminate()
            server.wait()


def _server(uri: str, port: int, password: str, folder: Path) -> subprocess.Popen[bytes]:
    """MLflow's server: one worker, no jobs. folder: for the user's entry, which is of this run alone."""
    write_file(folder / "auth.ini", AUTH.format(folder=folder, user=USER))
    settings = {
        "MLFLOW_AUTH_CONFIG_PATH": str(folder / "auth.ini"),
        "MLFLOW_AUTH_ADMIN_PASSWORD": password,
        "MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.token_urlsafe(24),
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    command = [sys.executable, "-m", "mlflow", "server", "--app-name", "basic-auth", "--backend-store-uri", uri]
    command += ["--host", HOST, "--port", str(port), "--workers", "1"]
    command += ["--allowed-hosts", f"{HOST}:*,localhost:*", "--uvicorn-opts", "--log-level warning --no-access-log"]
    inherited = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    return subprocess.Popen(command, env=inherited | settings, stdout=subprocess.DEVNULL)


def _open(server: subprocess.Popen[bytes], port: int, address: str) -> None:
    """Open the address in the user's browser once the server listens."""
    while server.poll() is None:
        with socket.socket() as probe:
            if not probe.connect_ex((HOST, port)):
                webbrowser.open(address)
                return
        time.sleep(0.5)


def _free(port: int) -> int:
    """The port, or of 0 one that the system chose. Raises InputError for one that is taken."""
    with socket.socket() as probe:
        try:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            return probe.getsockname()[1]
        except (OSError, OverflowError) as error:
            taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
            reason = "one that another server listens on" if taken else str(error)
            raise InputError(f"--port {port}: expected a free port, got {reason}") from None
