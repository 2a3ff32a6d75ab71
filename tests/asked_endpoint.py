"""An endpoint of bare sockets, asked with short waits."""

import time
from unittest.mock import patch

import numpy as np
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.external import posting
from smoothsweep.core.external.endpoint import Endpoint

TIMEOUT_S, ATTEMPTS, GRACE_S = 0.5, 2, 20.0
GOOD = b'{"scores": [0.25, 0.5, 0.25], "label": 1}'
FAST = {"TIMEOUT_S": TIMEOUT_S, "ATTEMPTS": ATTEMPTS, "LONGEST_PAUSE_S": 0.001}


def http(body=GOOD, status="200 OK", headers=(), length=True):
    lines = [f"HTTP/1.1 {status}".encode(), *([b"Content-Length: %d" % len(body)] if length else []), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def ask(server, kept, answers="logits", steps=None, seconds=TIMEOUT_S):
    """(what came, or the line that was said; seconds), with short waits. seconds: of an attempt."""
    if steps is not None:
        server.play, server.connections = [steps], 0
    before, started = kept.asked, time.monotonic()
    with patch.multiple(posting, **FAST | {"TIMEOUT_S": seconds}):
        try:
            shade = float(np.random.default_rng(time.monotonic_ns()).random())  # never asked before
            found = Endpoint(server.url, kept, token_env=None, answers=answers)(torch.full((1, 3, 4, 4), shade))
        except InputError as error:
            found = str(error)
    counted, unread = kept.asked - before, ("unread",) in (steps or ())
    # A server that resets a connection without reading may do so before anything has left.
    assert counted <= server.connections if unread else counted == server.connections, "what left is counted"
    return found, time.monotonic() - started
