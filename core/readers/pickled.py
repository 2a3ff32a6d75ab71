"""Pickled files from outside: unpickled in the isolated process alone, from which plain values and numbers come back.

What torch.save wrote is read there by torch's own reader of weights. Its tensors stay in that process until they are
asked for, so that an optimizer's never arrive here. Time and memory are those of the process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from smoothsweep.core.errors import InputError
from smoothsweep.core.isolation.process import IsolatedProgram
from smoothsweep.core.isolation.worker import MOST_BYTES, Loaded
from smoothsweep.core.readers.files import open_regular

AS_PROGRAM = "save the network as a program with torch.export.save, torch.jit.save or torch.onnx.export"
_DEPTH = 5  # of dictionaries within one another that are handed back
_OUTLINE = torch.tensor(-1)  # asked for in a tensor's place
_TYPES = {"list": [], "tuple": (), "set": set()}
_STOOD_IN = (
    "argparse.Namespace",
    "types.SimpleNamespace",
    "numpy.dtype",
    "numpy.core.multiarray.scalar",
    "numpy._core.multiarray.scalar",
    "pathlib.Path",
    "pathlib.PosixPath",
    "pathlib.WindowsPath",
    "pathlib._local.Path",
    "pathlib._local.PosixPath",
    "lightning_fabric.utilities.data.AttributeDict",
    "lightning.fabric.utilities.data.AttributeDict",
    "pytorch_lightning.utilities.parsing.AttributeDict",
)
"""Classes of plain values that training scripts keep beside the weights; nothing of them is made."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StoredTensor:
    """A tensor in the isolated process. dtype: None for one that is sparse, quantized or without numbers."""

    fetch: Callable[[], Tensor]
    shape: tuple[int, ...]
    dtype: torch.dtype | None

    def tensor(self) -> Tensor:
        """Its numbers, in memory."""
        return self.fetch()


def read_isolated(path: Path, loader: str, *, where: str, what: str) -> Any:
    """What `loader` found in the file: dictionaries, plain values, and a `StoredTensor` for each tensor.

    loader: "module:function" that ends in `handed_back`. where: how a message begins; what: the kind of file expected.
    Raises InputError, one line, for another file, and one that takes too long or too much.
    """
    how: dict[str, Any] = {"where": where, "what": what, "most_answer": MOST_BYTES}
    with open_regular(path) as file:
        process = IsolatedProgram(file, loader=loader, device=torch.device("cpu"), **how)
    if "refused" in process.facts:
        raise InputError(f"{where}{process.facts['refused']}")
    try:
        return _rebuilt(json.loads(process(_OUTLINE).numpy().tobytes()), process)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise InputError(f"{where}: expected {what}, got something that no reader of ours writes") from None


def open_checkpoint(program: BinaryIO, settings: dict[str, Any], device: torch.device) -> Loaded:
    """In the isolated process: what torch.save wrote, in any of its formats."""
    try:
        with torch.serialization.safe_globals([(_Plain, name) for name in _STOOD_IN]):
            return handed_back(torch.load(program, map_location="cpu", weights_only=True))
    except Exception as error:  # whatever torch raises of a file from elsewhere
        return Loaded(answer=lambda index: index, facts={"refused": why_not_weights(error)})


def why_not_weights(error: Exception) -> str:
    """The end of a sentence that begins with the file, of what torch raised as it read weights."""
    text = str(error)
    if found := re.search(r"GLOBAL ([\w.]+)", text):
        go_on = f"save network.state_dict() alone, or {AS_PROGRAM}"
        return f" holds more than tensors ({found[1]}); refused, none of its code was run: {go_on}"
    if "Unsupported operand" in text:
        text = "or pickled by another protocol than torch.save's own, 2: then save it again without one"
    first = re.split(r"(?<=[.!])\s|\n", text.strip())[0] or type(error).__name__
    return f" is no readable weight file: damaged, cut short, or of another format: {first[:200]}"


def handed_back(content: Any) -> Loaded:
    """In the isolated process: an outline of the content, and each of its tensors, on request."""
    tensors: list[Tensor] = []
    outline = bytearray(json.dumps(_outlined(content, tensors, _DEPTH)).encode())
    whole = torch.frombuffer(outline, dtype=torch.uint8)
    return Loaded(answer=lambda index: tensors[int(index)].contiguous() if index >= 0 else whole, facts={})


class _Plain(dict):
    """In the place of an object of plain values."""

    def __init__(self, *_: Any) -> None:
        super().__init__()

    def __setstate__(self, _: Any) -> None:
        pass


def _outlined(value: Any, tensors: list[Tensor], depth: int) -> list[Any]:
    if isinstance(value, Tensor):
        tensors.append(value.detach())
        plain = value.layout is torch.strided and value.device.type == "cpu" and not value.is_quantized
        return ["tensor", len(tensors) - 1, list(value.shape), str(value.dtype).removeprefix("torch.") if plain else ""]
    if isinstance(value, Mapping) and depth:
        entries = [(key if isinstance(key, str | int) else repr(key), entry) for key, entry in value.items()]
        return ["items", [[key, _outlined(entry, tensors, depth - 1)] for key, entry in entries]]
    if value is None or isinstance(value, bool | int | float | str):
        return ["plain", value]
    return ["type", type(value).__name__]


def _rebuilt(outline: Any, process: IsolatedProgram) -> Any:
    kind, value, *described = outline
    if kind == "items":
        return {key: _rebuilt(entry, process) for key, entry in value}
    if kind == "tensor":
        size, dtype = described
        known = getattr(torch, dtype) if dtype else None
        return StoredTensor(fetch=lambda: process(torch.tensor(int(value))), shape=tuple(map(int, size)), dtype=known)
    return value if kind == "plain" else _TYPES.get(value)
