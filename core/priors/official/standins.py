"""The visible table of globals that an official file may name, and the harmless things we make of them.

Source of the list: `NVlabs/stylegan2-ada-pytorch`, torch_utils/persistence.py and dnnlib/util.py, and what torch
1.7 to 2.11 and numpy 1 and 2 write for their tensors and scalars.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from smoothsweep.core.pickles.cursor import Refused, describe
from smoothsweep.core.pickles.machine import Data, Dialect, Global, Limits
from smoothsweep.core.pickles.opcodes import NETWORK_OPCODES
from smoothsweep.core.pickles.storages import StorageRecord, TensorRecord, read_storage, rebuild_tensor

PERSISTENCE_VERSION = 6
MAX_STORAGES, MAX_TENSORS, MAX_RECORDS = 2000, 2000, 2000

NEEDED = "the PyTorch file stylegan2-ada-pytorch/pretrained/ffhq.pkl is needed (or another network of that project)"
_TEXT_BYTES = "protocol 2 writes tensors as text: write the file again with protocol 3 or later"

EXPLAINED: dict[tuple[str, str], str] = {
    ("dnnlib.tflib.network", "Network"): f"this is a TensorFlow StyleGAN2 pickle; {NEEDED}",
    ("_codecs", "encode"): _TEXT_BYTES,
    ("__builtin__", "set"): _TEXT_BYTES,
}

_SCALARS: dict[str, tuple[str, type]] = {
    "f8": ("<d", float),
    "f4": ("<f", float),
    "i8": ("<q", int),
    "i4": ("<i", int),
    "b1": ("<?", bool),
}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NetworkRecord:
    """One network or layer as the file describes it. `source` is the module's text, which is never compiled."""

    class_name: str
    source: str
    state: dict[Any, Any]


@dataclass(kw_only=True, eq=False, repr=False)
class NumpyType:
    """A numpy scalar type; complete once BUILD has told its byte order."""

    code: str
    little_endian: bool = False


@dataclass(kw_only=True)
class _Counted:
    """Lets `make` be called at most `most` times: a short stream may not ask for endless work."""

    make: Callable[[tuple[object, ...]], object]
    most: int
    what: str
    used: int = 0

    def __call__(self, arguments: tuple[object, ...]) -> object:
        self.used += 1
        if self.used > self.most:
            raise Refused(f"there are more than {self.most} {self.what}")
        return self.make(arguments)


def network_dialect(name: str, *, limits: Limits | None = None) -> Dialect:
    """The table for one file; `name` stands in its errors."""

    def storage(arguments: tuple[object, ...]) -> StorageRecord:
        if len(arguments) != 1 or type(arguments[0]) is not Data:
            raise Refused("expected the bytes of one storage")
        return read_storage(arguments[0], name=name)

    makers: dict[tuple[str, str], Callable[[tuple[object, ...]], object]] = {
        ("torch_utils.persistence", "_reconstruct_persistent_obj"): _Counted(
            make=_network_record, most=MAX_RECORDS, what="networks and layers"
        ),
        ("torch._utils", "_rebuild_parameter"): _parameter,
        ("torch._utils", "_rebuild_tensor_v2"): _Counted(make=rebuild_tensor, most=MAX_TENSORS, what="tensors"),
        ("torch.storage", "_load_from_bytes"): _Counted(make=storage, most=MAX_STORAGES, what="storages"),
        ("collections", "OrderedDict"): _ordered_dict,
        ("builtins", "set"): _set,
        ("numpy", "dtype"): _numpy_type,
        ("numpy.core.multiarray", "scalar"): _numpy_scalar,
        ("numpy._core.multiarray", "scalar"): _numpy_scalar,
    }
    table = {key: Global(name=" ".join(key), reduce=make) for key, make in makers.items()}
    table["dnnlib.util", "EasyDict"] = Global(name="dnnlib.util EasyDict", new=dict)
    return Dialect(
        what="a StyleGAN2-ADA file",
        globals=table,
        opcodes=NETWORK_OPCODES,
        explained=EXPLAINED,
        build=_set_byte_order,
        limits=limits or Limits(),
    )


def _network_record(arguments: tuple[object, ...]) -> NetworkRecord:
    meta: Any = arguments[0] if len(arguments) == 1 else None
    if type(meta) is not dict or meta.keys() != {"type", "version", "module_src", "class_name", "state"}:
        raise Refused("expected the keys type, version, module_src, class_name and state")
    if type(meta["type"]) is not str or meta["type"] != "class":
        raise Refused(f"expected the type 'class', got {describe(meta['type'])}")
    if type(meta["version"]) is not int or meta["version"] != PERSISTENCE_VERSION:
        raise Refused(f"expected version {PERSISTENCE_VERSION}, got {describe(meta['version'])}")
    if type(meta["class_name"]) is not str or type(meta["module_src"]) is not str or type(meta["state"]) is not dict:
        raise Refused("expected texts as class_name and module_src, and a dict as state")
    return NetworkRecord(class_name=meta["class_name"], source=meta["module_src"], state=meta["state"])


def _parameter(arguments: tuple[object, ...]) -> TensorRecord:
    if len(arguments) != 3 or type(arguments[0]) is not TensorRecord or type(arguments[1]) is not bool:
        raise Refused("expected a tensor, a bool and no hooks")
    if type(arguments[2]) is not dict or arguments[2]:
        raise Refused(f"expected no hooks, got {describe(arguments[2])}")
    return arguments[0]


def _ordered_dict(arguments: tuple[object, ...]) -> dict[Any, Any]:
    if arguments:
        raise Refused("expected no arguments")
    return {}


def _set(arguments: tuple[object, ...]) -> set[Any]:
    values = arguments[0] if len(arguments) == 1 else None
    if type(values) is not list or not all(type(value) is str for value in values):
        raise Refused("expected a list of texts")
    return set(values)


def _numpy_type(arguments: tuple[object, ...]) -> NumpyType:
    code = arguments[0] if len(arguments) == 3 else None
    if type(code) is not str or code not in _SCALARS:
        raise Refused(f"expected one of {', '.join(_SCALARS)}, got {describe(code)}")
    if any(type(flag) not in (bool, int) for flag in arguments[1:]):
        raise Refused("expected two flags after the type")
    return NumpyType(code=code)


def _set_byte_order(target: object, state: object) -> None:
    if type(target) is not NumpyType:
        raise Refused(f"only a numpy type may be completed, got {describe(target)}")
    if type(state) is not tuple or len(state) < 2 or type(state[1]) is not str or state[1] not in ("<", "|"):
        raise Refused("expected a little-endian numpy type")
    target.little_endian = True


def _numpy_scalar(arguments: tuple[object, ...]) -> float | int | bool:
    kind, data = arguments if len(arguments) == 2 else (None, None)
    if type(kind) is not NumpyType or not kind.little_endian or type(data) is not Data:
        raise Refused("expected a complete numpy type and bytes")
    layout, convert = _SCALARS[kind.code]
    if len(data.view) != struct.calcsize(layout):
        raise Refused(f"expected {struct.calcsize(layout)} bytes, got {len(data.view)}")
    return convert(struct.unpack(layout, data.view)[0])
