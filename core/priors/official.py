"""An official StyleGAN2 pickle as our networks, and what is kept of the import.

The pickle is read in the isolated process (`core.readers.tensors`), where only the names of `_NAMES` mean anything; the
source text that it holds is never run. Source of the layout, names and defaults: `NVlabs/stylegan2-ada-pytorch`,
torch_utils/persistence.py, training/training_loop.py, training/networks.py and legacy.py. No NVIDIA source text or
weight is part of this project: the user brings the file.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy._core import multiarray
from torch import Tensor, nn

from smoothsweep.core.cards import filled, read_card
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import making_folder, write_file
from smoothsweep.core.isolation.worker import Loaded
from smoothsweep.core.models.weight_files import file_sha256, wrong_content
from smoothsweep.core.priors.registry import load_discriminator, load_prior, save_discriminator, save_prior
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import MAPPING_LEARNING_RATE, StyleGAN2, StyleGAN2Discriminator
from smoothsweep.core.readers.tensors import handed_back, read_isolated, refused
from smoothsweep.core.text import shortened

MANIFEST = "import.json"
LICENCE_NOTICE = (
    "The networks come from a file under the NVIDIA Source Code License for StyleGAN2 with Adaptive Discriminator "
    "Augmentation (LICENSE.txt of NVlabs/stylegan2-ada-pytorch) or under the terms of their trainer. That "
    "licence allows non-commercial use only (research or evaluation). Do not redistribute the converted weights, and "
    "let images and results made with them carry this notice."
)
NEEDED = "the PyTorch file stylegan2-ada-pytorch/pretrained/ffhq.pkl is needed (or another network of that project)"
_KEYS, _EXTRAS = ("G", "D", "G_ema"), ("training_set_kwargs", "augment_pipe")
_FIR = torch.outer(torch.tensor([1.0, 3.0, 3.0, 1.0]), torch.tensor([1.0, 3.0, 3.0, 1.0])) / 64
_MOST_LAYERS, _MOST_DEPTH = 1000, 8


@dataclass(frozen=True, kw_only=True)
class ImportedPrior:
    """`generator` is the file's moving average G_ema. Both networks: eval mode, CPU, float32, no gradients.

    Attributes:
        facts: What import.json says: the file, what it says of each network, the licence.
    """

    generator: StyleGAN2
    discriminator: StyleGAN2Discriminator
    facts: dict[str, Any]


def import_prior(path: Path) -> ImportedPrior:
    """Read an official StyleGAN2-ADA pickle (PyTorch, unconditional). Nothing of the file is executed or imported.

    Raises InputError, one line, for anything else: a TensorFlow pickle, another network, a broken file.
    """
    path = Path(path)
    try:
        if path.is_file() and (reason := wrong_content(path)):
            raise InputError(f"{path} {reason}")
        loader = f"{__name__}:open_pickle"
        content = read_isolated(path, loader, where=f"{path}", what="a StyleGAN2-ADA pickle")
        source = {"file": path.name, "bytes": path.stat().st_size, "sha256": file_sha256(path)}
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    said = json.loads(content["said"])
    config = StyleGAN2Config(**said.pop("config"))
    return ImportedPrior(
        generator=filled(StyleGAN2, config, content["G_ema"], f"{path}: G_ema"),
        discriminator=filled(StyleGAN2Discriminator, config, content["D"], f"{path}: D"),
        facts={**source, **said, "licence": LICENCE_NOTICE},
    )


def write_imported_prior(imported: ImportedPrior, directory: Path) -> None:
    """Write weights.safetensors, prior.json, discriminator.safetensors and import.json into a new `directory`.

    The files appear together. An existing directory is left as it is: no error if it holds the import of the same file,
    else InputError.
    """
    if not directory.exists():
        try:
            with making_folder(directory) as draft:
                save_prior(imported.generator, draft)
                save_discriminator(imported.discriminator, draft)
                write_file(draft / MANIFEST, json.dumps(imported.facts, indent=2, allow_nan=False) + "\n")
            return
        except OSError as error:
            if not directory.exists():
                raise InputError(f"{directory}: cannot be written: {error.strerror}") from error
    try:
        held = read_card(directory / MANIFEST, "the JSON description of an import")
        pairs = ((load_prior(directory), imported.generator), (load_discriminator(directory), imported.discriminator))
    except InputError as error:
        raise InputError(f"{directory}: expected a new directory or this very import: {error}") from error
    if held.get("sha256") != imported.facts["sha256"] or not all(_same(*pair) for pair in pairs):
        raise InputError(f"{directory}: expected a new directory, it already holds another import")


def _same(first: nn.Module, second: nn.Module) -> bool:
    ours, theirs = first.state_dict(), second.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(value, theirs[name]) for name, value in ours.items())


# From here on: what runs in the isolated process.


@dataclass(frozen=True, eq=False)
class _Record:
    """A network or layer as the file describes it."""

    meta: dict[str, Any]


def _storage(content: bytes) -> Any:
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


def _parameter(tensor: Tensor, *_: Any) -> Tensor:
    return tensor


_NAMES: dict[str, Any] = {
    "torch_utils.persistence._reconstruct_persistent_obj": _Record,
    "dnnlib.util.EasyDict": dict,
    "torch.storage._load_from_bytes": _storage,
    "torch._utils._rebuild_tensor_v2": torch._utils._rebuild_tensor_v2,
    "torch._utils._rebuild_parameter": _parameter,
    "collections.OrderedDict": OrderedDict,
    "builtins.set": set,
    "numpy.dtype": np.dtype,
    "numpy.core.multiarray.scalar": multiarray.scalar,
    "numpy._core.multiarray.scalar": multiarray.scalar,
}
"""Every name that such a file may use, and what stands for it."""

_EXPLAINED = {
    "dnnlib.tflib.network.Network": f"a TensorFlow StyleGAN2 pickle; {NEEDED}",
    **dict.fromkeys(
        ("_codecs.encode", "__builtin__.set"),
        "a pickle of protocol 2, which writes tensors as text: write the file again with protocol 3",
    ),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """What stands for a name. Raises ValueError for one that such a file has not."""
        full = f"{module}.{name}"
        if full not in _NAMES:
            raise ValueError(_EXPLAINED.get(full, f"a file that names {shortened(full)}, which was not run; {NEEDED}"))
        return _NAMES[full]


_SIZES = {"img_resolution": None, "c_dim": 0, "img_channels": 3}
_WIDTHS = {"channel_base": 32768, "channel_max": 512, "num_fp16_res": 0, "conv_clamp": None}
_LAYERS = {"activation": "lrelu", "resample_filter": [1, 3, 3, 1], "fp16_channels_last": False}
_USUAL: dict[str, dict[str, Any]] = {
    "G_ema": {
        **_SIZES,
        "z_dim": None,
        "w_dim": None,
        "mapping_kwargs": {
            "num_layers": 8,
            "embed_features": None,
            "layer_features": None,
            "activation": "lrelu",
            "lr_multiplier": MAPPING_LEARNING_RATE,
            "w_avg_beta": 0.995,
        },
        "synthesis_kwargs": {**_WIDTHS, **_LAYERS, "architecture": "skip", "use_noise": True},
    },
    "D": {
        **_SIZES,
        **_WIDTHS,
        "architecture": "resnet",
        "cmap_dim": None,
        "block_kwargs": {**_LAYERS, "freeze_layers": 0},
        "epilogue_kwargs": {"mbstd_group_size": 4, "mbstd_num_channels": 1, "activation": "lrelu"},
    },
}
"""Every constructor argument of a network with its official default."""
_FREE = {
    *("img_resolution", "z_dim", "w_dim", "num_layers", "channel_base", "channel_max", "conv_clamp"),
    *("mbstd_group_size", "embed_features", "layer_features", "w_avg_beta", "num_fp16_res", "fp16_channels_last"),
    *("freeze_layers", "cmap_dim"),
}
"""Arguments that our configuration has, too, and those that no image depends on; any other has its default."""
_NEVER_MADE = ("mapping_kwargs",)  # of a discriminator without labels


def open_pickle(program: BinaryIO, settings: dict[str, Any], device: torch.device) -> Loaded:
    """The tensors of G_ema and D, without the constant filters, and as JSON what the file says of them."""
    try:
        return handed_back(_read(program))
    except InputError as error:
        return refused(f": {error}")
    except Exception as error:  # whatever a pickle from elsewhere raises
        got = " ".join(str(error).split())[:300] or type(error).__name__
        return refused(f": expected a StyleGAN2-ADA pickle, got: {got}")


def _read(program: BinaryIO) -> dict[str, Any]:
    protocol = program.read(2)[1:]
    program.seek(0)
    top = _Unpickler(program).load()
    if program.read(1):
        raise InputError("bytes follow the pickle")
    if type(top) is not dict or any(key not in top for key in _KEYS):
        raise InputError(f"expected a dict with {', '.join(_KEYS)}, got a {type(top).__name__}; {NEEDED}")
    if unknown := [key for key in top if key not in _KEYS + _EXTRAS]:
        raise InputError(f"unknown key {shortened(str(unknown[0]))!r}, expected {', '.join(_KEYS + _EXTRAS)}")
    for key, wanted in zip(_KEYS, ("Generator", "Discriminator", "Generator"), strict=True):
        got = top[key].meta["class_name"] if type(top[key]) is _Record else type(top[key]).__name__
        if got != wanted:
            raise InputError(f"{key}: expected a {wanted}, got {shortened(str(got))!r}")
    layers = {key: _flattened(top[key], key) for key in ("G_ema", "D")}
    arguments = {key: _constructed(network, _USUAL[key]) for key, network in layers.items()}
    config = _config(arguments["G_ema"], arguments["D"])
    networks = {key: _facts(network, arguments[key], config) for key, network in layers.items()}
    said = {"protocol": protocol[0], "networks": networks, "config": asdict(config)}
    return {**{key: network.tensors for key, network in layers.items()}, "said": json.dumps(said)}


@dataclass(frozen=True, kw_only=True)
class _Layers:
    """A network flattened: its layers and its tensors by dotted name, without the constant filters."""

    where: str
    records: dict[str, _Record] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)


def _flattened(network: _Record, where: str) -> _Layers:
    """Parameters and buffers (where frozen weights lie) become one. Layers may be shared, so they are limited."""
    layers, waiting = _Layers(where=where), [("", network, 1)]
    while waiting:
        path, record, depth = waiting.pop()
        place = f"{where}.{path}" if path else where
        if depth > _MOST_DEPTH or len(layers.records) >= _MOST_LAYERS:
            raise InputError(f"{place}: expected at most {_MOST_LAYERS} layers, {_MOST_DEPTH} deep")
        layers.records[path] = record
        if (record.meta["type"], record.meta["version"]) != ("class", 6):
            raise InputError(f"{place}: expected a class of version 6, got {shortened(str(record.meta['version']))}")
        for container in ("_parameters", "_buffers", "_modules"):
            kind = _Record if container == "_modules" else Tensor
            entries = record.meta["state"].get(container)
            if not isinstance(entries, dict):
                raise InputError(f"{place}: {container}: expected a dict, got {type(entries).__name__}")
            for name, value in entries.items():
                full = f"{path}.{name}" if path else name
                if not isinstance(value, kind | None) or full in layers.tensors:
                    expected = "a layer" if kind is _Record else "one tensor"
                    raise InputError(
                        f"{place}.{shortened(str(name))}: expected {expected}, got {shortened(repr(value))}"
                    )
                if isinstance(value, _Record):
                    waiting.append((full, value, depth + 1))
                elif name == "resample_filter" and value is not None:
                    if value.shape != _FIR.shape or not torch.allclose(value.float(), _FIR, rtol=0, atol=1e-6):
                        raise InputError(f"{place}.{name}: expected the filter of [1, 3, 3, 1]")
                elif value is not None:
                    layers.tensors[full] = value
    return layers


def _facts(layers: _Layers, arguments: dict[str, Any], config: StyleGAN2Config) -> dict[str, Any]:
    """What import.json says of a network. Raises InputError where a layer's own value contradicts the arguments.

    A missing argument takes its default from the source text inside the file, which is not run: so layers are compared.
    """
    for path, record in layers.records.items():
        for name, wanted in _attributes(record.meta["class_name"], path, config).items():
            value = record.meta["state"].get(name, wanted)
            if type(value) not in (type(None), bool, int, float, str) or value != wanted:
                place = f"{layers.where}.{path}" if path else layers.where
                raise InputError(f"{place}: {name}: expected {wanted!r}, got {shortened(repr(value))}")
    sources = {record.meta["module_src"] for record in layers.records.values()}
    return {
        "class_name": layers.records[""].meta["class_name"],
        "arguments": arguments,
        "source_sha256": sorted({hashlib.sha256(source.encode()).hexdigest() for source in sources}),
        "tensors": len(layers.tensors),
    }


def _constructed(layers: _Layers, usual: Mapping[str, Any]) -> dict[str, Any]:
    """Every argument that a network was constructed with, defaults filled in. Raises InputError, which names it."""
    state = layers.records[""].meta["state"]
    if state.get("_init_args") != () or type(state.get("_init_kwargs")) is not dict:
        raise InputError(f"{layers.where}: expected constructor arguments given by keyword")
    return _filled(state["_init_kwargs"], usual, layers.where)


def _filled(stated: Any, usual: Mapping[str, Any], where: str) -> dict[str, Any]:
    if not isinstance(stated, dict):
        raise InputError(f"{where}: expected a dict, got {shortened(repr(stated))}")
    if unknown := [name for name in stated if name not in usual and name not in _NEVER_MADE]:
        got = shortened(repr(unknown[0]))
        raise InputError(f"{where}: unknown constructor argument {got}, expected {', '.join(usual)}")
    made = {}
    for name, wanted in usual.items():
        value = stated.get(name, {} if isinstance(wanted, dict) else wanted)
        if isinstance(wanted, dict):
            value = _filled(value, wanted, f"{where}: {name}")
        elif name not in _FREE and (list(value) if isinstance(value, tuple) else value) != wanted:
            raise InputError(f"{where}: {name}: expected {wanted!r}, got {shortened(repr(value))}")
        made[name] = value
    return made


def _config(generator: dict[str, Any], discriminator: dict[str, Any]) -> StyleGAN2Config:
    """One configuration for both networks. Raises InputError if they were not made for each other."""
    mapping, synthesis = generator["mapping_kwargs"], generator["synthesis_kwargs"]
    if mapping["layer_features"] not in (None, generator["w_dim"]):
        got = f"None or w_dim, {generator['w_dim']}, got {mapping['layer_features']}"
        raise InputError(f"G_ema: mapping_kwargs: layer_features: expected {got}")
    for name in ("img_resolution", "channel_base", "channel_max", "conv_clamp"):
        ours, theirs = {**generator, **synthesis}[name], discriminator[name]
        if ours != theirs:
            raise InputError(f"{name}: G_ema has {ours}, D has {theirs}")
    return StyleGAN2Config(
        resolution=generator["img_resolution"],
        z_dim=generator["z_dim"],
        w_dim=generator["w_dim"],
        mapping_layers=mapping["num_layers"],
        channel_base=synthesis["channel_base"],
        channel_max=synthesis["channel_max"],
        conv_clamp=synthesis["conv_clamp"],
        mbstd_group=discriminator["epilogue_kwargs"]["mbstd_group_size"],
    )


def _attributes(class_name: str, path: str, config: StyleGAN2Config) -> dict[str, object]:
    """What a layer's own values must be, where it states them."""
    clamp, skip = config.conv_clamp, path.endswith("skip")
    table: dict[str, dict[str, object]] = {
        "MappingNetwork": {"z_dim": config.z_dim, "w_dim": config.w_dim, "num_layers": config.mapping_layers},
        "SynthesisBlock": {"architecture": "skip"},
        "SynthesisLayer": {"activation": "lrelu", "use_noise": True, "conv_clamp": clamp},
        "ToRGBLayer": {"conv_clamp": clamp},
        "FullyConnectedLayer": {"bias_gain": MAPPING_LEARNING_RATE if path.startswith("mapping.fc") else 1},
        "DiscriminatorBlock": {"architecture": "resnet"},
        "DiscriminatorEpilogue": {"architecture": "resnet", "cmap_dim": 0},
        "Conv2dLayer": {"activation": "linear" if skip else "lrelu", "conv_clamp": None if skip else clamp},
        "MinibatchStdLayer": {"group_size": config.mbstd_group, "num_channels": 1},
        "Generator": {},
        "SynthesisNetwork": {},
        "Discriminator": {},
    }
    if class_name not in table:
        name = shortened(repr(class_name))
        raise InputError(f"{path}: the class {name} is not of a StyleGAN2-ADA network")
    return table[class_name]
