"""What stands at a tracking URI: an MLflow, or one clear line at once."""

import http.server
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.core.uris import shown_uri
from smoothsweep.orchestrator.tracking.server import connect


@contextmanager
def web_server(answer):
    """A server that answers every GET and POST by what `answer(path)` says: (status, content type, text)."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def _reply(self):
            status, kind, text = answer(self.path)
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = _reply

        def log_message(self, *arguments):
            """Quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def refused(uri):
    started = time.monotonic()
    with pytest.raises(InputError) as told:
        connect(uri)
    assert time.monotonic() - started < 60, "no retries of minutes"
    text = str(told.value)
    assert "\n" not in text
    assert text.startswith(f"--tracking-uri {shown_uri(uri)}: expected an MLflow tracking store, got: ")
    return text.split("got: ", 1)[1]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((200, "text/html; charset=utf-8", "<html>Welcome</html>"), "another service (its /version is text/html"),
        ((200, "application/json", '{"hello": "world"}'), "another service (its /version is application/json"),
        ((404, "text/plain", "nothing here"), "status 404"),
        ((401, "text/plain", "no"), "MLFLOW_TRACKING_USERNAME"),
        ((403, "application/json", "{}"), "403"),
        ((500, "text/plain", "3.1.0"), "status 500"),
        ((200, "text/plain", "1.30.1"), "an MLflow server 1.30.1, which our client"),
    ],
)
def test_what_is_no_mlflow_is_named(answer, words):
    with web_server(lambda path: answer) as uri:
        assert words in refused(uri)


def test_nobody_there_is_said_at_once():
    assert "connection refused" in refused(f"http://127.0.0.1:{free_port()}").lower()
    assert "refused" in refused(f"postgresql+psycopg2://me:secret@127.0.0.1:{free_port()}/mlflow").lower()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_two_drivers_that_begin_at_once_find_one_database(tmp_path):
    """MLflow makes its tables without a lock; whoever comes second waits."""
    code = "import sys; from smoothsweep.orchestrator.tracking.server import connect; connect(sys.argv[1])"
    begun = [
        subprocess.Popen([sys.executable, "-c", code, f"sqlite:///{tmp_path}/mlflow.db"], stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    for process in begun:
        _, said = process.communicate(timeout=240)
        assert process.returncode == 0, said
