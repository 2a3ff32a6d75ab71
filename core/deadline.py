"""Work that may not answer: what is waited for, and no longer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

Result = TypeVar("Result")


def run_within(seconds: float, work: Callable[[], Result]) -> Result:
    """What `work` returns or raises; TimeoutError after so many seconds.

    The work happens in a thread that cannot be ended: it must be such that it may be left behind, to end with the
    process. In the caller's own thread a library's wait for the network would be deaf to signals.
    """
    future: Future[Result] = Future()

    def attempt() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=attempt, name="deadline", daemon=True).start()
    if not wait([future], seconds).done:
        raise TimeoutError(f"no answer within {seconds:g} s")
    return future.result()
