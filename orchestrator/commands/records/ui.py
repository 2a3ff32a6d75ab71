"""`smoothsweep ui`: MLflow's pages on the local store, and the links to where its sweeps are compared.

The links hold a token that is made for this run, without which the server answers nothing (tracking/server/guard.py).
"""

from __future__ import annotations

import errno
import socket
import sys

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.text import printable
from smoothsweep.orchestrator.commands.records.opening import HOST, open_beside
from smoothsweep.orchestrator.store.opening import REMEDY, open_store
from smoothsweep.orchestrator.tracking import follow, list_sweep_pages, local_uri, refusals
from smoothsweep.orchestrator.tracking.server.guard import with_token
from smoothsweep.orchestrator.tracking.server.serving import become_server, new_token

WAITING = 1024  # connections that may wait until MLflow is loaded


def serve_pages(location: str, port: int, *, browser: bool) -> None:
    """Become MLflow's server on the store at `location`. Does not return.

    browser: whether to open the newest sweep in the user's. Raises InputError, before anything is started, where
    nothing was recorded or the port is taken: the links would lead to another's pages.
    """
    store = open_store(location)  # of a remote one, its mirror here
    database = store.root / "mlflow.db"
    if not database.is_file():
        raise InputError(f"{database}: expected the MLflow database of an earlier run, got none{REMEDY}")
    with _listening(port) as listening:
        port = listening.getsockname()[1]  # of 0, what the system chose
        uri, token, root = local_uri(store), new_token(), f"http://{HOST}:{port}"
        with refusals(uri):
            remarks, pages = follow(uri, store.root), list_sweep_pages(uri)
        for line in remarks:
            screen.err(line)
        lines = [f"MLflow on {with_token(root, token)} (Ctrl-C ends it; the token is for you alone)"]
        for page in pages:
            lines += [
                f"{printable(page.sweep)}: {what:<7} {with_token(root + route, token)}"
                for what, route in (("trials", page.table), ("charts", page.charts))
            ]
        screen.out_with_token("\n".join(lines))
        first = with_token(root + pages[0].table, token) if pages else ""
        browser_thread = open_beside(port, first) if browser and first else None  # noqa: F841 - ours until then
        sys.stdout.flush()
        become_server(uri, listening, token)


def _listening(port: int) -> socket.socket:
    """A socket that listens at the port, so that from now on the links lead to no other process."""
    listening = socket.socket()
    try:
        if sys.platform != "win32":  # there the option would let another take the port, here it shortens a wait
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen(WAITING)
    except (OSError, OverflowError) as error:
        listening.close()
        taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        reason = "one that another server listens on" if taken else str(error)
        raise InputError(f"--port {port}: expected a free port, got {reason}") from None
    return listening
