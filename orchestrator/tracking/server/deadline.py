"""Waiting for what may never come back: so long and no longer, and Ctrl-C ends the waiting at any moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def run_within(seconds: float, work: Callable[[], Result]) -> Result:
    """What `work` returns or raises; TimeoutError after so many seconds.

    The work happens in a thread that cannot be ended: it must be such that it may be left behind, to end with the
    process. In the caller's own thread a library's wait for the network would be deaf to signals.
    """
    results: list[Result] = []
    problem: list[BaseException] = []

    def attempt() -> None:
        try:
            results.append(work())
        except BaseException as error:
            problem.append(error)

    thread = threading.Thread(target=attempt, name="deadline", daemon=True)
    thread.start()
    thread.join(seconds)
    if problem:
        raise problem[0]
    if not results:
        raise TimeoutError(f"no answer within {seconds:g} s")
    return results[0]
