"""A small Ray cluster of its own for tests: one head with a token, on free ports, ended with all its processes."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

RAY = str(Path(sys.executable).with_name("ray"))
START_S, STOP_S = 180, 60


@dataclass(frozen=True, kw_only=True)
class Head:
    """dashboard: its address; environment: of whoever talks to it, the token included."""

    dashboard: str
    environment: dict[str, str]
    pid: int


@contextmanager
def ray_head(environment: Mapping[str, str], *, cpus: int = 2, slots: int = 4) -> Iterator[Head]:
    """A head as cluster.yaml starts it, but on this machine alone."""
    folder = Path(tempfile.mkdtemp(prefix="rj", dir="/tmp"))  # short: Ray's socket names hold it
    token = folder / "token"
    token.write_text(secrets.token_hex(32))
    token.chmod(0o600)
    own = {
        **environment,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",
        "OMP_NUM_THREADS": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    own.pop("RAY_ADDRESS", None)
    gcs, dashboard, agent, agent_grpc, client, metrics = free_ports(6)
    command = [
        RAY,
        "start",
        "--head",
        "--block",
        "--disable-usage-stats",
        "--node-ip-address=127.0.0.1",
        f"--port={gcs}",
        "--dashboard-host=127.0.0.1",
        f"--dashboard-port={dashboard}",
        f"--dashboard-agent-listen-port={agent}",
        f"--dashboard-agent-grpc-port={agent_grpc}",
        f"--ray-client-server-port={client}",
        f"--metrics-export-port={metrics}",
        f"--num-cpus={cpus}",
        "--num-gpus=0",
        f'--resources={{"trial_slot": {slots}}}',
        "--object-store-memory=100000000",
        f"--temp-dir={folder}/ray",
    ]
    log = (folder / "head.log").open("w")
    process = subprocess.Popen(command, env=own, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    address = f"http://127.0.0.1:{dashboard}"
    try:
        _wait_until_it_answers(address, token.read_text(), process, folder / "head.log")
        yield Head(dashboard=address, environment={**own, "RAY_API_SERVER_ADDRESS": address}, pid=process.pid)
    finally:
        children = _children(process.pid)
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
        for left in [psutil.Process(process.pid)] if process.poll() is None else []:
            left.kill()
        _, alive = psutil.wait_procs(children, timeout=STOP_S)
        for child in alive:
            child.kill()
        log.close()
        shutil.rmtree(folder, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def status_without_token(address: str) -> int:
    """What the job server says to somebody without the token."""
    try:
        return urllib.request.urlopen(f"{address}/api/jobs/", timeout=20).status
    except urllib.error.HTTPError as error:
        return error.code


def _wait_until_it_answers(address: str, token: str, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + START_S
    request = urllib.request.Request(f"{address}/api/jobs/", headers={"Authorization": f"Bearer {token}"})
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with suppress(OSError):
            urllib.request.urlopen(request, timeout=10).read()
            return
        time.sleep(0.5)
    raise RuntimeError(f"the head did not come up:\n{log.read_text()[-3000:]}")


def _children(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def inherited() -> dict[str, str]:
    return dict(os.environ)
