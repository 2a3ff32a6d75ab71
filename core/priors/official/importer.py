"""An official StyleGAN2 pickle as our networks, without running anything of it.

Source of the file's layout: `NVlabs/stylegan2-ada-pytorch`, torch_utils/persistence.py, training/training_loop.py
and legacy.py. No NVIDIA source text or weight is part of this project: the user brings the file.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor, nn

from smoothsweep.core.errors import InputError
from smoothsweep.core.pickles.cursor import Cursor, describe
from smoothsweep.core.pickles.machine import Machine
from smoothsweep.core.pickles.mapped import map_file
from smoothsweep.core.pickles.opcodes import run
from smoothsweep.core.priors.official.arguments import (
    Arguments,
    discriminator_arguments,
    generator_arguments,
    shared_config,
)
from smoothsweep.core.priors.official.attributes import check_attributes
from smoothsweep.core.priors.official.layout import discriminator_shapes, generator_shapes
from smoothsweep.core.priors.official.records import Layers, copy_tensors, flatten, parameter_count
from smoothsweep.core.priors.official.standins import NEEDED, NetworkRecord, network_dialect
from smoothsweep.core.priors.stylegan2 import StyleGAN2
from smoothsweep.core.priors.stylegan2_discriminator import StyleGAN2Discriminator

MAX_FILE_BYTES = 2**30

LICENCE_NOTICE = (
    "The networks come from a file under the NVIDIA Source Code License for StyleGAN2 with Adaptive Discriminator "
    "Augmentation (LICENSE.txt of NVlabs/stylegan2-ada-pytorch) or under the terms of whoever trained them. That "
    "licence allows non-commercial use only (research or evaluation). Do not redistribute the converted weights, and "
    "let images and results made with them carry this notice."
)

# What people save under the name of a weight file. First bytes to a sentence.
_NOT_PICKLES: dict[bytes, str] = {
    b"<": "a web page, perhaps of a failed download",
    b"PK": "a zip archive, perhaps of torch.save",
    b"version https://git-lfs": "a Git LFS pointer",
}
_Network = TypeVar("_Network", bound=nn.Module)

_KEYS, _EXTRAS = ("G", "D", "G_ema"), ("training_set_kwargs", "augment_pipe")


@dataclass(frozen=True, kw_only=True)
class NetworkFacts:
    """What the file says of one network. Arguments have their defaults filled in."""

    class_name: str
    arguments: Arguments
    layer_classes: dict[str, int]
    source_sha256: list[str]
    tensors: int
    numbers: int
    filters_dropped: int


@dataclass(frozen=True, kw_only=True)
class ImportFacts:
    """Where imported networks came from. num_fp16_res (per network, in `arguments`) is recorded, not followed."""

    file: str
    bytes: int
    sha256: str
    protocol: int
    opcodes: int
    networks: dict[str, NetworkFacts]
    licence: str = LICENCE_NOTICE


@dataclass(frozen=True, kw_only=True)
class ImportedPrior:
    """`generator` is the file's moving average G_ema. Both networks: eval mode, CPU, float32, no gradients."""

    generator: StyleGAN2
    discriminator: StyleGAN2Discriminator
    facts: ImportFacts


def import_prior(path: Path) -> ImportedPrior:
    """Read an official StyleGAN2-ADA pickle (PyTorch, unconditional, protocol 3 to 5, at most 1 GiB).

    Nothing of the file is executed, imported or compiled, and no length is believed before the bytes are seen.
    Raises InputError, one line, for anything else: a TensorFlow pickle, another network, a broken file.
    The file is memory-mapped: it must not be shortened meanwhile. The result no longer depends on it.
    """
    path = Path(path)
    try:
        view = map_file(path, most_bytes=MAX_FILE_BYTES)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    machine = _parse(view, path)
    layers = _networks(machine, path)
    sha256 = hashlib.sha256(view).hexdigest()
    return _imported(path, machine, layers, size=len(view), sha256=sha256)


