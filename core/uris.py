"""URIs as people may see them: scheme, host and path. Whatever prints a URI asks here.

User, query and fragment are hidden whatever they are called, since each can be a secret: `http://TOKEN@host`,
`?sig=...`, `#access_token=...`. A password is hidden also where it breaks the syntax (an `@`, `:`, `/` or `?` of its
own that is not percent-encoded): then more may be hidden than the secret, never less.
"""

from __future__ import annotations

import base64
import json
import re
from itertools import combinations, islice
from urllib.parse import quote, quote_plus, unquote, unquote_plus

HIDDEN = "***"
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
AFTER_THE_PATH = re.compile(r"[?#]|;(?:[^/?#;=]*=|\*\*\*)")  # query, fragment, a parameter of the path
WITHOUT_A_SCHEME = re.compile(r"[?&#;][^=?&#;/]{1,120}=")  # the same, where a path may have a ? of its own
WITHOUT_SECRETS = ("sqlite:///", "file:///")  # a path follows, whatever characters it has
AMBIGUOUS = re.compile(r"[@/?#\\\[\]\s]")  # in a password: each reader of the URI would end it elsewhere
IN_TEXT = re.compile(r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,40}://(?:[^\s'\"<>]|['\"<>](?=[^\s'\"<>,.:;)}\]]))+")
ENDS_A_SENTENCE = re.compile(r"[],.:;)}]+$")
PAGE_OF_MLFLOW = re.compile(
    r"#/experiments/[0-9]{1,20}(?:/runs(?:\?searchFilter=tags\.%60smoothsweep\.kind%60\+%3D\+%27trial%27"
    r"&orderByKey=metrics\.%60leak_order%60&orderByAsc=true&workflowType=machine_learning"
    r"&compareRunsMode=(?:TABLE|CHART))?)?"
)
"""The one fragment that is shown: a link of ours into MLflow, which holds no word of the user's."""

MARKS = ["\n", *("".join(some) for count in range(1, 5) for some in combinations("?&#;", count))]
"""Marks at any of which a reader may end a value: at a line break (so never), or at some of these."""

SHORTEST = 4
"""Characters of a user, a value or a fragment that are looked for in other texts; shorter ones stand in every text."""


def shown_uri(uri: str) -> str:
    """The URI with *** for its user and password, for its query and for its fragment."""
    if uri.startswith(WITHOUT_SECRETS):
        return uri
    match = SCHEME.match(uri)
    if match is None:
        return _shown_without_scheme(uri)
    rest = uri[match.end() :]
    at = rest.rfind("@")
    if at >= 0 and AFTER_THE_PATH.search(rest, 0, at):  # readers would end the user in different places
        return match[0] + HIDDEN
    place, tail = _cut(rest[at + 1 :], AFTER_THE_PATH)
    low, high = _instead_of_a_port(place)
    if low < high:
        place, tail = place[:low] + HIDDEN, ""
    return match[0] + (f"{HIDDEN}@" if at >= 0 else "") + place + _shown_tail(tail)


def _cut(place: str, beginning: re.Pattern[str]) -> tuple[str, str]:
    """Host and path; query and fragment, from the mark with which they begin."""
    match = beginning.search(place)
    return (place, "") if match is None else (place[: match.start()], place[match.start() :])


def _shown_tail(tail: str) -> str:
    return tail if len(tail) < 2 or PAGE_OF_MLFLOW.fullmatch(tail) else tail[0] + HIDDEN


def _shown_without_scheme(text: str) -> str:
    """What may be a path: hidden are a password before an @, and what stands where a query would."""
    _, rest, (low, high) = _parts(text)
    mark, at = WITHOUT_A_SCHEME.search(text), text.rfind("@")
    colon = text.find(":", 0, max(at, 0))
    if mark is not None and colon >= 0 and mark.start() < at:  # as above: readers would differ
        return text[: min(colon, mark.start()) + 1] + HIDDEN
    before = rest[:low] + HIDDEN if low < high else ""
    place, tail = _cut(rest[high:], WITHOUT_A_SCHEME)
    return before + place + _shown_tail(tail)


def without_secrets(text: str, uri: str) -> str:
    """The text without this URI's secrets, however they are written in it: decoded, percent-encoded, quoted."""
    text = text.replace(uri, shown_uri(uri))
    for spelling in sorted(_spellings(uri), key=len, reverse=True):
        text = re.sub(re.escape(spelling), HIDDEN, text, flags=re.IGNORECASE)
    return hidden(text)


