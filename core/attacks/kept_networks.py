"""Networks that parts of attacks leave: weights beside a card that says what they are built from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import nn

from smoothsweep.core.attacks.registry import PARTS
from smoothsweep.core.cards import NetworkCard, NetworkKind, read_network_card, read_weights, write_weights
from smoothsweep.core.files import write_file

CARD, WEIGHTS = ".network.json", ".network.safetensors"


PART_NETWORKS: dict[str, NetworkKind] = {name: kind for part in PARTS.values() for name, kind in part.networks.items()}
"""Kinds of networks by their names on cards."""


def save_network(network: nn.Module, directory: Path, name: str) -> None:
    """Write <name>.network.safetensors and, last, <name>.network.json. Raises ValueError for an unknown kind."""
    kind = kind_of(network)
    weights, card = _files(directory, name)
    write_weights(network, weights)
    write_file(card, json.dumps(NetworkCard(kind=kind, config=network.config).plain, indent=2) + "\n")


def kind_of(network: nn.Module) -> str:
    """Its row of `PART_NETWORKS`. Raises ValueError for a network of another kind."""
    kinds = [kind for kind, row in PART_NETWORKS.items() if row.load() is type(network)]
    if not kinds:
        raise ValueError(f"network: expected one of {', '.join(PART_NETWORKS)}, got {type(network).__name__}")
    return kinds[0]


def load_network(directory: Path, name: str) -> Any:
    """What `save_network` left: in eval mode, on the CPU, without parameter gradients. Raises InputError."""
    weights, card = _files(directory, name)
    stored_card = read_network_card(card, {k: row.config for k, row in PART_NETWORKS.items()}, "the card of a network")
    return read_weights(PART_NETWORKS[stored_card.kind].load(), stored_card.config, weights)


def network_names(directory: Path) -> list[str]:
    """The names of the networks that a part's folder holds."""
    return sorted(path.name.removesuffix(CARD) for path in directory.glob(f"*{CARD}"))


def _files(directory: Path, name: str) -> tuple[Path, Path]:
    return directory / f"{name}{WEIGHTS}", directory / f"{name}{CARD}"
