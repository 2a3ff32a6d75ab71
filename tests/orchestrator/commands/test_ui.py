"""`smoothsweep ui`: MLflow's server answers this machine and the run's password alone; its links lead to pages."""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from base64 import b64encode
from dataclasses import dataclass

import psutil
import pytest
from mlflow import MlflowClient

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from tests import made_stores as made_up
from tests.mlflow_look import record
from tests.tiny import write_tiny


@dataclass(frozen=True, kw_only=True)
class Served:
    """The command and what it printed."""

    port: int
    user: str
    password: str
    links: list[str]
    pid: int

    def ask(self, path, method="GET", body=None, password=None, **headers):
        """The status and the body of an answer."""
        login = b64encode(f"{self.user}:{self.password if password is None else password}".encode()).decode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body=body, headers={"Authorization": f"Basic {login}", **headers})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@pytest.fixture(scope="module")
def swept(tmp_path_factory, empty_database):
    """A store with one recorded sweep of two recipes under two seeds, its artifacts made up."""
    folder = tmp_path_factory.mktemp("ui")
    with pytest.MonkeyPatch.context() as small:
        for name, value in {"EPOCHS": 5, "CLASSES": 4, "SIDE": 16}.items():
            small.setattr(made_up, name, value)
        store = Store(root=folder / "store")
        store.root.mkdir()
        shutil.copy(empty_database, store.root / "mlflow.db")
        loaded = load_sweep(write_tiny(folder, seeds=[1, 2]))
        trials = trials_of(loaded)
        made_up.write_artifacts(trials, store)
        record(loaded, store, trials)
    return store


@pytest.fixture(scope="module")
def served(swept):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "smoothsweep", "ui", "--no-browser", "--store", str(swept.root)]
    command = subprocess.Popen(
        [*command, "--port", str(port)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
        cwd=swept.root.parent,
    )
    try:
        printed = "".join(command.stdout.readline() for _ in range(3))
        user, password = re.search(r"user (\S+), password (\S+);", printed).groups()
        late = time.monotonic() + 180
        while time.monotonic() < late:
            with socket.socket() as probe:
                if not probe.connect_ex(("127.0.0.1", port)):
                    break
            time.sleep(0.3)
        links = re.findall(r"http://\S+#\S+", printed)
        yield Served(port=port, user=user, password=password, links=links, pid=command.pid)
    finally:
        command.terminate()
        command.wait(60)
        command.stdout.close()
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)), "the server ends with the command"


SEARCH = json.dumps({"max_results": 5})
PLACES = [
    ("GET", "/", None),
    ("POST", "/api/2.0/mlflow/experiments/search", SEARCH),
    ("POST", "/ajax-api/2.0/mlflow/experiments/search", SEARCH),
    ("POST", "/api/2.0/mlflow/experiments/create", json.dumps({"name": "x", "artifact_location": "/tmp"})),
    ("GET", "/get-artifact?run_uuid=0&path=x", None),
    ("POST", "/ajax-api/2.0/mlflow/upload-artifact?run_uuid=0&path=x", "x"),
    ("GET", "/api/2.0/mlflow-artifacts/artifacts", None),
    ("POST", "/graphql", "{}"),
]


@pytest.mark.parametrize(("method", "path", "body"), PLACES)
def test_nothing_answers_without_the_password_or_under_another_name(method, path, body, served):
    kind = {"Content-Type": "application/json"}
    assert served.ask(path, method, body, password="wrong", **kind)[0] == 401
    assert served.ask(path, method, body, Authorization="", **kind)[0] == 401
    for name in ("evil.example", f"127.0.0.1.evil.example:{served.port}"):
        assert served.ask(path, method, body, Host=name, **kind)[0] == 403


def test_with_the_password_pages_and_client_answer(served, monkeypatch):
    status, page = served.ask("/")
    assert status == 200 and b"<title>MLflow</title>" in page
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", served.user)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", served.password)
    client = MlflowClient(tracking_uri=f"http://127.0.0.1:{served.port}")
    assert len(client.search_runs(["1"])) > 1


def test_it_listens_on_the_loopback_interface_alone_and_no_command_line_has_the_password(served):
    own = psutil.Process(served.pid)
    every = [own, *own.children(recursive=True)]
    listening = [c.laddr for one in every for c in one.net_connections("inet") if c.status == psutil.CONN_LISTEN]
    assert {tuple(address) for address in listening} == {("127.0.0.1", served.port)}
    assert not [one for one in every if served.password in " ".join(one.cmdline())]
    assert len(every) <= 4, "no job runners"


@pytest.mark.parametrize("port", [None, -1, 65536, 99999999999])
def test_a_port_that_cannot_be_had_is_refused_before_anything_is_started(port, swept, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1] if port is None else port
        assert main(["ui", "--store", str(swept.root), "--port", str(port)]) == 2
    told = capsys.readouterr()
    assert f"--port {port}: expected a free port" in told.err and not told.out
