"""A safetensors file from outside: its header first, and a tensor's numbers only once they are asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from smoothsweep.core.errors import InputError
from smoothsweep.core.readers.files import MIB, open_regular, too_large

MOST_HEADER = 16 * MIB
_TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


class UnreadableTensors(Exception):
    """The bytes are no safetensors file; the message says why."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FiledTensor:
    """A tensor in a file that was not read yet. dtype: None for a type that torch has not."""

    path: Path
    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype | None

    def tensor(self) -> Tensor:
        """Its numbers, in memory."""
        with safe_open(str(self.path), framework="pt") as opened:
            return opened.get_tensor(self.name)


def is_safetensors(path: Path) -> bool:
    """Whether the file begins as one: the length of a header, then a brace. No other file of weights does."""
    with open_regular(path) as file:
        start = file.read(9)
    return start[8:] == b"{" and int.from_bytes(start[:8], "little") < 2**32


def read_header(path: Path) -> dict[str, FiledTensor]:
    """Every tensor of the file by name.

    Raises UnreadableTensors for a damaged file or one of another kind, OSError, and InputError for what is no regular
    file or has too large a header.
    """
    with open_regular(path) as file:
        header, size = int.from_bytes(file.read(8), "little"), os.fstat(file.fileno()).st_size
    if MOST_HEADER < header < size:
        raise InputError(f"{path}: expected a header of {too_large(MOST_HEADER, header)}")
    try:
        with safe_open(str(path), framework="np") as opened:
            slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118
            return {
                name: FiledTensor(
                    path=path, name=name, shape=tuple(span.get_shape()), dtype=_TYPES.get(span.get_dtype())
                )
                for name, span in slices.items()
            }
    except SafetensorError as error:
        raise UnreadableTensors(" ".join(str(error).split())) from error


def read_safetensors(path: Path, *, most_bytes: int) -> dict[str, Tensor]:
    """All tensors of the file in memory. Raises as `read_header`, and InputError for more than `most_bytes`."""
    header = read_header(path)
    check_bytes(header, f"{path}", most_bytes=most_bytes)
    return {name: entry.tensor() for name, entry in header.items()}


def check_bytes(tensors: Mapping[str, Any], where: str, *, most_bytes: int) -> None:
    """Raise InputError, one line that begins with `where`, if they take more. tensors: each with a size and dtype."""
    taken = sum(
        torch.Size(tensor.shape).numel() * (tensor.dtype.itemsize if tensor.dtype else 8) for tensor in tensors.values()
    )
    if taken > most_bytes:
        raise InputError(f"{where}: expected tensors of {too_large(most_bytes, taken)}")
