"""Raw settings as a file gives them: nested mappings, addressed by dotted keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.errors import InputError


def set_dotted(raw: dict[str, Any], key: str, value: Any, *, where: str) -> None:
    """Set raw['a']['b'] = value for key 'a.b', making empty levels on the way."""
    node = raw
    *parents, last = key.split(".")
    for depth, parent in enumerate(parents):
        if node.get(parent) is None:
            node[parent] = {}
        node = node[parent]
        if not isinstance(node, dict):
            raise InputError(f"{where}: {key}: expected {'.'.join(parents[: depth + 1])} to hold keys, got {node!r}")
    node[last] = value


def dotted_value(given: Mapping[str, Any], key: str) -> tuple[Any, bool]:
    """The value under a dotted key, and whether the key is there at all (another kind of recipe may not have it)."""
    node: Any = given
    for part in key.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return None, False
        node = node[part]
    return node, True
