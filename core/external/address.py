"""What an address may be that pictures are sent to, and the token that goes with them. Loads nothing that asks."""

from __future__ import annotations

import os
import re

from smoothsweep.core.errors import InputError
from smoothsweep.core.text import shortened
from smoothsweep.core.uris import shown_uri

ADDRESS, TOKEN = "SMOOTHSWEEP_ASKED_URL", "SMOOTHSWEEP_ASKED_TOKEN"
"""Environment variables: an OpenAI-compatible address such as https://host/v1, and the bearer token it wants."""

WHAT = "http(s)://HOST/PATH without user, query or fragment"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])"
_PLAIN = re.compile(rf"https?://{_HOST}(?::[0-9]{{1,5}})?(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:/-]|%[0-9A-Fa-f]{{2}})*)?")
_TOKEN = re.compile(r"[!-~]+")


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
        raise InputError(f"{name}: expected {WHAT}; a token's place is the environment variable of --token-env")


def named_address() -> str | None:
    """Where this user lets pictures be sent to; None where nowhere. Raises InputError for what is no such address."""
    url = os.environ.get(ADDRESS)
    if not url:
        return None
    if not is_plain(url):
        raise InputError(
            f"{ADDRESS}: expected an address like https://host/v1, without a user, a query or a fragment, got another"
        )
    return url.rstrip("/")


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
