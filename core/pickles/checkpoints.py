"""What torch.save wrote, as plain containers and records of tensors; nothing is unpickled by Python or by torch.

Both formats: the zip archive (since torch 1.6) and the legacy stream of pickles followed by the tensors' bytes. Only
dictionaries, lists, tuples, numbers, texts and dense tensors come out; anything else is refused, with a budget for what
is made on the way. Source of the layouts: `pytorch/pytorch`, torch/serialization.py and torch/_utils.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from smoothsweep.core.checks import present
from smoothsweep.core.pickles.archive import START, read_archive
from smoothsweep.core.pickles.cursor import Cursor, Refused, describe
from smoothsweep.core.pickles.machine import Dialect, Global, Limits
from smoothsweep.core.pickles.opcode_names import CHECKPOINT_OPCODES
from smoothsweep.core.pickles.opcodes import run
from smoothsweep.core.pickles.storages import MAGIC, MAX_RANK, contiguous

LEGACY_VERSION = 1001
MAX_TENSORS = 50_000
MOST_CLAIMED = 2  # times the file's bytes that all tensors together may take: some weights are shared

_LIMITS = Limits(opcodes=500_000, memo=300_000, memory=128 * 2**20)  # ResNet-152 with Adam's state: 80,000 opcodes

TYPES: dict[str, tuple[str, torch.dtype]] = {
    "DoubleStorage": ("<f8", torch.float64),
    "FloatStorage": ("<f4", torch.float32),
    "HalfStorage": ("<f2", torch.float16),
    "BFloat16Storage": ("<i2", torch.bfloat16),
    "LongStorage": ("<i8", torch.int64),
    "IntStorage": ("<i4", torch.int32),
    "ShortStorage": ("<i2", torch.int16),
    "CharStorage": ("<i1", torch.int8),
    "ByteStorage": ("<u1", torch.uint8),
    "BoolStorage": ("<u1", torch.bool),
    "ComplexFloatStorage": ("<c8", torch.complex64),
    "ComplexDoubleStorage": ("<c16", torch.complex128),
}
"""torch's name of a storage: how numpy reads its elements, and what torch calls them."""

_DTYPES = (
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "bool",
    "complex64",
    "complex128",
)


@dataclass(eq=False, kw_only=True, repr=False)
class Storage:
    """`length` elements; `data` are the file's bytes, not copied, known once the file has been read to its end."""

    kind: str
    length: int
    data: memoryview | None = None

    @property
    def bytes(self) -> int:
        return self.length * np.dtype(TYPES[self.kind][0]).itemsize

    def bind(self, data: memoryview) -> None:
        """Raises Refused unless these are exactly the bytes that were announced."""
        if len(data) != self.bytes:
            raise Refused(f"{self.length} elements of {self.kind} are announced, {len(data)} bytes are there")
        self.data = data


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StoredTensor:
    """A strided view into a storage, in elements; every index was checked to lie inside."""

    storage: Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def dtype(self) -> torch.dtype:
        return TYPES[self.storage.kind][1]

    def tensor(self) -> Tensor:
        """A contiguous copy, which no longer depends on the file."""
        layout, dtype = TYPES[self.storage.kind]
        data = present(self.storage.data, "the tensor's bytes") if self.storage.length else b""
        return torch.from_numpy(contiguous(data, layout, self.offset, self.size, self.stride)).view(dtype)


def read_checkpoint(view: memoryview, *, name: str, unknown: Callable[[str, str], NoReturn]) -> Any:
    """The content of a checkpoint; its tensors are `StoredTensor`s.

    name: how an error begins. unknown: called with module and name of a global that is none of a tensor. Raises Refused
    or InputError for everything that is no such file.
    """
    reader = _Reader(most_bytes=MOST_CLAIMED * len(view), unknown=unknown)
    read = reader.archive if bytes(view[:4]) == START else reader.legacy
    return read(view, name)


