"""Suggest the closest known name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from smoothsweep.core.text import shortened


def suggestion(got: object, known: Iterable[str]) -> str:
    """The end of a message: "; did you mean 'recipe'?", or nothing where no known word is close."""
    if not isinstance(got, str):
        return ""
    close = get_close_matches(got[:200], sorted(known), n=1, cutoff=0.6)
    return f"; did you mean {shortened(close[0])!r}?" if close and close[0] != got else ""
