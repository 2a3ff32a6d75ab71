"""Writes StyleGAN2 pickles in the official layout, with classes of our own standing in for the official ones.

The source of the layout is `NVlabs/stylegan2-ada-pytorch`, torch_utils/persistence.py, training/training_loop.py and
legacy.py. Where official files hold their module's source text, these hold a text that would create a marker file.
"""

import pickle
import sys
import types
from collections import OrderedDict
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2, StyleGAN2Discriminator

FIR = torch.outer(torch.tensor([1.0, 3.0, 3.0, 1.0]), torch.tensor([1.0, 3.0, 3.0, 1.0])) / 64
BUFFERS = ("w_avg", "noise_const", "resample_filter")
HOOKS = ("_backward_hooks", "_forward_hooks", "_forward_pre_hooks", "_state_dict_hooks", "_load_state_dict_pre_hooks")


def _reconstruct_persistent_obj(meta):
    """Stands in for the official loader: it runs the text of the file."""
    exec(meta["module_src"], {})
    return meta["state"]


class EasyDict(dict):
    """Stands in for the official dictionary of keyword arguments."""


_reconstruct_persistent_obj.__module__ = "torch_utils.persistence"
EasyDict.__module__ = "dnnlib.util"


@contextmanager
def official_modules():
    """Make the stand-ins importable under the official names, and only for a while."""
    names = ("torch_utils", "torch_utils.persistence", "dnnlib", "dnnlib.util")
    modules = {name: types.ModuleType(name) for name in names}
    modules["torch_utils.persistence"]._reconstruct_persistent_obj = _reconstruct_persistent_obj
    modules["dnnlib.util"].EasyDict = EasyDict
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


class Layer:
    """A network or layer that pickles as the official persistent objects do."""

    def __init__(self, class_name, source, **attributes):
        self.meta = {
            "type": "class",
            "version": 6,
            "module_src": source,
            "class_name": class_name,
            "state": {"training": False, **attributes},
        }

    @property
    def state(self):
        return self.meta["state"]

    def child(self, path):
        layer = self
        for name in path.split("."):
            layer = layer.state["_modules"][name]
        return layer

    def __reduce__(self):
        return sys.modules["torch_utils.persistence"]._reconstruct_persistent_obj, (self.meta,), None


def marker_source(marker):
    """A text that creates the file `marker` if anybody runs it."""
    return f"import pathlib\npathlib.Path({str(marker)!r}).write_text('executed')\n"


def write_official_pickle(path, config: StyleGAN2Config, *, seed: int = 0, protocol: int = 3, edit=None, **options):
    """Write G (a training snapshot with other weights), D, G_ema and the two extras to `path`.

    options: see `official_networks`. edit: called with the dictionary before it is written. Returns the state dicts
    {"G_ema": ..., "D": ...} without the constant filters.
    """
    data, states = official_networks(config, seed=seed, **options)
    if edit is not None:
        edit(data)
    with official_modules(), open(path, "wb") as handle:
        pickle.dump(data, handle, protocol=protocol)
    return states


def official_networks(
    config,
    *,
    seed=0,
    generator=None,
    discriminator=None,
    converted=False,
    num_fp16_res=0,
    frozen=(),
    source=None,
    container=OrderedDict,
    channels_last=False,
):
    """The dictionary that is pickled, and the state dicts it was made of.

    generator, discriminator: state dicts with official names (else random networks from `seed`). converted: as
    legacy.py writes networks that came from TensorFlow. frozen: layers of D whose weights are buffers. container:
    what holds parameters and layers: OrderedDict (torch 1.7) or dict (torch 2). channels_last: strided weights.
    """
    source = marker_source("executed") if source is None else source
    states = {
        "G_ema": StyleGAN2(config, seed=seed).state_dict() if generator is None else generator,
        "D": StyleGAN2Discriminator(config, seed=seed + 1).state_dict() if discriminator is None else discriminator,
    }
    layout = torch.channels_last if channels_last else torch.contiguous_format
    for state in states.values():
        for name, value in state.items():
            state[name] = value.contiguous(memory_format=layout if value.ndim == 4 else torch.contiguous_format)
    arguments = {
        "G": _generator_arguments(config, num_fp16_res, converted),
        "D": _discriminator_arguments(config, num_fp16_res, converted),
    }
    snapshot = {name: value * 0.5 for name, value in states["G_ema"].items()}
    tree = _Tree(config, source, container, frozen)
    networks = {
        "G": tree.network(snapshot, "Generator", arguments["G"]),
        "D": tree.network(states["D"], "Discriminator", arguments["D"]),
        "G_ema": tree.network(states["G_ema"], "Generator", arguments["G"]),
    }
    if converted:
        return {**networks, "training_set_kwargs": None, "augment_pipe": None}, states
    images = {
        "class_name": "training.dataset.ImageFolderDataset",
        "path": "faces.zip",
        "use_labels": False,
        "max_size": 70000,
        "xflip": False,
        "resolution": config.resolution,
    }
    pipe = {"p": torch.zeros([]), "Hz_geom": torch.ones(12), "Hz_fbank": torch.ones(4, 43)}
    augment_pipe = tree.network(pipe, "AugmentPipe", {"xflip": 1, "rotate90": 1})
    return {"training_set_kwargs": images, **networks, "augment_pipe": augment_pipe}, states


