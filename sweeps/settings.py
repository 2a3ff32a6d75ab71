"""Raw settings as a file gives them: nested mappings, addressed by dotted keys."""

from __future__ import annotations

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
