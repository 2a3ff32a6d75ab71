"""Where this user lets pictures be sent to, to be asked about. Loads nothing that asks."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from core.errors import InputError

ADDRESS, TOKEN = "SMOOTHSWEEP_ASKED_URL", "SMOOTHSWEEP_ASKED_TOKEN"
"""Environment variables: an OpenAI-compatible address such as https://host/v1, and the bearer token it wants."""


def named_address() -> str | None:
    """Where this user lets pictures be sent to; None where nowhere. Raises InputError for what is no such address."""
    url = os.environ.get(ADDRESS)
    if not url:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise InputError(f"{ADDRESS}: expected an address like https://host/v1, without a user, got another")
    return url.rstrip("/")