def _generator_arguments(config, num_fp16_res, converted):
    mapping = {"num_layers": config.mapping_layers}
    synthesis = _widths(config, num_fp16_res)
    if converted:
        mapping |= {"embed_features": None, "layer_features": config.w_dim, "activation": "lrelu"}
        mapping |= {"lr_multiplier": 0.01, "w_avg_beta": 0.995}
        synthesis |= {"architecture": "skip", "resample_filter": [1, 3, 3, 1], "use_noise": True, "activation": "lrelu"}
    top = {"c_dim": 0, "img_resolution": config.resolution, "img_channels": 3}
    top |= {"z_dim": config.z_dim, "w_dim": config.w_dim}
    return top | {"mapping_kwargs": EasyDict(mapping), "synthesis_kwargs": EasyDict(synthesis)}


def _discriminator_arguments(config, num_fp16_res, converted):
    block, mapping, epilogue = EasyDict(), EasyDict(), EasyDict(mbstd_group_size=config.mbstd_group)
    top = {"c_dim": 0, "img_resolution": config.resolution, "img_channels": 3, **_widths(config, num_fp16_res)}
    if converted:
        top |= {"architecture": "resnet", "cmap_dim": None}
        block.update(activation="lrelu", resample_filter=[1, 3, 3, 1], freeze_layers=0)
        mapping.update(num_layers=0, embed_features=None, layer_features=None, activation="lrelu", lr_multiplier=0.1)
        epilogue.update(mbstd_num_channels=1, activation="lrelu")
    return top | {"block_kwargs": block, "mapping_kwargs": mapping, "epilogue_kwargs": epilogue}


def _widths(config, num_fp16_res):
    return {
        "channel_base": config.channel_base,
        "channel_max": config.channel_max,
        "num_fp16_res": num_fp16_res,
        "conv_clamp": config.conv_clamp,
    }


class _Tree:
    """Turns flat state dicts into the nested layers of the official networks, with the attributes those carry."""

    def __init__(self, config, source, container, frozen):
        self.config, self.source, self.container, self.frozen = config, source, container, frozen

    def network(self, state, class_name, arguments):
        state = dict(state)
        for path in {name.rpartition(".")[0] for name in state}:
            for filtered in (path, path.rpartition(".")[0]):
                if self._class_name(filtered, class_name) in (
                    "SynthesisBlock",
                    "SynthesisLayer",
                    "DiscriminatorBlock",
                    "Conv2dLayer",
                ):
                    state[f"{filtered}.resample_filter"] = FIR.clone()
        root = self._layer("", class_name, state)
        root.state.update(_init_args=(), _init_kwargs=arguments)
        return root

    def _layer(self, path, root, state):
        prefix = f"{path}." if path else ""
        own, children = {}, []
        for name, value in state.items():
            if name.startswith(prefix):
                head, _, rest = name[len(prefix) :].partition(".")
                if not rest:
                    own[head] = value
                elif head not in children:
                    children.append(head)
        kind = self._class_name(path, root)
        buffers = own.keys() if path in self.frozen or root == "AugmentPipe" else set(own) & set(BUFFERS)
        weights = {name: nn.Parameter(own[name], requires_grad=False) for name in own if name not in buffers}
        modules = self.container((name, self._layer(f"{prefix}{name}", root, state)) for name in children)
        if kind == "DiscriminatorEpilogue":
            modules["mbstd"] = self._bare("MinibatchStdLayer", group_size=self.config.mbstd_group, num_channels=1)
        return self._bare(
            kind,
            _parameters=self.container(weights),
            _buffers=self.container((name, own[name]) for name in own if name in buffers),
            _modules=modules,
            **self._attributes(path, kind),
        )

    def _bare(self, kind, **attributes):
        containers = {name: self.container() for name in ("_parameters", "_buffers", "_modules", *HOOKS)}
        return Layer(kind, self.source, _non_persistent_buffers_set=set(), **(containers | attributes))

    def _class_name(self, path, root):
        if not path:
            return root
        parts = path.split(".")
        if root == "Discriminator":
            if len(parts) == 1:
                return "DiscriminatorEpilogue" if path == "b4" else "DiscriminatorBlock"
            return "FullyConnectedLayer" if parts[1] in ("fc", "out") else "Conv2dLayer"
        names = {
            "mapping": "MappingNetwork",
            "synthesis": "SynthesisNetwork",
            "conv0": "SynthesisLayer",
            "conv1": "SynthesisLayer",
            "torgb": "ToRGBLayer",
            "affine": "FullyConnectedLayer",
        }
        default = "FullyConnectedLayer" if parts[0] == "mapping" else "SynthesisBlock"
        return names.get(parts[-1], default)

    def _attributes(self, path, kind):
        skip, clamp = path.endswith("skip"), self.config.conv_clamp
        gain = np.float64(1) / np.sqrt(3.0)
        table = {
            "SynthesisBlock": {"architecture": "skip", "use_fp16": False, "num_conv": 2},
            "SynthesisLayer": {"activation": "lrelu", "use_noise": True, "conv_clamp": clamp, "act_gain": np.sqrt(2)},
            "ToRGBLayer": {"conv_clamp": clamp, "weight_gain": gain},
            "FullyConnectedLayer": {"weight_gain": gain, "bias_gain": 0.01 if "mapping" in path else 1},
            "DiscriminatorBlock": {"architecture": "resnet", "resolution": 8},
            "DiscriminatorEpilogue": {"architecture": "resnet", "cmap_dim": 0},
            "Conv2dLayer": {
                "activation": "linear" if skip else "lrelu",
                "conv_clamp": None if skip else clamp,
                "weight_gain": gain,
            }
            | ({"bias": None} if skip else {}),
            "MappingNetwork": {
                "z_dim": self.config.z_dim,
                "w_dim": self.config.w_dim,
                "num_layers": self.config.mapping_layers,
                "w_avg_beta": 0.995,
            },
        }
        return table.get(kind, {})
