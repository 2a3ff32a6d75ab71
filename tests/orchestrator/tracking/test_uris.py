"""Whatever stands at a tracking URI: an MLflow, or one clear line within seconds, without a password."""

import contextlib
import itertools
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.running.recorder import open_recorder
from smoothsweep.orchestrator.tracking.server import connect

PASSWORD = "Qz7%40x%3Ay%2Fz"  # Qz7@x:y/z
PIECES = re.compile("Qz7|x:y|x%3Ay")


def refused(uri, capfd, *, ours=False):
    """What the line says that refuses the URI, of which nothing else is printed."""
    started = time.monotonic()
    with pytest.raises(InputError) as caught:
        connect(uri, ours=ours)
    assert time.monotonic() - started < 60, "no retries of minutes"
    line = str(caught.value)
    assert "\n" not in line and len(line) < 500 and not PIECES.search(line), line
    assert line.startswith("--tracking-uri ") and "expected an MLflow tracking store, got" in line
    assert capfd.readouterr() == ("", "")
    return line.split("tracking store, got", 1)[1]


def closes(peer):
    """A service that hangs up."""


def is_silent(peer):
    while peer.recv(1000):
        pass


def answers_nonsense(peer):
    peer.sendall(bytes(range(256)))
    is_silent(peer)


def dribbles(peer):
    """It would keep a client for days that waits for each byte anew."""
    with contextlib.suppress(OSError):
        for byte in itertools.chain(b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n", itertools.repeat(46)):
            peer.sendall(bytes([byte]))
            time.sleep(0.05)


@contextlib.contextmanager
def service(behaviour):
    """A port of this machine at which something answers so."""

    def serve():
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listening.accept()
                threading.Thread(target=attend, args=(peer,), daemon=True).start()

    def attend(peer):
        with peer, contextlib.suppress(OSError):
            behaviour(peer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]


@pytest.mark.parametrize("behaviour", [closes, is_silent, answers_nonsense, dribbles])
@pytest.mark.parametrize("scheme", ["http", "https", "postgresql+psycopg2", "mysql+pymysql"])
def test_a_port_with_something_else_on_it(scheme, behaviour, hasty, capfd):
    with service(behaviour) as port:
        refused(f"{scheme}://me:{PASSWORD}@127.0.0.1:{port}/mlflow", capfd)


def says(status, kind, text):
    """A web server that answers everything so."""
    head = f"HTTP/1.1 {status} so\r\ncontent-type: {kind}\r\ncontent-length: {len(text)}\r\nconnection: close\r\n\r\n"

    def answer(peer):
        peer.recv(10_000)
        peer.sendall(f"{head}{text}".encode())

    return answer


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((200, "text/html; charset=utf-8", "<html>Welcome</html>"), "Welcome"),
        ((404, "text/plain", "nothing here"), "status 404"),
        ((401, "text/plain", "no"), "MLFLOW_TRACKING_USERNAME"),
        ((500, "text/plain", "3.1.0"), "status 500"),
        ((200, "text/plain", "1.30.1"), "1.30.1"),
    ],
)
def test_what_is_no_mlflow_is_named(answer, words, capfd):
    with service(says(*answer)) as port:
        assert words in refused(f"http://127.0.0.1:{port}", capfd)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "nonsense",
        "http://",
        "http://host:port",
        "postgresql+nothing://u@127.0.0.1/db",
        "postgresql://me:Qz7",
        "postgresql://me:Qz7@x:y/z@127.0.0.1/db",
        "http://me:Qz7/x:y@127.0.0.1:1",
        "s3://bucket/x",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite://host/x",
        "http://127.0.0.1:99999",
        "http://\n/",
        "sqlite:///\0",
    ],
)
def test_what_is_no_uri_of_a_tracking_store(uri, hasty, capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    refused(uri, capfd)
    assert list(tmp_path.iterdir()) == [], "nothing is written"


def test_an_empty_uri_is_not_taken_for_none(load, store):
    with pytest.raises(InputError, match="--tracking-uri : expected"):
        open_recorder(load(), store, "")


@pytest.mark.parametrize("start", ["http://", "postgresql+psycopg2://me:secret@"])
def test_nobody_there_is_said_at_once(start, capfd):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert "refused" in refused(f"{start}127.0.0.1:{port}", capfd).lower()


def test_ctrl_c_ends_the_wait_for_a_silent_database():
    code = (
        "import sys\nfrom smoothsweep.orchestrator.cluster import interrupts\n"
        "from smoothsweep.orchestrator.tracking import server\nserver.PROBE_S = 600\n"
        "interrupts.listen()\nprint('asking', flush=True)\n"
        "try:\n    server.connect(sys.argv[1])\nexcept KeyboardInterrupt:\n    sys.exit(130)\n"
    )
    connections = threading.Semaphore(0)

    def notes(peer):
        connections.release()
        is_silent(peer)

    with service(notes) as port:
        uri = f"postgresql+psycopg2://me@127.0.0.1:{port}/mlflow"
        asking = subprocess.Popen([sys.executable, "-c", code, uri], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert asking.stdout.readline() == b"asking\n"
        assert connections.acquire(timeout=60)
        time.sleep(0.5)  # the driver waits for its answer
        asking.send_signal(signal.SIGINT)
        assert asking.wait(timeout=60) == 130, "it waited for the server"
        assert asking.stderr.read() == b""
