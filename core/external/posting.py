"""Posting a question to an address that may be busy: in turn, within a budget, with patience, nowhere else."""

from __future__ import annotations

import time
from collections.abc import Mapping

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.answers import KeptAnswers
from smoothsweep.core.external.wire import NoResponse, exchange

ATTEMPTS = 5
LONGEST_PAUSE_S = 60.0
TIMEOUT_S = 60.0  # of an attempt, from its first byte to its last
BUSY = (408, 425, 429, 500, 502, 503, 504)


def posted(url: str, kept: KeptAnswers, body: bytes, headers: Mapping[str, str]) -> bytes:
    """The answer, at most a byte more than MOST_BYTES. Redirects are not followed: pictures go to the one place named.

    Every attempt takes its turn, and counts unless nothing of it left this machine. It ends after ATTEMPTS of at most
    TIMEOUT_S each, and the pauses between them. Raises InputError, one line, where nothing answers with status 200, and
    where the budget is spent.
    """
    reason = ""
    for attempt in range(ATTEMPTS):
        kept.take_turn(url)
        pause = min(LONGEST_PAUSE_S, 0.5 * 2**attempt)
        try:
            answer = exchange(url, body, headers, seconds=TIMEOUT_S)
            if answer.status == 200:
                return answer.body
            reason = f"status {answer.status}"
            if answer.status not in BUSY:
                raise InputError(f"{url}: expected an answer with status 200, got {reason}")
            pause = _asked_pause(answer.retry_after, pause)
        except NoResponse as error:
            reason = str(error)
            if not error.left:
                kept.give_turn_back()
        if attempt + 1 < ATTEMPTS:
            time.sleep(pause)
    raise InputError(
        f"{url}: expected an answer within {ATTEMPTS} attempts, got {reason}; what was answered is kept, "
        "and the same command goes on"
    )


def _asked_pause(header: str | None, pause: float) -> float:
    """Seconds to wait, as `Retry-After` says in seconds, within reason."""
    seconds = (header or "").strip()
    if not (seconds.isascii() and seconds.isdigit()):  # `isdigit` alone takes a superscript two
        return pause
    return LONGEST_PAUSE_S if len(seconds) > 4 else min(LONGEST_PAUSE_S, max(pause, float(seconds)))
