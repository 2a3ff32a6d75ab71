"""Models that are no file but have a name: a function of the user's, and an HTTP endpoint; and how a service is asked.

`python:module:factory` runs whatever the module does. To an endpoint goes `POST`, body a PNG; JSON comes back,
`{"scores": [...]}` or `{"label": 3}`. Nothing is sent without the user's consent. Every answer is kept by the picture's
digest, so that nothing is asked twice, and a run that was stopped goes on.

No setting of the environment changes where a question goes or what it says: no proxy, no `~/.netrc`, no redirect. Every
attempt has a deadline for the whole of it, looking the host's name up included.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import math
import os
import re
import sqlite3
import ssl
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsweep.core.arguments import option
from smoothsweep.core.cards import read_card
from smoothsweep.core.deadline import run_within
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import Budget, ForeignModel
from smoothsweep.core.held import held, is_held
from smoothsweep.core.text import first_sentence, shortened
from smoothsweep.core.uris import shown_uri

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor

    from smoothsweep.core.external.model import OpenedModel


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

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        if not self.path.is_file():
            raise InputError(f"{self.path}: expected an endpoint's answers, got nothing: import it again")
        with closing(sqlite3.connect(self.path, timeout=WAIT_S, isolation_level=None)) as base, base:
            yield base


def posted(url: str, kept: KeptAnswers, body: bytes, headers: Mapping[str, str]) -> bytes:
    """The answer, at most a byte more than MOST_BYTES. Redirects are not followed: pictures go to the one place named.

    Every attempt takes its turn, and counts. It ends after ATTEMPTS of at most TIMEOUT_S each, and the pauses between
    them. Raises InputError, one line, where nothing answers with status 200, and where the budget is spent.
    """
    reason = ""
    for attempt in range(ATTEMPTS):
        kept.take_turn(url)
        pause = min(LONGEST_PAUSE_S, 0.5 * 2**attempt)
        try:  # requests limits each wait for bytes, not their sum, nor looking a name up
            status, retry_after, answer = run_within(TIMEOUT_S, lambda: _exchange(url, body, headers))
            if status == 200:
                return answer
            reason = f"status {status}"
            if status not in BUSY:
                raise InputError(f"{url}: expected an answer with status 200, got {reason}")
            if (asked := (retry_after or "").strip()).isascii() and asked.isdigit():  # seconds, within reason
                pause = LONGEST_PAUSE_S if len(asked) > 4 else min(LONGEST_PAUSE_S, max(pause, float(asked)))
        except OSError as error:  # those of requests, of files of authorities, and of the deadline
            reason = _reason(error)
        if attempt + 1 < ATTEMPTS:
            time.sleep(pause)
    raise InputError(
        f"{url}: expected an answer within {ATTEMPTS} attempts, got {reason}; what was answered is kept, "
        "and the same command goes on"
    )


def _exchange(url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, str | None, bytes]:
    """Status, `Retry-After` and body of one POST. Raises OSError, which requests' own errors are."""
    import requests
    from requests.adapters import HTTPAdapter

    class Trusting(HTTPAdapter):
        """Trusts the machine's authorities beside Mozilla's, or those alone that the user names."""

        def init_poolmanager(self, *given: Any, **named: Any) -> None:
            context = None if authorities else ssl.create_default_context()
            super().init_poolmanager(*given, ssl_context=context, **named)

    authorities = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("SSL_CERT_FILE")
    with requests.Session() as session:
        session.trust_env = False
        session.verify = authorities or True
        session.mount("https://", Trusting())
        asked = {"Connection": "close", "Accept-Encoding": "identity", **headers}
        how: dict[str, Any] = {"timeout": 2 * TIMEOUT_S, "stream": True, "allow_redirects": False}
        with session.post(url, data=body, headers=asked, **how) as response:
            content = bytearray()
            for block in response.iter_content(2**12) if response.status_code == 200 else ():
                content += block
                if len(content) > MOST_BYTES:
                    break
            return response.status_code, response.headers.get("Retry-After"), bytes(content[: MOST_BYTES + 1])


def _reason(error: Exception) -> str:
    """The innermost cause that the libraries name."""
    cause: Any = error
    while (inner := getattr(cause, "reason", None) or (cause.args[-1] if cause.args else None)) is not None:
        if not isinstance(inner, Exception):
            break
        cause = inner
    words = getattr(cause, "verify_message", None) or getattr(cause, "strerror", None) or first_sentence(cause)
    return shortened(f"no whole answer: {words}" if cause is not error else words)


PREFIX, FORM = "python:", "python:MODULE:FACTORY"
HELD = "held"
"""Key of a card that names an object of this process (`core.held`) in the place of a factory."""
QUERIES, PER_SECOND = 5000, 5.0
MOST_FLOAT = (2 - 2**-23) * 2.0**127  # of float32
_HEADERS = {"Content-Type": "image/png", "Accept": "application/json"}


