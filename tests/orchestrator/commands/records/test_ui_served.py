"""The server of `smoothsweep ui`: nothing answers without the token; its pages in a real browser."""

import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, urlsplit

import psutil
import pytest
from chromium import browsing, find_chromium
from mlflow import MlflowClient

from smoothsweep.orchestrator.commands.records import opening
from tests.orchestrator.commands.records.ports import free_port


def cookie_of(port, token):
    return {"Cookie": f"smoothsweep_ui_{port}={token}"}


def ask(port, path, method="GET", body=None, **headers):
    """Status, headers and body of one answer; no redirect is followed."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


@dataclass(frozen=True, kw_only=True)
class Served:
    port: int
    token: str
    links: list[str]
    pid: int


@pytest.fixture(scope="module")
def served(swept):
    """The real command, its server answering."""
    port = free_port()
    command = [sys.executable, "-m", "smoothsweep", "ui", "--no-browser", "--store", str(swept.root)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = subprocess.Popen(
        [*command, "--port", str(port)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
        cwd=swept.root.parent,
    )
    try:
        said = "".join(command.stdout.readline() for _ in range(3))
        late = time.monotonic() + 120
        while not opening.answers(port) and time.monotonic() < late:
            time.sleep(0.2)
        links = re.findall(r"http://\S+#\S+", said)
        yield Served(port=port, token=parse_qs(urlsplit(links[0]).query)["token"][0], links=links, pid=command.pid)
    finally:
        os.killpg(command.pid, 9)
        command.wait()
        command.stdout.close()


def test_the_server_is_one_process(served):
    """MLflow's job runners are seven processes beside it, of some 220 MB each."""
    assert cookie_of(served.port, served.token)
    assert psutil.Process(served.pid).children(recursive=True) == []


SEARCH = json.dumps({"max_results": 5})
STATIC = re.compile(rb'src="(static-files/[^"]+\.js)"')
PLACES = [  # method, path, body
    ("GET", "/", None),
    ("HEAD", "/", None),
    ("GET", "/health", None),
    ("GET", "/version", None),
    ("POST", "/api/2.0/mlflow/experiments/search", SEARCH),
    ("POST", "/ajax-api/2.0/mlflow/experiments/search", SEARCH),
    ("POST", "/api/2.0/mlflow/experiments/create", json.dumps({"name": "x", "artifact_location": "/tmp"})),
    ("GET", "/get-artifact?run_uuid=0&path=x", None),
    ("POST", "/ajax-api/2.0/mlflow/upload-artifact", "x"),
    ("GET", "/api/2.0/mlflow-artifacts/artifacts", None),
    ("PUT", "/api/2.0/mlflow-artifacts/artifacts/x", "x"),
    ("POST", "/graphql", "{}"),
    ("GET", "/static-files/index.html", None),
    ("OPTIONS", "/", None),
    ("GET", "/ajax-api/3.0/mlflow/assistant/config", None),
    ("POST", "/v1/traces", "x"),
    ("GET", "/none", None),
]


@pytest.mark.parametrize(("method", "path", "body"), PLACES)
def test_nothing_answers_without_the_token(method, path, body, served):
    good = cookie_of(served.port, served.token)
    wrong = served.token[:-1] + ("A" if served.token[-1] != "A" else "B")
    refused = [
        {},
        cookie_of(served.port, wrong),
        cookie_of(served.port, ""),
        cookie_of(1, served.token),
        {"Authorization": f"Bearer {wrong}"},
        {"Authorization": f"Basic {served.token}"},
        {"Authorization": "Bearer "},
        {**good, "Host": "evil.example"},
        {**good, "Host": f"127.0.0.1.evil.example:{served.port}"},
        {**good, "Origin": "http://127.0.0.1:1"},
        {**good, "Sec-Fetch-Site": "same-site"},
    ]
    for headers in refused:
        status, told, text = ask(served.port, path, method, body, **headers)
        assert status == 403 and "Set-Cookie" not in told, headers
        assert method == "HEAD" or (text.startswith(b"403: ") and text.count(b"\n") == 1)
    status, _, _ = ask(served.port, f"{path}{'&' if '?' in path else '?'}token={wrong}", method, body, **good)
    assert status == 403 or method not in ("GET", "HEAD")


