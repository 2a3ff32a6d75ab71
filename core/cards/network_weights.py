"""The weights of a network in a safetensors file: written from its state, read into a network of a configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import nn

from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.readers.safetensors_file import FiledTensor, UnreadableTensors, read_header

STORED = {torch.float32: "float32", torch.float16: "float16"}  # what weights may be kept as


def write_weights(network: nn.Module, path: Path, dtype: torch.dtype = torch.float32) -> None:
    """The whole state as plain tensors. dtype: float32 or float16."""
    state = {name: value.detach().cpu().to(dtype).contiguous() for name, value in network.state_dict().items()}
    write_file(path, save(state))


def read_weights(make: Callable[[Any], nn.Module], config: Any, path: Path) -> Any:
    """The network `make(config)` with the weights in `path`: in eval mode, on the CPU, without parameter gradients.

    What the file does not hold in full is never allocated. Raises InputError, one line naming the file.
    """
    with torch.device("meta"):
        expected = {name: tuple(value.shape) for name, value in make(config).state_dict().items()}
    try:
        header = read_header(path)
    except (OSError, UnreadableTensors) as error:
        raise InputError(f"{path}: expected a safetensors file, got: {error}") from error
    _check_header(path, header, expected)
    state = {name: value.tensor() for name, value in header.items()}
    for name, value in state.items():
        if not value.isfinite().all():
            raise InputError(f"{path}: {name}: expected finite numbers")
    network = make(config)
    network.load_state_dict({name: value.float() for name, value in state.items()})
    return network.eval().requires_grad_(False)


def _check_header(path: Path, header: dict[str, FiledTensor], expected: dict[str, tuple[int, ...]]) -> None:
    """Only the shapes and types of the tensors are read."""
    if missing := sorted(expected.keys() - header.keys()):
        raise InputError(f"{path}: {len(missing)} tensors are missing, the first is {missing[0]}")
    if unknown := sorted(header.keys() - expected.keys()):
        raise InputError(f"{path}: {len(unknown)} unknown tensors, the first is {unknown[0]}")
    for name, value in header.items():
        if value.size != expected[name]:
            raise InputError(f"{path}: {name}: expected shape {list(expected[name])}, got {list(value.size)}")
        if value.dtype not in STORED:
            raise InputError(f"{path}: {name}: expected {' or '.join(STORED.values())}, got {value.dtype}")
