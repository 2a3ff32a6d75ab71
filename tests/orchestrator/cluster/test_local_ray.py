"""A Ray of a run alone: on the loopback interface, deaf without the token, which nobody can read who should not."""

import http.server
import os
import re
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import grpc
import psutil
import pytest
import ray

from orchestrator.cluster import listening, local_ray, tokens
from orchestrator.cluster.listening import ports_of, ray_methods
from orchestrator.doors.health import doctor

OPEN = {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": "a-word-that-everybody-knows"}


@pytest.fixture(scope="module")
def running_ray():
    """A local Ray with two workers, started where the user's settings would leave it open; the path of its token."""
    before = {name: os.environ.get(name) for name in OPEN}
    os.environ |= OPEN
    local_ray.start(num_cpus=2, object_store_memory=100 * 2**20)

    @ray.remote
    def work():
        return os.getpid()

    assert ray.get(work.remote()) != os.getpid()
    monitor = Path(ray._private.worker._global_node.get_session_dir_path()) / "logs" / "monitor.log"
    for _ in range(300):  # the process that would listen last, but for the dashboard's, which the drill waits for
        if monitor.is_file() and "metrics server on port" in monitor.read_text():
            break
        time.sleep(0.1)
    else:
        raise TimeoutError("Ray's monitor says nothing of its port")
    yield Path(os.environ["RAY_AUTH_TOKEN_PATH"])
    local_ray.stop()
    assert {name: os.environ[name] for name in OPEN} == OPEN, "the user's settings are as they were"
    local_ray._set(before)
    local_ray._read_anew()


def processes():
    return [psutil.Process(), *psutil.Process().children(recursive=True)]


def test_every_port_is_on_the_loopback_interface_and_every_call_asks_for_the_token(running_ray):
    ports = ports_of(os.getpid())
    assert {"gcs_server", "raylet"} <= {port.process for port in ports} and len(ports) >= 7
    assert [port for port in ports if not (port.is_loopback and port.is_guarded)] == []
    assert sum(port.refused for port in ports) > 150, "each call that each process knows"


def test_the_doctor_says_so_and_names_a_port_that_does_not_ask(running_ray, monkeypatch):
    monkeypatch.setattr(listening, "PATIENCE_S", 1.0)
    monkeypatch.setattr(doctor, "live_runs", lambda: [(os.getpid(), running_ray)])  # not those of others here
    (finding,) = doctor.running()
    assert finding.fine and re.fullmatch(
        rf"run {os.getpid()}: its Ray listens on \d+ ports of the loopback interface; "
        r"all of \d+ calls without the run's token were refused", finding.text
    )  # fmt: skip
    with socket.create_server(("0.0.0.0", 0)) as other:
        port, found = other.getsockname()[1], doctor.running()
    (odd,) = [finding for finding in found if not finding.fine]
    assert f"port {port} of every interface" in odd.text and not odd.needed


def test_who_has_the_token_is_answered(running_ray):
    with grpc.insecure_channel(ray.get_runtime_context().gcs_address) as channel:
        call = channel.unary_unary("/ray.rpc.NodeInfoGcsService/CheckAlive")
        assert "/ray.rpc.NodeInfoGcsService/CheckAlive" in ray_methods()
        assert call(b"", timeout=10, metadata=(("authorization", f"Bearer {running_ray.read_text()}"),))
        with pytest.raises(grpc.RpcError) as refused:
            call(b"", timeout=10, metadata=(("authorization", f"Bearer {OPEN['RAY_AUTH_TOKEN']}"),))
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_the_token_is_on_no_command_line_in_no_environment_and_in_no_log(running_ray):
    token = running_ray.read_text().encode()
    assert len(token) == 64
    for process in processes():
        for what in ("cmdline", "environ"):
            assert token not in Path(f"/proc/{process.pid}/{what}").read_bytes(), process
    session = Path(ray._private.worker._global_node.get_session_dir_path())
    read = [path.read_bytes() for path in session.rglob("*") if path.is_file()]
    assert len(read) > 5 and not any(token in content for content in read)


def test_the_token_is_for_its_owner_alone(running_ray):
    assert stat.S_IMODE(running_ray.stat().st_mode) == 0o600
    assert stat.S_IMODE(running_ray.parent.stat().st_mode) == 0o700
    assert (os.getpid(), running_ray) in tokens.live_runs()


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """An own temporary folder, so that no other run's is seen."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_each_run_has_its_own_token_and_leaves_none(temporary, monkeypatch):
    monkeypatch.setattr(local_ray, "_read_anew", lambda: None)
    tokens = []
    for _ in range(2):
        with local_ray._guarded():
            path = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
            tokens.append(path.read_text())
            assert os.environ["RAY_AUTH_MODE"] == "token"
        assert list(temporary.iterdir()) == []
    assert tokens[0] != tokens[1]


def test_what_a_killed_driver_left_is_swept_away_and_nothing_else(temporary, monkeypatch):
    monkeypatch.setattr(local_ray, "_read_anew", lambda: None)
    code = "import os, signal\n"
    code += "from orchestrator.cluster import tokens\nheld = tokens.new_token()\nheld.__enter__()\n"
    environment = {**os.environ, "TMPDIR": str(temporary)}
    subprocess.run([sys.executable, "-c", code + "os.kill(os.getpid(), 9)"], env=environment, timeout=120)
    (left,) = temporary.iterdir()
    kept = [temporary / name for name in (f"smoothsweep-ray-{os.getpid()}-x", "smoothsweep-ray-tomorrow-x", "other")]
    for folder in kept:
        folder.mkdir()
    with tokens.new_token() as live, local_ray._guarded():
        assert not left.exists() and live.exists() and all(folder.exists() for folder in kept)
        assert {path for _, path in tokens.live_runs()} == {live, Path(os.environ["RAY_AUTH_TOKEN_PATH"])}


def test_what_does_not_ask_is_told_apart(monkeypatch):
    """A web page, and a port that says nothing: neither is guarded."""
    monkeypatch.setattr(listening, "PATIENCE_S", 0.3)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    server.RequestHandlerClass.log_message = lambda *_: None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with socket.create_server(("0.0.0.0", 0)) as silent:
        found = {port.port: port for port in ports_of(os.getpid())}
        assert not found[silent.getsockname()[1]].is_loopback and not found[silent.getsockname()[1]].is_guarded
    page = found[server.server_port]
    server.shutdown()
    server.server_close()
    assert page.is_loopback and not page.is_guarded and "/" in page.answered
