"""Raw settings as a file gives them: nested mappings, addressed by dotted keys."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from smoothsweep.core.errors import InputError
from smoothsweep.core.text import quoted

MAX_LEVELS = 32  # of a dotted key


def set_dotted(raw: dict[str, Any], key: str, value: Any, *, where: str) -> None:
    """Set raw['a']['b'] = value for key 'a.b', making empty levels on the way. Raises InputError naming `where`."""
    node = raw
    if key.count(".") >= MAX_LEVELS or not all(key.split(".")):
        raise InputError(f"{where}: expected a dotted key of at most {MAX_LEVELS} names, got {quoted(key)}")
    *parents, last = key.split(".")
    for depth, parent in enumerate(parents):
        if node.get(parent) is None:
            node[parent] = {}
        node = node[parent]
        if not isinstance(node, dict):
            holder = ".".join(parents[: depth + 1])
            raise InputError(f"{where}: {key}: expected {holder} to hold keys, got {quoted(node)}")
    node[last] = value


def first_repeat(values: Sequence[Any]) -> tuple[Any, Any] | None:
    """The first two values that mean the same, as they were given (0.0 and 0, say), if two do."""
    if len(set(map(type, values))) == 1 and type(values[0]) in (int, str) and len(set(values)) == len(values):
        return None  # seeds and classes: equal where they mean the same
    seen: dict[str, int] = {}
    for index, value in enumerate(values):
        if (first := seen.setdefault(_meaning(value), index)) != index:
            return values[first], value
    return None


def _meaning(value: Any) -> str:
    """The same text for values that are one: numbers by their size, mappings whatever their order, true not as 1."""
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def dotted_value(settings: Mapping[str, Any], key: str) -> tuple[Any, bool]:
    """The value under a dotted key, and whether the key is there at all (another kind of recipe may not have it)."""
    node: Any = settings
    for part in key.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return None, False
        node = node[part]
    return node, True
