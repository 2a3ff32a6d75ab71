"""URIs as people may see them: without the secrets in them. Whatever prints a URI asks here.

A password is hidden also where it breaks the syntax (an `@`, `:`, `/` or `?` of its own that is not percent-encoded):
then more may be hidden than the password, never less.
"""

from __future__ import annotations

import base64
import json
import re
from urllib.parse import quote, quote_plus, unquote, unquote_plus

HIDDEN = "***"
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
IN_QUERY = re.compile(
    r"([?&][^=&?]{0,60}(?:pass|pwd|secret|token|key|credential|signature|odbc)[^=&]{0,60}=)([^&]*)", re.IGNORECASE
)
WITHOUT_SECRETS = ("sqlite:///", "file:///")  # a path follows, whatever characters it has
AMBIGUOUS = re.compile(r"[@/?#\\\[\]\s]")  # in a password: each reader of the URI would end it elsewhere
AFTER_A_PORT = re.compile(r"([^/?#]*//[^/?#@]*:[0-9]+)([,.;)]+)")
IN_TEXT = re.compile(r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,40}://[^\s'\"<>]+")


def shown_uri(uri: str) -> str:
    """The URI with *** for its password, and for what its query calls a password, secret, token or key."""
    start, rest, (low, high) = _parts(uri)
    before = f"{rest[:low]}{HIDDEN}" if low < high else ""
    return start + before + IN_QUERY.sub(rf"\g<1>{HIDDEN}", rest[high:])


def without_secrets(text: str, uri: str) -> str:
    """The text without this URI's secrets, however they are written in it: decoded, percent-encoded, quoted."""
    text = text.replace(uri, shown_uri(uri))
    for spelling in sorted(_spellings(uri), key=len, reverse=True):
        text = re.sub(re.escape(spelling), HIDDEN, text, flags=re.IGNORECASE)
    return hidden(text)


def hidden(text: str) -> str:
    """The text with every URI in it shown without its secrets."""
    return IN_TEXT.sub(lambda found: _in_a_sentence(found[0]), text)


def _in_a_sentence(uri: str) -> str:
    """As `shown_uri`; punctuation after a port is the sentence's, and makes no password of the port."""
    ended = AFTER_A_PORT.fullmatch(uri)
    return f"{shown_uri(ended[1])}{ended[2]}" if ended else shown_uri(uri)


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
    found = SCHEME.match(uri)
    start = found[0] if found else ""
    rest = uri[len(start) :]
    in_query = IN_QUERY.search(rest)
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
    widest = rest[low : max(rest.rfind("@"), low)] if low else ""
    raws = [rest[low:high], widest, *(match[2] for match in IN_QUERY.finditer(rest[high:]))]
    if not start:  # `postgresql:/me:secret@host`: the first colon is not the password's
        raws += [rest[at + 1 : high] for at in range(low, high) if rest[at] == ":"]
    found: set[str] = set()
    for raw in raws:
        for plain in {raw, unquote(raw), unquote_plus(raw)}:
            pair = base64.b64encode(f"{user}:{plain}".encode(errors="replace")).decode()
            found |= {plain, quote(plain, errors="replace"), quote(plain, safe="", errors="replace")}
            found |= {quote_plus(plain, errors="replace"), repr(plain)[1:-1], json.dumps(plain)[1:-1]}
            found |= {" ".join(plain.split()), pair} if plain else set()
    return found - {""}
