"""Ctrl-C and SIGTERM: once is an orderly stop, twice is at once. Neither is a traceback."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

EXIT_INTERRUPTED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM)  # a terminal's Ctrl-C; what `ray job stop` and batch systems send


class _Interrupts:
    """How often this process was told to end."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1:
            os.write(sys.stderr.fileno(), b"\nsmoothsweep: ended at once; the same command goes on from here\n")
            os._exit(EXIT_INTERRUPTED)
        raise KeyboardInterrupt


_interrupts = _Interrupts()


def listen() -> None:
    """Take the signals over; again after whoever else did (Ray, when it starts). Only the main thread can."""
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            signal.signal(number, _interrupts)
