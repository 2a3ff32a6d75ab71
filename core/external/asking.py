"""Asking a service elsewhere: where to, within a budget, how long, what it has answered before.

No setting of the environment changes where a question goes or what it says: no proxy, no `~/.netrc`, no redirect. Every
attempt has a deadline for the whole of it, looking the host's name up included.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import ssl
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from smoothsweep.core.errors import InputError
from smoothsweep.core.text import first_sentence, shortened
from smoothsweep.core.uris import shown_uri

PLAIN = "http(s)://HOST/PATH without user, query or fragment"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])"
_PLAIN = re.compile(rf"https?://{_HOST}(?::[0-9]{{1,5}})?(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:/-]|%[0-9A-Fa-f]{{2}})*)?")
_TOKEN = re.compile(r"[!-~]+")

ATTEMPTS = 5
LONGEST_PAUSE_S = 60.0
TIMEOUT_S = 60.0  # of an attempt, from looking up the name to the last byte
BUSY = (408, 425, 429, 500, 502, 503, 504)
MOST_BYTES = 4 * 2**20  # of an answer's body, unpacked: a hundred thousand scores
WAIT_S = 120.0  # for another process that writes the answers

_TABLES = """
CREATE TABLE IF NOT EXISTS answers (digest TEXT PRIMARY KEY, answer TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS agreed (one INTEGER PRIMARY KEY CHECK (one = 1), queries INTEGER NOT NULL,
                                   per_second REAL NOT NULL, asked INTEGER NOT NULL, next REAL NOT NULL);
"""


def is_plain(url: str) -> bool:
    """Whether it is http or https, a host and a path, and nothing that can be a secret: such addresses are written into
    files that others read. What readers of URLs would take apart in different ways is none."""
    match = _PLAIN.fullmatch(url)
    place = url.partition("//")[2].partition("/")[0]  # a path may hold a colon and digits, too
    port = re.search(r":([0-9]+)$", place.rpartition("]")[2]) if match else None
    return match is not None and (port is None or 0 < int(port[1]) < 65536)


def check_plain(url: object) -> None:
    """Raise InputError, without what may be secret in it, for the URL of an endpoint that is not plain."""
    if not isinstance(url, str) or not is_plain(url):
        name = shortened(shown_uri(url)) if isinstance(url, str) else "no address"
        raise InputError(f"{name}: expected {PLAIN}; a token's place is the environment variable of --token-env")


def bearer(variable: str) -> dict[str, str]:
    """The header with the token that this environment variable holds; none where it is not set.

    Raises InputError, without the token, for one that no header can hold: it would break the request, or add to it.
    """
    token = os.environ.get(variable)
    if not token:
        return {}
    if not _TOKEN.fullmatch(token):
        raise InputError(f"{variable}: expected a token of printable ASCII characters without spaces, got another")
    return {"Authorization": f"Bearer {token}"}


class KeptAnswers:
    """What a service has answered, and how often and how fast it may be asked, in one SQLite file that all processes of
    a machine share. Opened anew for every look, so that it can be sent to other processes."""

    def __init__(self, path: Path, *, more: str = "--queries") -> None:
        """more: by what a user says that more may be asked."""
        self.path, self._more = path, more

    def agree(self, *, queries: int, per_second: float) -> None:
        """Makes the file where there is none. queries: that may be sent in all, those that were sent included."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path, timeout=WAIT_S)) as base, base:
            base.executescript(_TABLES)
            base.execute(
                "INSERT INTO agreed VALUES (1, ?, ?, 0, 0) ON CONFLICT (one) DO UPDATE SET queries = ?, per_second = ?",
                (queries, per_second, queries, per_second),
            )

    def get(self, digest: str) -> Any:
        """The answer, None for what was never answered."""
        with self._open() as base:
            row = base.execute("SELECT answer FROM answers WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else json.loads(row[0])

    def put(self, digest: str, answer: Any) -> None:
        """Keeps an answer."""
        with self._open() as base:
            base.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (digest, json.dumps(answer)))

    @property
    def asked(self) -> int:
        """How many queries were sent."""
        with self._open() as base:
            return base.execute("SELECT asked FROM agreed").fetchone()[0]

    def take_turn(self, who: str) -> None:
        """Counts a query and waits until it may be sent. Raises InputError, one line, where the budget is spent."""
        with self._open() as base:
            base.execute("BEGIN IMMEDIATE")
            row = base.execute("SELECT queries, per_second, asked, next FROM agreed").fetchone()
            queries, per_second, sent, free = row
            if sent >= queries:
                raise InputError(
                    f"{who}: expected no more than {queries} queries, got one after all were spent: what "
                    f"was answered is kept; say more with {self._more}"
                )
            turn = max(time.time(), free)
            base.execute("UPDATE agreed SET asked = asked + 1, next = ?", (turn + 1 / per_second,))
        time.sleep(max(0.0, turn - time.time()))

    def give_turn_back(self) -> None:
        """Take a query off the count that never left this machine."""
        with self._open() as base:
            base.execute("UPDATE agreed SET asked = max(0, asked - 1)")

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        if not self.path.is_file():
            raise InputError(f"{self.path}: expected an endpoint's answers, got nothing: import it again")
        with closing(sqlite3.connect(self.path, timeout=WAIT_S, isolation_level=None)) as base:
            try:
                yield base
            except BaseException:
                if base.in_transaction:
                    base.rollback()
                raise
            if base.in_transaction:
                base.commit()


class NoResponse(Exception):
    """No answer that can be read. The message is a few words; left: whether something of the request was sent."""

    def __init__(self, words: str, *, left: bool) -> None:
        super().__init__(words)
        self.left = left


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
            status, retry_after, answer = _within(TIMEOUT_S, url, body, headers)
            if status == 200:
                return answer
            reason = f"status {status}"
            if status not in BUSY:
                raise InputError(f"{url}: expected an answer with status 200, got {reason}")
            pause = _asked_pause(retry_after, pause)
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


def _within(seconds: float, url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, str | None, bytes]:
    """Status, `Retry-After` and body of one POST, within so many seconds in all. Raises NoResponse.

    requests limits each wait for bytes, not their sum, nor looking a name up; so the thread that waits is left alone.
    """
    found: list[tuple[int, str | None, bytes] | Exception] = []

    def ask() -> None:
        try:
            found.append(_exchange(url, body, headers, until=deadline, seconds=seconds))
        except Exception as error:  # told where it is asked
            found.append(error)

    deadline = time.monotonic() + seconds
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    late = NoResponse(f"no complete answer within {seconds:g} s", left=True)
    answer = found[0] if found else late
    if isinstance(answer, Exception):
        raise answer
    return answer


def _exchange(
    url: str, body: bytes, headers: Mapping[str, str], *, until: float, seconds: float
) -> tuple[int, str | None, bytes]:
    import requests
    from requests import exceptions
    from requests.adapters import HTTPAdapter
    from urllib3.exceptions import NewConnectionError

    class Trusting(HTTPAdapter):
        """Trusts the machine's authorities beside Mozilla's, or those alone that the user names."""

        def init_poolmanager(self, *given: Any, **named: Any) -> None:
            context = None if authorities else ssl.create_default_context()
            super().init_poolmanager(*given, ssl_context=context, **named)

    authorities = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("SSL_CERT_FILE")
    try:
        with requests.Session() as session:
            session.trust_env = False
            session.verify = authorities or True
            session.mount("https://", Trusting())
            asked = {"Connection": "close", "Accept-Encoding": "identity", **headers}
            how: dict[str, Any] = {"timeout": seconds, "stream": True, "allow_redirects": False}
            with session.post(url, data=body, headers=asked, **how) as response:
                content = bytearray()
                for block in response.iter_content(2**12) if response.status_code == 200 else ():
                    content += block
                    if time.monotonic() > until:
                        raise exceptions.Timeout
                    if len(content) > MOST_BYTES:
                        break
                return response.status_code, response.headers.get("Retry-After"), bytes(content[: MOST_BYTES + 1])
    except exceptions.SSLError as error:
        raise NoResponse(f"no secure connection: {_reason(error)}", left=False) from None
    except exceptions.Timeout as error:
        left = not isinstance(error, exceptions.ConnectTimeout)
        raise NoResponse(f"no complete answer within {seconds:g} s", left=left) from None
    except exceptions.ConnectionError as error:
        if isinstance(getattr(error.args[0] if error.args else None, "reason", None), NewConnectionError):
            raise NoResponse(f"no connection: {_reason(error)}", left=False) from None
        raise NoResponse(f"an answer that breaks off or is no HTTP: {_reason(error)}", left=True) from None
    except exceptions.RequestException as error:
        raise NoResponse(f"an answer that is damaged: {_reason(error)}", left=True) from None
    except OSError as error:  # a file of authorities that is not there
        raise NoResponse(f"no connection: {first_sentence(error)}", left=False) from None


def _reason(error: Exception) -> str:
    """The innermost cause that the libraries name."""
    cause: Any = error
    while (inner := getattr(cause, "reason", None) or (cause.args[-1] if cause.args else None)) is not None:
        if not isinstance(inner, Exception):
            break
        cause = inner
    return shortened(
        getattr(cause, "verify_message", None) or getattr(cause, "strerror", None) or first_sentence(cause)
    )