def _parse(view: memoryview, path: Path) -> Machine:
    for head, meaning in _NOT_PICKLES.items():
        if view[: len(head)] == head:
            raise InputError(f"{path}: expected a StyleGAN2-ADA pickle, this is {meaning}")
    cursor = Cursor(view)
    machine = run(cursor, network_dialect(str(path)), name=str(path))
    if cursor.left:
        raise InputError(f"{path}: offset {cursor.here}: {cursor.left} bytes follow the pickle")
    return machine


def _networks(machine: Machine, path: Path) -> dict[str, Layers]:
    """The layers of G_ema and D."""
    top: Any = machine.stack[0]
    if type(top) is not dict or any(key not in top for key in _KEYS):
        raise InputError(f"{path}: expected a dict with {', '.join(_KEYS)}, got {describe(top)}; {NEEDED}")
    if unknown := [key for key in top if key not in _KEYS + _EXTRAS]:
        raise InputError(f"{path}: unknown key {describe(unknown[0])}, expected {', '.join(_KEYS + _EXTRAS)}")
    for key, class_name in zip(_KEYS, ("Generator", "Discriminator", "Generator"), strict=True):
        if type(top[key]) is not NetworkRecord:
            raise InputError(f"{path}: {key}: expected a network, got {describe(top[key])}")
        if top[key].class_name != class_name:
            raise InputError(f"{path}: {key}: expected a {class_name}, got {describe(top[key].class_name)}")
    return {key: flatten(top[key], f"{path}: {key}") for key in ("G_ema", "D")}


def _imported(path: Path, machine: Machine, layers: dict[str, Layers], *, size: int, sha256: str) -> ImportedPrior:
    arguments = {
        "G_ema": generator_arguments(_given(layers["G_ema"], f"{path}: G_ema"), f"{path}: G_ema"),
        "D": discriminator_arguments(_given(layers["D"], f"{path}: D"), f"{path}: D"),
    }
    config = shared_config(arguments["G_ema"], arguments["D"], str(path))
    shapes = {"G_ema": generator_shapes(config), "D": discriminator_shapes(config)}
    states, facts = {}, {}
    for key, network in layers.items():
        where = f"{path}: {key}"
        check_attributes(network, config, where)
        states[key] = copy_tensors(network, shapes[key], most_bytes=size, where=where)
        facts[key] = _facts(network, arguments[key], states[key])
    return ImportedPrior(
        generator=_filled(StyleGAN2(config), states["G_ema"]),
        discriminator=_filled(StyleGAN2Discriminator(config), states["D"]),
        facts=ImportFacts(
            file=path.name,
            bytes=size,
            sha256=sha256,
            protocol=machine.protocol,
            opcodes=machine.operations,
            networks=facts,
        ),
    )


def _given(layers: Layers, where: str) -> dict[object, object]:
    """The keyword arguments a network was constructed with."""
    state = layers.records[""].state
    positional, keywords = state.get("_init_args"), state.get("_init_kwargs")
    if type(positional) is not tuple or positional or type(keywords) is not dict:
        raise InputError(f"{where}: expected constructor arguments given by keyword")
    return keywords


def _facts(layers: Layers, arguments: Arguments, state: dict[str, Tensor]) -> NetworkFacts:
    records = layers.records.values()
    sources = {id(record.source): record.source for record in records}
    return NetworkFacts(
        class_name=layers.records[""].class_name,
        arguments=arguments,
        layer_classes=dict(sorted(Counter(record.class_name for record in records).items())),
        source_sha256=sorted({hashlib.sha256(text.encode()).hexdigest() for text in sources.values()}),
        tensors=len(state),
        numbers=parameter_count(state),
        filters_dropped=len(layers.tensors) - len(state),
    )


def _filled(network: _Network, state: dict[str, Tensor]) -> _Network:
    network.load_state_dict(state)
    return network.eval().requires_grad_(False)
