"""Turn the records of a parsed file into named tensors: walk them within limits, check, then copy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

import numpy as np
import torch
from torch import Tensor

from smoothsweep.core.errors import InputError
from smoothsweep.core.pickles.cursor import describe
from smoothsweep.core.pickles.storages import TensorRecord, array_of
from smoothsweep.core.priors.official.layout import FILTER, Shapes
from smoothsweep.core.priors.official.standins import NetworkRecord

MAX_DEPTH = 8
MAX_LAYERS = 1000
FIR = np.outer([1, 3, 3, 1], [1, 3, 3, 1]) / 64

CLASSES = (
    "Generator",
    "MappingNetwork",
    "SynthesisNetwork",
    "SynthesisBlock",
    "SynthesisLayer",
    "ToRGBLayer",
    "FullyConnectedLayer",
    "Discriminator",
    "DiscriminatorBlock",
    "DiscriminatorEpilogue",
    "Conv2dLayer",
    "MinibatchStdLayer",
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Layers:
    """A network flattened: its layers and its tensors by dotted name, not yet copied."""

    records: dict[str, NetworkRecord] = field(default_factory=dict)
    tensors: dict[str, TensorRecord] = field(default_factory=dict)


def flatten(network: NetworkRecord, where: str) -> Layers:
    """Walk the layers of `network`; parameters and buffers (where frozen weights lie) become one.

    Records may be shared or even contain themselves, so depth and number are limited. Raises InputError.
    """
    layers = Layers()
    waiting = [("", network, 1)]
    while waiting:
        path, record, depth = waiting.pop()
        place = f"{where}.{path}" if path else where
        if depth > MAX_DEPTH or len(layers.records) >= MAX_LAYERS:
            raise InputError(f"{place}: expected at most {MAX_LAYERS} layers, {MAX_DEPTH} deep")
        if record.class_name not in CLASSES:
            raise InputError(f"{place}: the class {describe(record.class_name)} is not of a StyleGAN2-ADA network")
        layers.records[path] = record
        for name, value in _named(record, "_parameters", place) + _named(record, "_buffers", place):
            if type(value) is not TensorRecord:
                raise InputError(f"{place}.{name}: expected a tensor, got {describe(value)}")
            if _join(path, name) in layers.tensors:
                raise InputError(f"{place}.{name}: is both a parameter and a buffer")
            layers.tensors[_join(path, name)] = value
        for name, value in _named(record, "_modules", place):
            if type(value) is not NetworkRecord:
                raise InputError(f"{place}.{name}: expected a layer, got {describe(value)}")
            waiting.append((_join(path, name), value, depth + 1))
    return layers


def copy_tensors(layers: Layers, shapes: Shapes, *, most_bytes: int, where: str) -> dict[str, Tensor]:
    """Exactly the tensors of `shapes`, as float32, without the constant filters, which are checked and dropped.

    most_bytes: what all copies together may take. Raises InputError for a missing or unknown tensor, a wrong shape
    or type, a number that is not finite, and another filter than that of [1, 3, 3, 1].
    """
    _check_names(layers, shapes, where)
    for name, shape in shapes.items():
        tensor = layers.tensors[name]
        if tensor.size != shape:
            expected = f"the constructor arguments give shape {list(shape)}"
            raise InputError(f"{where}.{name}: {expected}, the file has {list(tensor.size)}")
        if tensor.storage.dtype != "<f4":
            raise InputError(f"{where}.{name}: expected float32, got {np.dtype(tensor.storage.dtype)}")
    if sum(layers.tensors[name].bytes for name in shapes) > most_bytes:
        raise InputError(f"{where}: the tensors claim more than the {most_bytes} bytes of the file")
    return dict(_copies(layers, shapes, where))


def _copies(layers: Layers, shapes: Shapes, where: str) -> Iterator[tuple[str, Tensor]]:
    for name in shapes:
        # Checked after copying: the file could still change under the map.
        array = array_of(layers.tensors[name]).astype(np.float32, copy=False)
        if name.endswith(FILTER):
            if not np.allclose(array, FIR, rtol=0, atol=1e-6):
                raise InputError(f"{where}.{name}: expected the filter of [1, 3, 3, 1]")
            continue
        if not np.isfinite(array).all():
            raise InputError(f"{where}.{name}: expected finite numbers")
        yield name, torch.from_numpy(array)


def _check_names(layers: Layers, shapes: Shapes, where: str) -> None:
    if missing := sorted(shapes.keys() - layers.tensors.keys()):
        raise InputError(f"{where}: {len(missing)} tensors are missing, the first is {missing[0]}")
    if unknown := sorted(layers.tensors.keys() - shapes.keys()):
        raise InputError(f"{where}: {len(unknown)} unknown tensors, the first is {unknown[0]}")


def _named(record: NetworkRecord, container: str, place: str) -> list[tuple[str, object]]:
    """The entries of one of a module's three containers, without the empty ones (a bias of None)."""
    entries = record.state.get(container)
    if type(entries) is not dict or len(entries) > MAX_LAYERS:
        raise InputError(f"{place}: {container}: expected a dict of at most {MAX_LAYERS}, got {describe(entries)}")
    for name in entries:
        if type(name) is not str or len(name) > 40 or not name.isascii() or not name.isidentifier():
            raise InputError(f"{place}: {container}: expected the name of a layer or tensor, got {describe(name)}")
    return [(name, value) for name, value in entries.items() if value is not None]


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def parameter_count(tensors: dict[str, Tensor]) -> int:
    """How many numbers the tensors hold."""
    return sum(prod(value.shape) for value in tensors.values())