@dataclass(kw_only=True)
class _Reader:
    most_bytes: int
    unknown: Callable[[str, str], NoReturn]
    storages: dict[str, Storage] = field(default_factory=dict)
    claimed: int = 0
    tensors: int = 0

    def archive(self, view: memoryview, name: str) -> Any:
        members = read_archive(view)
        roots = [path.removesuffix("data.pkl") for path in members if path.endswith("/data.pkl")]
        if len(roots) != 1 or f"{roots[0]}constants.pkl" in members:
            raise Refused("expected the archive of a state dictionary, got another one (a TorchScript program?)")
        [root] = roots
        if bytes(members.get(f"{root}byteorder", memoryview(b"little"))) != b"little":
            raise Refused("expected tensors written by a little-endian machine")
        stream = Cursor(members[f"{root}data.pkl"])
        content = run(stream, self.dialect(), name=name).stack[0]
        for key, storage in self.storages.items():
            if f"{root}data/{key}" not in members:
                raise Refused(f"the tensor data {describe(key)} are missing")
            storage.bind(members[f"{root}data/{key}"])
        return content

    def legacy(self, view: memoryview, name: str) -> Any:
        cursor, plain = Cursor(view), self.dialect()
        magic, version, system = (run(cursor, plain, name=name).stack[0] for _ in range(3))
        if type(magic) is not int or magic != MAGIC or type(version) is not int or version != LEGACY_VERSION:
            raise Refused(f"expected torch's format {LEGACY_VERSION}, got {describe(magic)}, {describe(version)}")
        if type(system) is not dict or system.get("little_endian") is not True:
            raise Refused("expected tensors written by a little-endian machine")
        content = run(cursor, plain, name=name).stack[0]
        keys = run(cursor, plain, name=name).stack[0]
        if type(keys) is not list or not all(type(key) is str for key in keys) or set(keys) != set(self.storages):
            raise Refused("expected a list of the tensor data that follow")
        if len(set(keys)) != len(keys):
            raise Refused("the same tensor data are announced twice")
        for key in keys:
            if cursor.unsigned(8) != self.storages[key].length:
                raise Refused(f"the tensor data {describe(key)} have another length than announced")
            self.storages[key].bind(cursor.take(self.storages[key].bytes))
        if cursor.left:
            raise Refused(f"{cursor.left} bytes follow the tensors")
        return content

    def dialect(self) -> Dialect:
        makers: dict[tuple[str, str], Callable[[tuple[Any, ...]], object]] = {
            ("torch._utils", "_rebuild_tensor"): self.tensor,
            ("torch._utils", "_rebuild_tensor_v2"): self.tensor,
            ("torch._utils", "_rebuild_parameter"): _parameter,
            ("collections", "OrderedDict"): _ordered_dict,
            ("torch", "Size"): _size,
            ("torch", "device"): _device,
        }
        table = {key: Global(name=".".join(key), reduce=make) for key, make in makers.items()}
        table |= {("torch", kind): Global(name=kind) for kind in (*TYPES, *_DTYPES)}
        return Dialect(
            what="a checkpoint of plain tensors",
            globals=table,
            opcodes=CHECKPOINT_OPCODES,
            build=_attributes,
            persistent=self.storage,
            limits=_LIMITS,
            unknown=self.unknown,
        )

    def storage(self, value: Any) -> Storage:
        """('storage', type, key, location, length) and in the legacy format a view, which must be None."""
        known = type(value) is tuple and len(value) in (5, 6) and value[0] == "storage"
        if not known or any(view is not None for view in value[5:]):
            raise Refused("expected a persistent id ('storage', type, key, location, length)")
        _, kind, key, _, length = value[:5]
        if type(kind) is not Global or kind.name not in TYPES or type(key) is not str or type(length) is not int:
            raise Refused("expected a storage's type, key and length")
        if not 0 <= length < 2**40 or len(self.storages) > MAX_TENSORS:
            raise Refused(f"expected a length, and at most {MAX_TENSORS} storages, got {length}")
        storage = self.storages.setdefault(key, Storage(kind=kind.name, length=length))
        if (storage.kind, storage.length) != (kind.name, length):
            raise Refused(f"the tensor data {describe(key)} are announced twice, differently")
        return storage

    def tensor(self, arguments: tuple[Any, ...]) -> StoredTensor:
        """(storage, offset, size, stride) and in version 2 requires_grad, no hooks, and perhaps no metadata."""
        if len(arguments) not in (4, 6, 7) or type(arguments[0]) is not Storage or any(arguments[5:]):
            raise Refused("expected a storage, offset, size and stride, without hooks or metadata")
        storage, offset, size, stride = arguments[:4]
        for numbers in ((offset,), size, stride):
            if type(numbers) is not tuple or len(numbers) > MAX_RANK:
                raise Refused(f"expected sizes and strides of at most {MAX_RANK} axes, got {describe(numbers)}")
            if not all(type(number) is int and 0 <= number < 2**40 for number in numbers):
                raise Refused("expected whole numbers >= 0 as offset, sizes and strides")
        if len(size) != len(stride):
            raise Refused(f"{len(size)} sizes and {len(stride)} strides")
        count = prod(size)
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        # More elements than the storage has would be repeated ones, by which few bytes could claim endless memory.
        if count and (count > storage.length or last >= storage.length):
            raise Refused(f"size {list(size)} at {offset}, strides {list(stride)} exceeds {storage.length} elements")
        self.tensors += 1
        self.claimed += storage.bytes // max(1, storage.length) * count
        if self.tensors > MAX_TENSORS or self.claimed > self.most_bytes:
            raise Refused(f"the tensors are more than {MAX_TENSORS}, or claim more than {self.most_bytes} bytes")
        return StoredTensor(storage=storage, offset=offset if count else 0, size=size, stride=stride)


def _parameter(arguments: tuple[Any, ...]) -> StoredTensor:
    if len(arguments) != 3 or type(arguments[0]) is not StoredTensor or arguments[2]:
        raise Refused("expected a tensor, a flag and no hooks")
    return arguments[0]


def _ordered_dict(arguments: tuple[Any, ...]) -> dict[Any, Any]:
    """Empty, or of pairs as Python 2 wrote them."""
    pairs = arguments[0] if arguments else []
    if len(arguments) > 1 or type(pairs) is not list:
        raise Refused("expected no arguments, or a list of pairs")
    if not all(type(pair) in (list, tuple) and len(pair) == 2 and type(pair[0]) is str for pair in pairs):
        raise Refused("expected pairs of a text and a value")
    return dict(pairs)


def _size(arguments: tuple[Any, ...]) -> tuple[int, ...]:
    [size] = arguments if len(arguments) == 1 else [None]
    if type(size) is not tuple or not all(type(number) is int for number in size):
        raise Refused("expected a tuple of whole numbers")
    return size


def _device(arguments: tuple[Any, ...]) -> str:
    if not 1 <= len(arguments) <= 2 or type(arguments[0]) is not str:
        raise Refused("expected the name of a device")
    return arguments[0]


def _attributes(target: object, state: object) -> None:
    """A state dictionary carries the versions of its modules beside its items; nothing here needs them."""
    if type(target) is not dict or type(state) is not dict:
        raise Refused(f"expected the attributes of a dictionary, got {describe(target)} and {describe(state)}")