@dataclass(frozen=True, kw_only=True)
class HTTPEndpoint(ForeignModel):
    """A server that answers pictures.

    Attributes:
        queries: Queries in all.
        token_env: The environment variable with its bearer token.
    """

    words = "an HTTP endpoint"
    file = "endpoint.json"
    prefixes = ("http://", "https://")
    form = "http(s)://HOST/PATH"
    sent_pictures = True
    options = (
        "how an endpoint is asked",
        "Pictures of people leave this machine: nothing is sent without --yes. What was answered is never asked again.",
    )

    yes: bool = option("send the pictures of --data, and what attacks draw", default=False, action="store_true")
    queries: int | None = option(f"at most so many in all (default: {QUERIES})", metavar="N", type=int)
    per_second: float | None = option(f"no faster than that (default: {PER_SECOND:g})", metavar="N", type=float)
    token_env: str | None = option("the environment variable that holds its bearer token", metavar="NAME")

    def __post_init__(self) -> None:
        if self.queries is not None and self.queries < 1:
            raise InputError(f"--queries: expected at least 1, got {self.queries}")
        if self.per_second is not None and not (math.isfinite(self.per_second) and self.per_second > 0):
            raise InputError(f"--per-second: expected more than 0, got {self.per_second:g}")

    def check(self, name: str | None) -> None:
        """Refuse an address that may hold a secret, and to send anything without consent."""
        if name is not None:
            check_plain(name)
        if not self.yes:
            many = self.budget.queries
            raise InputError(
                f"{name or 'the endpoint'}: expected --yes, since up to {many} pictures would be sent to it, those of "
                "--data among them; nothing was sent"
            )

    def agree(self, folder: Path) -> None:
        """How often and how fast it may be asked, noted where its answers are kept."""
        KeptAnswers(answers_database(folder)).agree(queries=self.budget.queries, per_second=self.budget.per_second)

    @property
    def budget(self) -> Budget:
        """The limits that were stated, or the usual ones."""
        return Budget(queries=self.queries or QUERIES, per_second=self.per_second or PER_SECOND)

    def describe(self, name: str, folder: Path) -> str:
        """Its address and where its answers are kept, as JSON; of its token the environment variable's name alone."""
        check_plain(name)
        answers = str(answers_database(folder).resolve())
        return json.dumps({"url": name, "answers": answers, "token_env": self.token_env}, indent=1) + "\n"

    @staticmethod
    def open(path: Path, settings: Mapping[str, Any], device: torch.device) -> OpenedModel:
        """The endpoint, of pictures float32 [n, 3, S, S] in [0, 1]. Asks nothing yet. Raises InputError, one line."""
        from smoothsweep.core.external.model import OpenedModel

        card = read_card(path, "what describes an endpoint")
        check_plain(card["url"])
        kept = KeptAnswers(Path(card["answers"]))
        asking = Endpoint(card["url"], kept, token_env=card.get("token_env"), answers=settings["answers"])
        return OpenedModel(answer=asking, differentiable=False, own_input=True)


def answers_database(folder: Path) -> Path:
    """Where the answers of an endpoint are kept whose card lies in `folder`: they stay when the card is made anew."""
    return folder.with_name(f"{folder.name}.answers.sqlite")


