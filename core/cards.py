"""Cards: JSON files beside weights that say what they are, read without trusting them; and networks built from both.

Reading a card loads no torch: it is imported where weights are read or written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsweep.core.bounds import LARGEST
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.named_code import load_named
from smoothsweep.core.readers.files import read_text, why_unread
from smoothsweep.core.text import quoted, shortened

if TYPE_CHECKING:
    from torch import nn

MOST_BYTES = 8 * 2**20  # a hundred thousand names
VERSION = 1
STORED = ("float32", "float16")  # what weights may be kept as


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


@dataclass(frozen=True, kw_only=True)
class NetworkKind:
    """A kind of network, which its card names.

    Attributes:
        config: Frozen dataclass of the configuration, which the card holds, and which checks itself.
        network: 'module:class' of the network, which is built from one configuration alone and keeps it as `config`.
            Of a prior it is a `core.priors.base.PriorNetwork`.
    """

    config: type[Any]
    network: str

    def load(self) -> type[Any]:
        """The class of the network. Loads torch."""
        return load_named(self.network)


def write_weights(network: nn.Module, path: Path, dtype: str = "float32") -> None:
    """The whole state as plain tensors. dtype: one of `STORED`."""
    import torch
    from safetensors.torch import save

    state = {
        name: value.detach().cpu().to(getattr(torch, dtype)).contiguous()
        for name, value in network.state_dict().items()
    }
    write_file(path, save(state))


def read_weights(make: Callable[[Any], nn.Module], config: Any, path: Path) -> Any:
    """The network `make(config)` with the weights in `path`: in eval mode, on the CPU, without parameter gradients.

    What the file does not hold in full is never allocated. Raises InputError, one line naming the file.
    """
    from smoothsweep.core.readers.tensors import UnreadableTensors, read_header

    try:
        header = read_header(path)
    except (OSError, UnreadableTensors) as error:
        raise InputError(f"{path}: expected a safetensors file, got: {error}") from error
    return filled(make, config, header, f"{path}")


def filled(make: Callable[[Any], nn.Module], config: Any, stored: Mapping[str, Any], where: str) -> Any:
    """As `read_weights`, of tensors that are still elsewhere. where: how a message begins."""
    import torch

    with torch.device("meta"):
        expected = {name: tuple(value.shape) for name, value in make(config).state_dict().items()}
    if missing := sorted(expected.keys() - stored.keys()):
        raise InputError(f"{where}: {len(missing)} tensors are missing, the first is {missing[0]}")
    if unknown := sorted(stored.keys() - expected.keys()):
        raise InputError(f"{where}: {len(unknown)} unknown tensors, the first is {unknown[0]}")
    for name, value in stored.items():
        if value.shape != expected[name]:
            raise InputError(f"{where}: {name}: expected shape {list(expected[name])}, got {list(value.shape)}")
        if str(value.dtype).removeprefix("torch.") not in STORED:
            raise InputError(f"{where}: {name}: expected {' or '.join(STORED)}, got {value.dtype}")
    state = {name: value.fetch() for name, value in stored.items()}
    for name, value in state.items():
        if not value.isfinite().all():
            raise InputError(f"{where}: {name}: expected finite numbers")
    network = make(config)
    network.load_state_dict({name: value.float() for name, value in state.items()})
    return network.eval().requires_grad_(False)
