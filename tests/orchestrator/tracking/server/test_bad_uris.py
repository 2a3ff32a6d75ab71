"""Whatever stands at a tracking URI: one line in seconds, without a password, and nothing else is printed."""

import signal
import subprocess
import sys
import threading
import time

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.running.recorder import open_recorder
from tests.orchestrator.tracking.server.services import (
    PASSWORD,
    answers_a_page,
    answers_nonsense,
    closes,
    dribbles,
    is_silent,
    refused,
    service,
)

SCHEMES = ("http", "https", "postgresql+psycopg2", "postgresql", "mysql+pymysql", "mssql+pyodbc")


@pytest.mark.parametrize("behaviour", [closes, is_silent, answers_a_page, answers_nonsense, dribbles])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_port_with_something_else_on_it(scheme, behaviour, hasty, capfd):
    with service(behaviour) as port:
        refused(f"{scheme}://me:{PASSWORD}@127.0.0.1:{port}/mlflow", capfd)


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
        for _ in range(2):  # whether anybody listens, then the question
            assert connections.acquire(timeout=60)
        time.sleep(0.5)  # the driver waits for its answer
        asking.send_signal(signal.SIGINT)
        assert asking.wait(timeout=60) == 130, "it waited for the server"
        assert asking.stderr.read() == b""