class Endpoint:
    """Asks for one picture after the other, no faster than agreed, and never for one that was answered before."""

    def __init__(self, url: str, kept: KeptAnswers, *, token_env: str | None, answers: str) -> None:
        self._url, self._kept, self._answers = url, kept, answers
        self._key = "label" if answers == "labels" else "scores"
        self._headers = dict(_HEADERS)
        if token_env is not None:
            self._headers |= bearer(token_env)
            if "Authorization" not in self._headers:
                raise InputError(f"{url}: expected its token in the environment variable {token_env}, got none")

    def __call__(self, images: Tensor) -> Tensor:
        """Scores float32 [n, C], or labels int64 [n], on the CPU.

        Raises InputError where the budget is spent, and for an answer of another form.
        """
        import numpy as np
        import torch

        pixels = (images.detach().clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()
        answers = [self._answer(np.ascontiguousarray(picture)) for picture in pixels]
        if self._key == "scores" and len({len(scores) for scores in answers}) > 1:
            raise InputError(f"{self._url}: expected as many scores each time, got different numbers")
        return torch.tensor(answers, dtype=torch.int64 if self._key == "label" else torch.float32)

    def _answer(self, pixels: np.ndarray) -> Any:
        from PIL import Image

        digest = hashlib.sha256(f"{self._key} {pixels.shape}".encode() + pixels.tobytes()).hexdigest()
        known = self._kept.get(digest)
        if known is None:
            picture = io.BytesIO()
            Image.fromarray(pixels).save(picture, "PNG")
            known = self._checked(posted(self._url, self._kept, picture.getvalue(), self._headers))
            self._kept.put(digest, known)
        return known

    def _checked(self, body: bytes) -> Any:
        """The label, or the scores. Raises InputError."""
        import torch

        from smoothsweep.core.external.model import is_distribution

        wanted = '{"label": 3}' if self._key == "label" else '{"scores": [0.1, ...]}'
        try:
            answer = json.loads(body)[self._key] if len(body) <= MOST_BYTES else None
        except (ValueError, KeyError, TypeError, RecursionError):
            answer = None
        if self._key == "label" and type(answer) is int and 0 <= answer < 2**31:
            return answer
        if self._key == "scores" and isinstance(answer, list) and answer and all(map(_is_number, answer)):
            numbers = [float(score) for score in answer]
            if self._answers != "probabilities" or is_distribution(torch.tensor([numbers])):
                return numbers
            got = shortened(", ".join(f"{score:g}" for score in numbers[:8]))
            raise InputError(f"{self._url}: expected probabilities, each from 0 to 1 and together 1, got {got}")
        raise InputError(f"{self._url}: expected {wanted}, got {shortened(body[:200].decode('utf-8', 'replace'))}")


def _is_number(score: Any) -> bool:
    """Whether it is a number that float32 holds: not NaN, no integer of hundreds of digits."""
    return type(score) in (int, float) and -MOST_FLOAT <= score <= MOST_FLOAT


class Function(ForeignModel):
    """Code of the user's own, which does whatever it does: used only where this user has imported it."""

    words = "a function of the user's"
    file = "function.json"
    prefixes = (PREFIX,)
    form = FORM
    remark = "every use of it runs the code of {name}, here and in every worker"

    def describe(self, name: str, folder: Path) -> str:
        """Where the function `python:module:factory` is looked for, and its file's digest, as JSON.

        Its module lies where the command is run, unless it is installed. The function is not run; packages that hold
        its module are. Raises InputError, one line.
        """
        from smoothsweep.core.models.weight_files import file_sha256

        module, _, factory = name.removeprefix(PREFIX).partition(":")
        if not all(part.isidentifier() for part in (*module.split("."), factory)):
            raise InputError(f"{name}: expected {FORM}, such as python:my_model:load")
        here = Path.cwd()
        digest = file_sha256(_file_of(module, here, name))
        description = {"module": module, "factory": factory, "folder": str(here.resolve()), "sha256": digest}
        return json.dumps(description, indent=1) + "\n"

    @staticmethod
    def open(path: Path, settings: Mapping[str, Any], device: torch.device) -> OpenedModel:
        """What its factory makes, in this process: a function, or a network, which is put on the device.

        It takes float32 [n, 3, S, S] as the model wants its images, and gives [n, C] or int64 [n]. Runs the user's
        code, of the very file that was imported. Raises InputError, one line.
        """
        from smoothsweep.core.external.model import OpenedModel, answering
        from smoothsweep.core.models.weight_files import file_sha256

        card = read_card(path, "what describes a function")
        if HELD in card:
            return OpenedModel(answer=answering(_ready(held(card[HELD]), device), "model"))
        name, folder = f"{PREFIX}{card['module']}:{card['factory']}", Path(card["folder"])
        if file_sha256(_file_of(card["module"], folder, name)) != card["sha256"]:
            raise InputError(
                f"{name}: expected the file that was brought in, got one that has changed: import it again"
            )
        with _looked_for(folder):
            try:
                made = getattr(importlib.import_module(card["module"]), card["factory"])()
            except Exception as error:  # whatever the user's code raises
                reason = first_sentence(error)
                raise InputError(f"{name}: expected a function that makes a model, got: {reason}") from error
        if not callable(made):
            raise InputError(f"{name}: expected it to return a function of images, got {type(made).__name__}")
        return OpenedModel(answer=answering(_ready(made, device), name), rows=settings.get("rows"))


def is_own_object(path: Path) -> bool:
    """Whether the file describes an object that this process holds, so that its user has brought it in."""
    return path.name == Function.file and is_held(read_card(path, "what describes a function").get(HELD))


def _ready(made: Callable[[Tensor], Tensor], device: torch.device) -> Callable[[Tensor], Tensor]:
    from torch import nn

    if isinstance(made, nn.Module):
        made = made.to(device).eval()
        for weights in made.parameters():  # a program of TorchScript has no requires_grad_ of its own
            weights.requires_grad_(False)
    return made


def _file_of(module: str, folder: Path, name: str) -> Path:
    with _looked_for(folder):
        try:
            spec = find_spec(module)
        except Exception as error:  # whatever a package that holds it raises
            raise InputError(
                f"{name}: expected a module in {folder} or installed, got: {first_sentence(error)}"
            ) from error
    if spec is None or not spec.origin or not Path(spec.origin).is_file():
        raise InputError(f"{name}: expected a module in {folder} or installed, got none named {module}")
    return Path(spec.origin)


@contextmanager
def _looked_for(folder: Path) -> Generator[None]:
    importlib.invalidate_caches()
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
