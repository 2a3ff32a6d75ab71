"""The JSON card beside a network's weights: its kind, and the configuration that it is built from. Loads no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from smoothsweep.core.cards.cards import read_card
from smoothsweep.core.errors import InputError
from smoothsweep.core.text import quoted

VERSION = 1


@dataclass(frozen=True, kw_only=True)
class NetworkCard:
    """What a network of `kind` is built from. config: an instance of the dataclass that belongs to the kind."""

    kind: str
    config: Any

    @property
    def plain(self) -> dict[str, Any]:
        """The card as its file holds it."""
        return {"version": VERSION, "kind": self.kind, "config": asdict(self.config)}


def read_network_card(path: Path, configs: Mapping[str, type[Any]], what: str) -> NetworkCard:
    """The checked card. configs: kind -> dataclass of its configuration; what: the file should be, for a person.

    Raises InputError, one line naming the file and the key.
    """
    card = read_card(path, what)
    if set(card) - {"version"} != {"kind", "config"}:
        raise InputError(f"{path}: expected an object with the keys version, kind and config")
    version, kind, values = card.get("version", VERSION), card["kind"], card["config"]
    if type(version) is not int or version != VERSION:
        raise InputError(f"{path}: version: expected {VERSION}, got {quoted(version)}")
    if not isinstance(kind, str) or kind not in configs:
        raise InputError(f"{path}: kind: expected one of {', '.join(sorted(configs))}, got {quoted(kind)}")
    names = {field.name for field in fields(configs[kind])}
    if not isinstance(values, dict) or set(values) != names:
        raise InputError(f"{path}: config: expected the keys {', '.join(sorted(names))}")
    try:
        return NetworkCard(kind=kind, config=configs[kind](**values))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
