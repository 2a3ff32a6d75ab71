"""Tensors of an official pickle as views into the file: torch's legacy storage format, parsed by ourselves.

A storage is five small pickles (magic number, version, system, persistent id, keys), the number of elements and
the raw little-endian elements. Source of the layout: `pytorch/pytorch`, torch/serialization.py (`_legacy_save`)
and torch/_utils.py (`_rebuild_tensor_v2`). Nothing is copied before `array_of`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from smoothsweep.core.pickles.cursor import Cursor, Refused, describe
from smoothsweep.core.pickles.machine import Data, Dialect, Global, Limits
from smoothsweep.core.pickles.opcode_names import STORAGE_OPCODES
from smoothsweep.core.pickles.opcodes import run

MAGIC, VERSION = 0x1950A86A20F9469CFC6C, 1001
MAX_RANK = 6

STORAGE_TYPES: dict[str, str] = {
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
}
"""Only float32 can be imported. The others are read so that the refusal can name the tensor."""

_LIMITS = Limits(opcodes=60, memo=50, stack=50, text=200, all_text=2000)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StorageRecord:
    """`length` elements of numpy type `dtype`: bytes of the file, not copied."""

    dtype: str
    length: int
    data: memoryview


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TensorRecord:
    """A strided view into a storage, in elements, with every index checked to lie inside."""

    storage: StorageRecord
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """The size of a contiguous copy."""
        return prod(self.size) * np.dtype(self.storage.dtype).itemsize


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _StorageId:
    kind: str
    key: str
    length: int


def _storage_id(value: object) -> _StorageId:
    if type(value) is not tuple or len(value) != 6:
        raise Refused(f"expected a persistent id of six parts, got {describe(value)}")
    word, kind, key, location, length, view = value
    if word != "storage" or type(kind) is not Global or type(key) is not str or type(location) is not str:
        raise Refused("expected a persistent id ('storage', type, key, location, length, None)")
    if type(length) is not int or length < 0 or view is not None:
        raise Refused(f"expected a length and no view, got {describe(length)} and {describe(view)}")
    return _StorageId(kind=kind.name, key=key, length=length)


_DIALECT = Dialect(
    what="torch's legacy storage format",
    globals={("torch", name): Global(name=name) for name in STORAGE_TYPES},
    opcodes=STORAGE_OPCODES,
    persistent=_storage_id,
    limits=_LIMITS,
)


def read_storage(blob: Data, *, name: str) -> StorageRecord:
    """Parse one storage. name: the file, for errors. Raises Refused or InputError."""
    cursor = Cursor(blob.view, offset=blob.offset)
    magic, version, system, storage, keys = (run(cursor, _DIALECT, name=name).stack[0] for _ in range(5))
    if type(magic) is not int or magic != MAGIC or type(version) is not int or version != VERSION:
        raise Refused(f"expected torch's legacy storage format {VERSION}, got {describe(magic)}, {describe(version)}")
    if type(system) is not dict or system.get("little_endian") is not True:
        raise Refused("expected a storage written by a little-endian machine")
    if type(storage) is not _StorageId:
        raise Refused(f"expected a persistent id, got {describe(storage)}")
    if type(keys) is not list or len(keys) != 1 or type(keys[0]) is not str or keys[0] != storage.key:
        raise Refused(f"expected the list of the one key {describe(storage.key)}")
    dtype = STORAGE_TYPES[storage.kind]
    length = cursor.unsigned(8)
    if length != storage.length or cursor.left != length * np.dtype(dtype).itemsize:
        raise Refused(
            f"{storage.length} elements of {storage.kind} are announced, then {length}; {cursor.left} bytes follow"
        )
    return StorageRecord(dtype=dtype, length=length, data=cursor.take(cursor.left))


def rebuild_tensor(arguments: tuple[Any, ...]) -> TensorRecord:
    """(storage, offset, size, stride, requires_grad, hooks) as a record. Raises Refused."""
    if len(arguments) != 6:
        raise Refused(f"expected six arguments, got {len(arguments)}")
    storage, offset, size, stride, requires_grad, hooks = arguments
    if type(storage) is not StorageRecord or type(requires_grad) is not bool or type(hooks) is not dict or hooks:
        raise Refused("expected a storage, offset, size, stride, a bool and no hooks")
    for numbers, minimum in (((offset,), 0), (size, 1), (stride, 0)):
        if type(numbers) is not tuple or len(numbers) > MAX_RANK:
            raise Refused(f"expected sizes and strides of at most {MAX_RANK} axes, got {describe(numbers)}")
        if not all(type(number) is int and number >= minimum for number in numbers):
            raise Refused("expected whole numbers: offset and strides >= 0, sizes >= 1")
    if len(size) != len(stride):
        raise Refused(f"{len(size)} sizes and {len(stride)} strides")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    # The first condition refuses repeated elements (stride 0), by which few bytes could claim endless memory.
    if prod(size) > storage.length or last >= storage.length:
        raise Refused(f"size {list(size)} at {offset} with strides {list(stride)} exceeds {storage.length} elements")
    return TensorRecord(storage=storage, offset=offset, size=size, stride=stride)


def array_of(tensor: TensorRecord) -> np.ndarray:
    """A contiguous copy of the tensor, which no longer depends on the file."""
    return contiguous(tensor.storage.data, tensor.storage.dtype, tensor.offset, tensor.size, tensor.stride)


def contiguous(
    data: memoryview | bytes, dtype: str, offset: int, size: tuple[int, ...], stride: tuple[int, ...]
) -> np.ndarray:
    """A copy of a strided view into `data`; offset and strides count elements, and lie inside."""
    width = np.dtype(dtype).itemsize
    # The stride of an axis of one element is free, and may be larger than numpy can hold.
    strides = [step * width if n > 1 else 0 for n, step in zip(size, stride, strict=True)]
    view: np.ndarray = np.ndarray(size, dtype=dtype, buffer=data, offset=offset * width, strides=strides)
    return np.array(view, order="C")
