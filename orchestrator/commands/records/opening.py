"""Open a page in the user's browser as soon as its server answers: a process beside the server. Loads nothing of ours.

Only where there is a browser with a window, since what Python else finds is a text browser that takes the terminal.
The address holds a token, which command lines would show to every user of the machine. So the browser is given a file
that leads there, which the user alone can read and which is soon removed. Pattern: Jupyter Server's redirect file.
"""

from __future__ import annotations

import contextlib
import html
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import webbrowser
from pathlib import Path

HOST = "127.0.0.1"
PATIENCE_S = 120.0  # for the server to answer
KEPT_S = 60.0  # for the browser to start and read the file
LOOK_EVERY_S = 0.2
WINDOWED = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")  # one of them is set where a browser can show itself
PAGE = "open.html"


def open_beside(port: int, address: str) -> subprocess.Popen[bytes] | None:
    """Start the process that waits for this one, which is about to become the server at `port`, and opens `address`.

    Returns it; None where no browser could show itself.
    """
    if sys.platform not in ("darwin", "win32") and not any(os.environ.get(name) for name in WINDOWED):
        return None
    page = leading_page(address)
    return subprocess.Popen([sys.executable, "-m", __name__, str(port), str(page)])


def leading_page(address: str) -> Path:
    """Write a page that leads to the address: mode 600, in a folder of mode 700 of its own."""
    page = Path(tempfile.mkdtemp(prefix="smoothsweep-ui-")) / PAGE
    script = json.dumps(address).replace("<", "\\u003c")
    descriptor = os.open(page, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(
            f'<!doctype html><meta charset="utf-8"><title>smoothsweep ui</title>'
            f"<script>location.replace({script})</script>"
            f'<a href="{html.escape(address)}">MLflow</a>\n'
        )
    return page


def answers(port: int) -> bool:
    """Whether a server at this port of this machine answers a request; that the port is open does not suffice."""
    with socket.socket() as connection, contextlib.suppress(OSError):
        connection.settimeout(1.0)
        connection.connect((HOST, port))
        connection.sendall(b"HEAD / HTTP/1.0\r\nHost: %s:%d\r\n\r\n" % (HOST.encode(), port))
        return bool(connection.recv(1))
    return False


def open_when_served(port: int, page: Path, patience_s: float = PATIENCE_S, kept_s: float = KEPT_S) -> bool:
    """Open the page, and remove its folder after `kept_s` seconds or with the server, which is our parent process.

    False where the server ends or never answers.
    """
    late, server = time.monotonic() + patience_s, os.getppid()
    try:
        while time.monotonic() < late and os.getppid() == server:
            if answers(port):
                opened, late = webbrowser.open(page.as_uri()), time.monotonic() + kept_s
                while time.monotonic() < late and os.getppid() == server:
                    time.sleep(LOOK_EVERY_S)
                return opened
            time.sleep(LOOK_EVERY_S)
        return False
    finally:
        shutil.rmtree(page.parent, ignore_errors=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C ends the server, and us with it
        open_when_served(int(sys.argv[1]), Path(sys.argv[2]))
