"""The process of `smoothsweep ui`: MLflow's server behind `Guard`, on a socket that the command has opened.

    python -m orchestrator.tracking.server.serving SOCKET PIPE URI

SOCKET, PIPE: inherited file descriptors, of the listening socket and of a pipe that holds the token, which thus stands
in no file, environment or command line. URI: of the tracking store.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
import signal
import socket
import sys
import warnings

from smoothsweep.orchestrator.tracking.server.guard import App, Guard

TOKEN_BYTES = 32
UNTIL_CLOSED_S = 2  # for open connections, when the server is told to end
SETTINGS = {  # as `mlflow ui` has them, but for its jobs, which would call this server without the token
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "_MLFLOW_SERVER_SERVE_ARTIFACTS": "true",
    "_MLFLOW_SERVER_ARTIFACT_ROOT": "mlflow-artifacts:/",
    "_MLFLOW_SERVER_ARTIFACT_DESTINATION": "./mlartifacts",
}
UNWANTED = (  # of another server of the user's, and a prefix that the links lack
    "_MLFLOW_STATIC_PREFIX",
    "_MLFLOW_SERVER_ARTIFACTS_ONLY",
    "prometheus_multiproc_dir",
)


def new_token() -> str:
    """Make a random token that fits into an address."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def become_server(uri: str, listening: socket.socket, token: str) -> None:
    """Replace this process by the server. Does not return. listening: an open socket of the loopback interface."""
    reading, writing = os.pipe()
    os.write(writing, token.encode())
    os.close(writing)
    for descriptor in (reading, listening.fileno()):
        os.set_inheritable(descriptor, True)
    os.execv(sys.executable, [sys.executable, "-m", __name__, str(listening.fileno()), str(reading), uri])


def serve(descriptor: int, pipe: int, uri: str) -> None:
    """Serve until told to end. Raises ValueError for a socket that others than this machine reach, or no token."""
    listening = socket.socket(fileno=descriptor)
    host, port = listening.getsockname()[:2]
    with os.fdopen(pipe) as file:
        token = file.read()
    if not ipaddress.ip_address(host).is_loopback:
        raise ValueError(f"{host}: expected an address of the loopback interface")
    if len(token) < TOKEN_BYTES:
        raise ValueError("expected a token in the pipe, got none")
    import uvicorn  # before MLflow, which checks the origin of requests only where a server is loaded

    settings = uvicorn.Config(
        Guard(_mlflow(uri), token, port),
        ws="none",
        access_log=False,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=UNTIL_CLOSED_S,
    )
    uvicorn.Server(settings).run(sockets=[listening])


def _mlflow(uri: str) -> App:
    """MLflow's pages and API on a tracking store, set up as `mlflow ui` does (`mlflow.server._run_server`)."""
    for name in UNWANTED:
        os.environ.pop(name, None)
    os.environ.update(SETTINGS)
    from mlflow.server import constants

    os.environ[constants.BACKEND_STORE_URI_ENV_VAR] = os.environ[constants.REGISTRY_STORE_URI_ENV_VAR] = uri
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow's own use of what Starlette has deprecated
        from mlflow.server.fastapi_app import app

    return app


def _main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.suppress(KeyboardInterrupt):
        descriptor, pipe, uri = sys.argv[1:]
        serve(int(descriptor), int(pipe), uri)


if __name__ == "__main__":
    _main()