def test_with_the_token_everything_answers(served):
    status, told, _ = ask(served.port, f"/?token={served.token}")
    cookie = told["set-cookie"]
    assert (status, told["location"]) == (303, "/") and served.token not in told["location"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in cookie.split(";")[1:]}
    for headers in ({"Cookie": cookie.split(";")[0]}, {"Authorization": f"Bearer {served.token}"}):
        status, _, page = ask(served.port, "/", **headers)
        assert status == 200 and b"<title>MLflow</title>" in page
        status, _, script = ask(served.port, "/" + STATIC.search(page)[1].decode(), **headers)
        assert status == 200 and len(script) > 1000
        for api in ("api", "ajax-api"):
            status, _, found = ask(
                served.port,
                f"/{api}/2.0/mlflow/experiments/search",
                "POST",
                SEARCH,
                **{**headers, "Content-Type": "application/json"},
            )
            assert status == 200 and len(json.loads(found)["experiments"]) == 2  # the sweep's, and MLflow's own


def test_the_token_opens_mlflows_own_client_and_its_artifacts(served, swept, monkeypatch, tmp_path):
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", served.token)
    client = MlflowClient(tracking_uri=f"http://127.0.0.1:{served.port}")
    runs = client.search_runs(["1"])
    assert runs
    held = [(run.info.run_id, entry) for run in runs for entry in client.list_artifacts(run.info.run_id)]
    run_id, entry = next((run_id, entry) for run_id, entry in held if not entry.is_dir)
    status, _, content = ask(
        served.port, f"/get-artifact?run_uuid={run_id}&path={quote(entry.path)}", **cookie_of(served.port, served.token)
    )
    assert status == 200 and len(content) == entry.file_size > 0


def test_the_token_stands_on_no_command_line_and_in_no_environment(served):
    for process in [psutil.Process(served.pid), *psutil.Process(served.pid).children(recursive=True)]:
        assert served.token not in " ".join(process.cmdline())
        assert served.token not in str(process.environ())


def test_it_listens_on_the_loopback_interface_alone(served):
    own = psutil.Process(served.pid)
    listening = [
        one.laddr
        for process in (own, *own.children(recursive=True))
        for one in process.net_connections("inet")
        if one.status == psutil.CONN_LISTEN
    ]
    assert [tuple(address) for address in listening] == [("127.0.0.1", served.port)]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can try it as another user")
def test_another_user_reads_neither_the_page_with_the_token_nor_the_servers_memory(served):
    page = opening.leading_page("http://127.0.0.1/?token=secret")
    try:
        tries = [
            f"open({str(page)!r})",
            f"__import__('os').listdir({str(page.parent)!r})",
            f"open('/proc/{served.pid}/environ').read()",
            f"__import__('os').listdir('/proc/{served.pid}/fd')",
        ]
        for one in tries:
            done = subprocess.run(
                ["/usr/bin/env", "python3", "-c", one],
                user="nobody",
                extra_groups=[],
                cwd="/",
                capture_output=True,
                text=True,
            )
            assert done.returncode and "PermissionError" in done.stderr, (one, done.stderr)
    finally:
        shutil.rmtree(page.parent)


def until(tab, script, seconds=60):
    """The value of the expression as soon as it is true."""
    late = time.monotonic() + seconds
    while not (value := tab.run(script)) and time.monotonic() < late:
        time.sleep(0.3)
    return value


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None, reason="no Chromium on this machine: apt-get install chromium")
def test_the_links_lead_to_filled_pages(served, tmp_path):
    table, charts = served.links
    with browsing(find_chromium(), tmp_path / "profile") as tab:
        tab.resize(1800, 1000)
        tab.open(table)
        assert until(tab, "document.querySelectorAll('.ag-center-cols-container [row-index]').length >= 4")
        shown = tab.run("document.body.innerText")
        assert shown.count("smoothing -0.2 · seed") == shown.count("plain training · seed") == 2
        for column in ("Duration", "test_acc", "embedder_acc1", "attack_acc1"):
            assert column in shown, column
        tab.open("about:blank")
        tab.open(charts)
        assert until(tab, "document.querySelectorAll('.js-plotly-plot .trace, .js-plotly-plot .points').length > 0")
        shown = tab.run("document.body.innerText")
        assert "Accuracy against leak" in shown and "No charts in this section" not in shown
        assert tab.run("location.href").startswith(f"http://127.0.0.1:{served.port}/#/experiments/1/")
        assert tab.run("document.cookie") == "", "scripts cannot read the cookie"


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None, reason="no Chromium on this machine: apt-get install chromium")
def test_the_file_that_a_browser_is_given_leads_to_the_page(served, tmp_path):
    """From a file, which to the browser is another site."""
    page = opening.leading_page(served.links[0])
    with browsing(find_chromium(), tmp_path / "profile") as tab:
        tab.open(page.as_uri())
        assert until(tab, "document.querySelectorAll('.ag-center-cols-container [row-index]').length >= 4")
        where = tab.run("location.href")
        assert where.startswith(f"http://127.0.0.1:{served.port}/#/experiments/1/") and served.token not in where
    shutil.rmtree(page.parent)
