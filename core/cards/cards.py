"""Small JSON files that describe a folder (`prior.json`, `target.json`, `import.json`), read without trusting them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from smoothsweep.core.bounds import LARGEST
from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import read_text, why_unread
from smoothsweep.core.text import shortened

MOST_BYTES = 8 * 2**20  # a hundred thousand names


def read_card(path: Path, what: str, *, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """The object that a JSON file holds. Raises InputError, one line naming `path` and `what` it should be.

    Refused are files that are too large, nested too deeply, that hold NaN, infinity,
    a whole number of more than 64 bits, half a character, or a key twice.
    """
    try:
        text = read_text(path, most_bytes=most_bytes)
        card = json.loads(
            text, parse_constant=_no_constant, parse_float=_finite, parse_int=_whole, object_pairs_hook=_unique
        )
        json.dumps(card, ensure_ascii=False).encode("utf-8")  # a lone surrogate could be printed nowhere
    except InputError as error:
        raise InputError(f"{path}: expected {what}, got: {str(error).removeprefix(f'{path}: ')}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected {what}, got: {why_unread(error)}") from None
    if not isinstance(card, dict):
        raise InputError(f"{path}: expected {what}, got no object")
    return card


def _no_constant(word: str) -> float:
    raise ValueError(f"the number {word}")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:40]}")
    return value


def _whole(text: str) -> int:
    if len(text) > 20 or abs(int(text)) > LARGEST:
        raise ValueError(f"the number {text[:40]}")
    return int(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise ValueError(f"the key {shortened(key)} twice")
        made[key] = value
    return made
