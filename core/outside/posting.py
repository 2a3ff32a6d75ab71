"""Posting a question to an address that may be busy: in turn, within a budget, with patience, nowhere else."""

from __future__ import annotations

import time
from collections.abc import Mapping

import requests

from core.errors import InputError
from core.outside.answers import KeptAnswers

ATTEMPTS = 5
LONGEST_PAUSE_S, TIMEOUT_S = 60.0, 30.0
BUSY = (408, 425, 429, 500, 502, 503, 504)
MOST_BYTES = 4 * 2**20  # of an answer: a hundred thousand scores


def posted(session: requests.Session, url: str, kept: KeptAnswers, body: bytes, headers: Mapping[str, str]) -> bytes:
    """The answer, at most a byte more than MOST_BYTES. Redirects are not followed: pictures go to the one place named.

    Every attempt takes its turn and counts. Raises InputError, one line, where nothing answers with status 200, and
    where the budget is spent.
    """
    for attempt in range(ATTEMPTS):
        kept.take_turn(url)
        pause, reason = min(LONGEST_PAUSE_S, 0.5 * 2**attempt), ""
        try:
            with session.post(url, data=body, headers=dict(headers), timeout=TIMEOUT_S, stream=True,
                              allow_redirects=False) as response:  # fmt: skip
                if response.status_code == 200:
                    return response.raw.read(MOST_BYTES + 1, decode_content=True)
                reason = f"status {response.status_code}"
                if response.status_code not in BUSY:
                    raise InputError(f"{url}: expected an answer with status 200, got {reason}")
                pause = _asked_pause(response.headers.get("Retry-After"), pause)
        except requests.RequestException as error:
            reason = type(error).__name__
        if attempt + 1 < ATTEMPTS:
            time.sleep(pause)
    raise InputError(f"{url}: expected an answer within {ATTEMPTS} attempts, got {reason}; what was answered is kept, "
                     "and the same command goes on")  # fmt: skip


def _asked_pause(said: str | None, pause: float) -> float:
    """Seconds to wait, as `Retry-After` says in seconds, within reason."""
    return min(LONGEST_PAUSE_S, max(pause, float(said))) if said is not None and said.isdigit() else pause
