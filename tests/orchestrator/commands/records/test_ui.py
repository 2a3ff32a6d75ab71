"""`smoothsweep ui`: what it prints, and what it refuses."""

import socket

import pytest

from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.records import ui
from tests.orchestrator.commands.records.ports import free_port


class Became(Exception):
    """The process would be the server now."""


def test_it_prints_where_each_sweep_is_compared_and_becomes_the_server(swept, monkeypatch, capsys):
    asked, tokens, opened = [], [], []

    def become(uri, listening, token):
        asked.append((uri, listening.getsockname()))
        tokens.append(token)
        raise Became

    monkeypatch.setattr(ui, "become_server", become)
    monkeypatch.setattr(ui, "open_beside", lambda *arguments: opened.append(arguments))
    port = free_port()
    for options in ([], ["--no-browser"]):
        with pytest.raises(Became):
            main(["ui", "--store", str(swept.root), "--port", str(port), *options])
    said = capsys.readouterr().out
    tables, charts = (
        [
            f"http://127.0.0.1:{port}/?token={token}#/experiments/1/runs?viewStateShareKey=trials"
            f"&workflowType=machine_learning&compareRunsMode={mode}"
            for token in tokens
        ]
        for mode in ("TABLE", "CHART")
    )
    assert all(said.count(address) == 1 for address in (*tables, *charts))
    assert all(f"MLflow on http://127.0.0.1:{port}/?token={token} (" in said for token in tokens)
    assert opened == [(port, tables[0])], "and nothing where nothing is to be opened"
    assert asked == [(f"sqlite:///{swept.root}/mlflow.db", ("127.0.0.1", port))] * 2
    assert len(set(tokens)) == 2 and all(len(token) >= 43 for token in tokens), "a new one for each run"


@pytest.mark.parametrize("port", [None, -1, 65536, 99999999999])
def test_a_port_that_cannot_be_had_is_refused_before_anything_is_opened(port, swept, monkeypatch, capsys):
    monkeypatch.setattr(ui, "become_server", lambda *_: pytest.fail("a server was started"))
    monkeypatch.setattr(ui, "open_beside", lambda *_: pytest.fail("a browser was opened"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1] if port is None else port
        assert main(["ui", "--store", str(swept.root), "--port", str(port)]) == 2
    assert f"--port {port}: expected a free port" in capsys.readouterr().err


def test_the_links_name_the_port_that_the_system_chose(swept, monkeypatch, capsys):
    monkeypatch.setattr(ui, "become_server", lambda uri, listening, token: ports.append(listening.getsockname()[1]))
    ports = []
    main(["ui", "--store", str(swept.root), "--port", "0", "--no-browser"])
    assert capsys.readouterr().out.count(f"http://127.0.0.1:{ports[0]}/?token=") == 3 and ports[0] > 0
