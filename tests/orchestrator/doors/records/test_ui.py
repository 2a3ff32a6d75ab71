"""`smoothsweep ui`: what it prints, what it opens, what it refuses; the pages themselves in a real browser."""

import http.server
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time

import pytest
from chromium import browsing, find_chromium
from mlflow_look import record
from tiny import write_tiny

from benchmarks import tracking as made_up
from orchestrator.cli import main
from orchestrator.doors.records import opening, ui
from orchestrator.planning.trials import trials_of
from orchestrator.store.local import LocalStore
from sweeps.load import load_sweep


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def swept(tmp_path_factory, empty_database):
    """A store with one recorded sweep of two recipes under two seeds, its artifacts made up."""
    folder = tmp_path_factory.mktemp("ui")
    with pytest.MonkeyPatch.context() as small:
        for name, value in {"EPOCHS": 5, "CLASSES": 4, "SIDE": 16}.items():
            small.setattr(made_up, name, value)
        store = LocalStore(root=folder / "store")
        store.root.mkdir()
        shutil.copy(empty_database, store.root / "mlflow.db")
        loaded = load_sweep(write_tiny(folder, seeds=[1, 2]))
        trials = trials_of(loaded)
        made_up.write_artifacts(trials, store)
        record(loaded, store, trials)
    return store


class Became(Exception):
    """The process would be the server now."""


def test_it_prints_where_each_sweep_is_compared_and_becomes_the_server(swept, monkeypatch, capsys):
    asked, opened = [], []

    def become(program, command):
        asked.extend(command)
        raise Became

    monkeypatch.setattr(ui.os, "execv", become)
    monkeypatch.setattr(ui, "open_beside", lambda *arguments: opened.append(arguments))
    port = free_port()
    for options in ([], ["--no-browser"]):
        with pytest.raises(Became):
            main(["ui", "--store", str(swept.root), "--port", str(port), *options])
    said = capsys.readouterr().out
    table, charts = (f"http://127.0.0.1:{port}/#/experiments/1/runs?viewStateShareKey=trials&workflowType=machine_learning&compareRunsMode={mode}"
                     for mode in ("TABLE", "CHART"))  # fmt: skip
    assert said.count(table) == said.count(charts) == 2 and f"MLflow on http://127.0.0.1:{port}" in said
    assert opened == [(port, table)], "and nothing where nothing is to be opened"
    assert asked[1:4] == ["-m", "mlflow", "ui"] and f"sqlite:///{swept.root}/mlflow.db" in asked


def test_a_port_that_is_taken_is_refused_before_anything_is_opened(swept, monkeypatch, capsys):
    monkeypatch.setattr(ui.os, "execv", lambda *_: pytest.fail("a server was started"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["ui", "--store", str(swept.root), "--port", str(port)]) == 2
    assert f"--port {port}: expected a free port" in capsys.readouterr().err


def test_the_link_is_opened_as_soon_as_the_server_answers_and_not_before(monkeypatch):
    opened, port = [], free_port()
    monkeypatch.setattr(opening.webbrowser, "open", lambda address: opened.append(time.monotonic()) or True)
    assert not opening.open_when_served(port, "http://x", patience_s=0.3) and not opened
    threading.Timer(0.5, lambda: servers.append(socket.create_server(("127.0.0.1", port)))).start()
    servers, started = [], time.monotonic()
    assert opening.open_when_served(port, "http://x", patience_s=30.0) and opened[0] - started >= 0.4
    servers[0].close()


def test_it_is_opened_by_the_browser_that_the_user_names(tmp_path, monkeypatch):
    """By a real process, from a server that stands in for MLflow's."""
    told, browser = tmp_path / "told", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {told}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
        assert opening.open_beside(server.server_port, "http://127.0.0.1/#/experiments/1").wait(timeout=60) == 0
    assert told.read_text() == "http://127.0.0.1/#/experiments/1\n"


def test_without_a_window_no_text_browser_takes_the_terminal(monkeypatch):
    for name in opening.WINDOWED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(opening.sys, "platform", "linux")
    monkeypatch.setattr(opening.subprocess, "Popen", lambda *_: pytest.fail("a browser was opened"))
    assert opening.open_beside(1, "http://x") is None


@pytest.fixture
def served(swept):
    """The links that the real door prints, its server answering."""
    port = free_port()
    command = [sys.executable, "-m", "orchestrator", "ui", "--no-browser", "--store", str(swept.root)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    door = subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            text=True, env=environment, start_new_session=True)  # fmt: skip
    try:
        said = "".join(door.stdout.readline() for _ in range(3))
        late = time.monotonic() + 90
        while not opening.answers(port) and time.monotonic() < late:
            time.sleep(0.2)
        yield re.findall(r"http://\S+#\S+", said)
    finally:
        os.killpg(door.pid, 9)
        door.wait()
        door.stdout.close()


def until(tab, script, seconds=60):
    """The value of the expression as soon as it is true."""
    late = time.monotonic() + seconds
    while not (value := tab.run(script)) and time.monotonic() < late:
        time.sleep(0.3)
    return value


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None, reason="no Chromium on this machine: apt-get install chromium")
def test_the_links_lead_to_filled_pages(served, tmp_path):
    table, charts = served
    with browsing(find_chromium(), tmp_path / "profile") as tab:
        tab.resize(1800, 1000)
        tab.open(table)
        assert until(tab, "document.querySelectorAll('.ag-center-cols-container [row-index]').length >= 4")
        shown = tab.run("document.body.innerText")
        assert shown.count("alpha -0.2 · seed") == shown.count("alpha 0 · seed") == 2
        for column in ("Duration", "test_acc", "embedder_acc1", "attack_acc1"):
            assert column in shown, column
        tab.open("about:blank")
        tab.open(charts)
        assert until(tab, "document.querySelectorAll('.js-plotly-plot .trace, .js-plotly-plot .points').length > 0")
        shown = tab.run("document.body.innerText")
        assert "Accuracy against leak" in shown and "No charts in this section" not in shown
