"""Files of tensors from outside: of none are numbers in memory before they are asked for.

Of a safetensors file the header is read first. Pickled files are unpickled in the isolated process alone, whose time
and memory bound them: plain values come back, and tensors on request, so that an optimizer's never arrive here.
"""

from __future__ import annotations

import json
import os
import pickle
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, _weights_only_unpickler

from smoothsweep.core.errors import InputError
from smoothsweep.core.isolation.process import IsolatedProgram
from smoothsweep.core.isolation.worker import MOST_BYTES, Loaded
from smoothsweep.core.readers.files import MIB, open_regular, too_large

AS_PROGRAM = "save the network as a program with torch.export.save, torch.jit.save or torch.onnx.export"
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
_DEPTH = 5  # of dictionaries within one another that are handed back
_OUTLINE = torch.tensor(-1)  # asked for in a tensor's place
_EMPTY = {"list": [], "tuple": (), "set": set()}
_STOOD_IN = (
    *("argparse.Namespace", "types.SimpleNamespace"),
    *("numpy.dtype", "numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar"),
    *(f"{module}.{kind}Path" for module in ("pathlib", "pathlib._local") for kind in ("", "Posix", "Windows")),
    "lightning_fabric.utilities.data.AttributeDict",
    "lightning.fabric.utilities.data.AttributeDict",
    "pytorch_lightning.utilities.parsing.AttributeDict",
)
"""Classes of plain values that training scripts keep beside the weights; nothing of them is made."""


class UnreadableTensors(Exception):
    """The bytes are no safetensors file; the message says why."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StoredTensor:
    """A tensor in a file, or in the isolated process that read it. `fetch` brings its numbers into memory.

    dtype: None for a type that torch has not, and for one that is sparse, quantized or without numbers.
    """

    fetch: Callable[[], Tensor]
    shape: tuple[int, ...]
    dtype: torch.dtype | None


def is_safetensors(path: Path) -> bool:
    """Whether the file begins as one: the length of a header, then a brace. No other file of weights does."""
    with open_regular(path) as file:
        start = file.read(9)
    return start[8:] == b"{" and int.from_bytes(start[:8], "little") < 2**32


def read_header(path: Path) -> dict[str, StoredTensor]:
    """Every tensor of a safetensors file by name.

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
            kinds = {name: (tuple(span.get_shape()), span.get_dtype()) for name, span in slices.items()}
    except SafetensorError as error:
        raise UnreadableTensors(" ".join(str(error).split())) from error
    return {
        name: StoredTensor(fetch=partial(_numbers, path, name), shape=shape, dtype=_TYPES.get(kind))
        for name, (shape, kind) in kinds.items()
    }


def _numbers(path: Path, name: str) -> Tensor:
    with safe_open(str(path), framework="pt") as opened:
        return opened.get_tensor(name)


def read_safetensors(path: Path, *, most_bytes: int) -> dict[str, Tensor]:
    """All tensors of the file in memory. Raises as `read_header`, and InputError for more than `most_bytes`."""
    header = read_header(path)
    check_bytes(header, f"{path}", most_bytes=most_bytes)
    return {name: stored.fetch() for name, stored in header.items()}


def check_bytes(tensors: Mapping[str, StoredTensor], where: str, *, most_bytes: int) -> None:
    """Raise InputError, one line that begins with `where`, if they take more."""
    taken = sum(
        torch.Size(tensor.shape).numel() * (tensor.dtype.itemsize if tensor.dtype else 8) for tensor in tensors.values()
    )
    if taken > most_bytes:
        raise InputError(f"{where}: expected tensors of {too_large(most_bytes, taken)}")


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


def _rebuilt(outline: Any, process: IsolatedProgram) -> Any:
    kind, value, *described = outline
    if kind == "items":
        return {key: _rebuilt(entry, process) for key, entry in value}
    if kind == "tensor":
        size, dtype = described
        known = getattr(torch, dtype) if dtype else None
        return StoredTensor(fetch=lambda: process(torch.tensor(int(value))), shape=tuple(map(int, size)), dtype=known)
    return value if kind == "plain" else _EMPTY.get(value)


def why_not_weights(error: Exception) -> str:
    """The end of a sentence that begins with the file, of what was raised as weights were read."""
    text = str(error)
    if found := re.search(r"GLOBAL ([\w.]+)", text):
        go_on = f"save network.state_dict() alone, or {AS_PROGRAM}"
        return f" holds more than tensors ({found[1]}); refused, none of its code was run: {go_on}"
    first = re.split(r"(?<=[.!])\s|\n", text.strip())[0] or type(error).__name__
    return f" is no readable weight file: damaged, cut short, or of another format: {first[:200]}"


# From here on: what runs in the isolated process.


def open_checkpoint(program: BinaryIO, settings: dict[str, Any], device: torch.device) -> Loaded:
    """What torch.save wrote, in any of its formats and protocols."""
    try:
        with torch.serialization.safe_globals([(_Plain, name) for name in _STOOD_IN]):
            try:
                return handed_back(torch.load(program, map_location="cpu", weights_only=True))
            except pickle.UnpicklingError as error:
                if "Unsupported operand" not in str(error):  # torch's own reader knows the operations of protocol 2
                    raise
        os.environ.pop("TORCH_FORCE_WEIGHTS_ONLY_LOAD", None)  # which would have torch refuse another unpickler
        program.seek(0)
        # Not `weights_only`, but by its own list of names (`_ListedUnpickler`), in a process that can only compute.
        return handed_back(torch.load(program, map_location="cpu", pickle_module=_LISTED, weights_only=False))
    except Exception as error:  # whatever torch raises of a file from elsewhere
        return refused(why_not_weights(error))


def refused(why: str) -> Loaded:
    """That a file is none of those expected. why: how the sentence goes on that begins with the file."""
    return Loaded(answer=lambda index: index, facts={"refused": why})


def handed_back(content: Any) -> Loaded:
    """An outline of the content, and each of its tensors, on request."""
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


class _ListedUnpickler(pickle.Unpickler):
    """As torch's own reader of weights, by the same list of names, for the operations of any protocol."""

    def find_class(self, module: str, name: str) -> Any:
        names = _weights_only_unpickler._get_allowed_globals() | dict.fromkeys(_STOOD_IN, _Plain)
        if (full := f"{module}.{name}") not in names:
            raise pickle.UnpicklingError(f"GLOBAL {full}")
        return names[full]


_LISTED: Any = SimpleNamespace(
    __name__=__name__, Unpickler=_ListedUnpickler, load=lambda file, **options: _ListedUnpickler(file, **options).load()
)
"""What torch.load takes for the module pickle."""


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
