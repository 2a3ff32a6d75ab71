"""Open a page in the user's browser as soon as its server answers: a process beside the server. Loads nothing of ours.

Only where there is a browser with a window, since what Python else finds is a text browser that takes the terminal.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import webbrowser

HOST = "127.0.0.1"
PATIENCE_S = 120.0  # for the server to answer
LOOK_EVERY_S = 0.2
WINDOWED = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")  # one of them is set where a browser can show itself


def open_beside(port: int, address: str) -> subprocess.Popen[bytes] | None:
    """Start the process that waits for this one, which is about to become the server at `port`, and opens `address`.

    Returns it; None where no browser could show itself.
    """
    if sys.platform not in ("darwin", "win32") and not any(os.environ.get(name) for name in WINDOWED):
        return None
    return subprocess.Popen([sys.executable, "-m", __name__, str(port), address])


def answers(port: int) -> bool:
    """Whether somebody listens on this port of this machine."""
    with socket.socket() as connection:
        connection.settimeout(1.0)
        return connection.connect_ex((HOST, port)) == 0


def open_when_served(port: int, address: str, patience_s: float = PATIENCE_S) -> bool:
    """False where the server, our parent process, ends or never answers."""
    late, server = time.monotonic() + patience_s, os.getppid()
    while time.monotonic() < late and os.getppid() == server:
        if answers(port):
            return webbrowser.open(address)
        time.sleep(LOOK_EVERY_S)
    return False


if __name__ == "__main__":
    open_when_served(int(sys.argv[1]), sys.argv[2])
