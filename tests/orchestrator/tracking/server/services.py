"""What may answer at a port instead of a tracking server, and how a URI is refused."""

import contextlib
import itertools
import re
import socket
import threading
import time

import pytest

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.tracking.server import connect

PASSWORD = "Qz7%40x%3Ay%2Fz"  # Qz7@x:y/z
PIECES = re.compile("Qz7|x:y|x%3Ay")

PAGE = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 5\r\n\r\nhello"


def closes(peer):
    """A service that hangs up."""


def is_silent(peer):
    while peer.recv(1000):
        pass


def answers_a_page(peer):
    peer.recv(1000)
    peer.sendall(PAGE)


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
    """A port of this machine at which something answers so; 0 for one at which nobody does."""

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


def refused(uri, capfd, seconds=60.0):
    """The line that refuses the URI, of which nothing else is printed."""
    started = time.monotonic()
    with pytest.raises(InputError) as caught:
        connect(uri)
    assert time.monotonic() - started < seconds
    line = str(caught.value)
    assert "\n" not in line and len(line) < 500 and not PIECES.search(line), line
    assert line.startswith("--tracking-uri ") and "expected an MLflow tracking store, got" in line
    assert capfd.readouterr() == ("", "")
    return line