def hidden(text: str) -> str:
    """The text with every URI in it shown as `shown_uri` shows it."""
    return IN_TEXT.sub(lambda match: _in_a_sentence(match[0]), text)


def _in_a_sentence(uri: str) -> str:
    """As `shown_uri`; punctuation at the end is the sentence's: it makes no password of a port and stays."""
    end = ENDS_A_SENTENCE.search(uri)
    if end is None or uri.endswith(WITHOUT_SECRETS):
        return shown_uri(uri)
    return shown_uri(uri[: end.start()]) + end[0]


def ambiguity(uri: str) -> str | None:
    """What cannot be told apart in this URI: where its password ends; None if readers will agree, or if it has none."""
    _, rest, (low, high) = _parts(uri)
    if not AMBIGUOUS.search(rest[low:high]) and rest[high:].startswith("@") == (low < high):
        return None
    return "one in which @, /, ?, # or a space may belong to a password: percent-encode it there (@ is %40, / is %2F)"


def _parts(uri: str) -> tuple[str, str, tuple[int, int]]:
    """What leads to the authority; the rest; and where in it the password is, from the first colon to the last @."""
    if uri.startswith(WITHOUT_SECRETS):
        return uri, "", (0, 0)
    match = SCHEME.match(uri)
    start = match[0] if match else ""
    rest = uri[len(start) :]
    in_query = WITHOUT_A_SCHEME.search(rest)
    end = rest.rfind("@", 0, in_query.start() if in_query else None)
    colon = rest.find(":", 0, max(end, 0))
    if colon >= 0:
        return start, rest, (colon + 1, end)
    return start, rest, _instead_of_a_port(rest) if start and end < 0 else (0, 0)


def _instead_of_a_port(rest: str) -> tuple[int, int]:
    """Where something stands in a port's place that is no number: `me:secret` whose @host was forgotten."""
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    host, colon, port = authority.rpartition(":")
    if not colon or host.startswith("[") or not port or (port.isascii() and port.isdigit()):
        return 0, 0
    return rest.find(":") + 1, len(rest)


def _spellings(uri: str) -> set[str]:
    """The URI's secrets as libraries may write them."""
    start, rest, (low, high) = _parts(uri)
    user = unquote(rest[: max(low - 1, 0)])
    at = rest.rfind("@")
    raws = [rest[low:high], rest[low : max(at, low)] if low else ""]
    raws += [rest[match.end() : at] for match in islice(re.finditer(":", rest[: max(at, 0)]), 3)]
    if not start:  # `postgresql:/me:secret@host`: the first colon is not the password's
        raws += [rest[at + 1 : high] for at in range(low, high) if rest[at] == ":"]
    raws += [raw for raw in _beside_host_and_path(rest, at if start else -1) if len(raw) >= SHORTEST]
    spellings: set[str] = set()
    for raw in raws:
        for plain in {raw, unquote(raw), unquote_plus(raw)}:
            pairs = [f"{user}:{plain}", f"{plain}:"]  # of a password; of a user without one
            spellings |= {plain, quote(plain, errors="replace"), quote(plain, safe="", errors="replace")}
            spellings |= {quote_plus(plain, errors="replace"), repr(plain)[1:-1], json.dumps(plain)[1:-1]}
            encoded = (base64.b64encode(pair.encode(errors="replace")).decode() for pair in pairs)
            spellings |= {" ".join(plain.split()), *encoded} if plain else set()
    return spellings - {""}


def _beside_host_and_path(rest: str, at: int) -> list[str]:
    """What is neither host nor path: user and password as one, the query as a whole and its values, the fragment."""
    before_the_path = re.split(r"[/?#]", rest, maxsplit=1)[0] if at >= 0 else ""
    raws = []
    for userinfo in (rest[: max(at, 0)], before_the_path.rpartition("@")[0]):
        user, _, password = userinfo.partition(":")
        raws.append(password or user)
    tail = _cut(rest, AFTER_THE_PATH)[1]
    if not PAGE_OF_MLFLOW.fullmatch(tail):
        before, _, fragment = tail[1:].partition("#")
        wholes = [tail[1:], before, before.partition("?")[2], fragment]
        pieces = [piece for marks in MARKS for whole in wholes for piece in re.split(f"[{marks}]", whole)]
        raws += [*pieces, *(piece.partition("=")[2] for piece in pieces)]
    return raws
