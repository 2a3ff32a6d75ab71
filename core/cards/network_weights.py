"""The weights of a network in a safetensors file: written from its state, read into a network of a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import nn

from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.readers.safetensors_file import UnreadableTensors, read_header

STORED = {torch.float32: "float32", torch.float16: "float16"}  # what weights may be kept as


def write_weights(network: nn.Module, path: Path, dtype: torch.dtype = torch.float32) -> None:
    """The whole state as plain tensors. dtype: float32 or float16."""
    state = {name: value.detach().cpu().to(dtype).contiguous() for name, value in network.state_dict().items()}
    write_file(path, save(state))


def read_weights(make: Callable[[Any], nn.Module], config: Any, path: Path) -> Any:
    """The network `make(config)` with the weights in `path`: in eval mode, on the CPU, without parameter gradients.

    What the file does not hold in full is never allocated. Raises InputError, one line naming the file.
    """
    try:
        header = read_header(path)
    except (OSError, UnreadableTensors) as error:
        raise InputError(f"{path}: expected a safetensors file, got: {error}") from error
    return filled(make, config, header, f"{path}")


def filled(make: Callable[[Any], nn.Module], config: Any, stored: Mapping[str, Any], where: str) -> Any:
    """As `read_weights`, of tensors that are still elsewhere. where: how a message begins."""
    with torch.device("meta"):
        expected = {name: tuple(value.shape) for name, value in make(config).state_dict().items()}
    if missing := sorted(expected.keys() - stored.keys()):
        raise InputError(f"{where}: {len(missing)} tensors are missing, the first is {missing[0]}")
    if unknown := sorted(stored.keys() - expected.keys()):
        raise InputError(f"{where}: {len(unknown)} unknown tensors, the first is {unknown[0]}")
    for name, value in stored.items():
        if value.shape != expected[name]:
            raise InputError(f"{where}: {name}: expected shape {list(expected[name])}, got {list(value.shape)}")
        if value.dtype not in STORED:
            raise InputError(f"{where}: {name}: expected {' or '.join(STORED.values())}, got {value.dtype}")
    state = {name: value.tensor() for name, value in stored.items()}
    for name, value in state.items():
        if not value.isfinite().all():
            raise InputError(f"{where}: {name}: expected finite numbers")
    network = make(config)
    network.load_state_dict({name: value.float() for name, value in state.items()})
    return network.eval().requires_grad_(False)
