"""Compare the attributes of single layers with the configuration.

A missing constructor argument takes its default from the source text inside the file, which is never run. The layers
hold the resulting values, so this check finds a file whose defaults differ from ours.
"""

from __future__ import annotations

from smoothsweep.core.errors import InputError
from smoothsweep.core.pickles.cursor import describe
from smoothsweep.core.priors.official.records import Layers
from smoothsweep.core.priors.stylegan2_networks import MAPPING_LEARNING_RATE
from smoothsweep.core.priors.stylegan2_settings import StyleGAN2Config


def check_attributes(layers: Layers, config: StyleGAN2Config, where: str) -> None:
    """Raise InputError, one line, if a layer's own value contradicts `config`. Missing values are accepted."""
    for path, record in layers.records.items():
        for name, wanted in _expected(record.class_name, path, config).items():
            value = record.state.get(name, wanted)
            if type(value) not in (type(None), bool, int, float, str) or value != wanted:
                place = f"{where}.{path}" if path else where
                raise InputError(f"{place}: {name}: expected {wanted!r}, got {describe(value)}")


def _expected(class_name: str, path: str, config: StyleGAN2Config) -> dict[str, object]:
    clamp, skip = config.conv_clamp, path.endswith("skip")
    mapping = path.startswith("mapping.fc")
    wanted: dict[str, dict[str, object]] = {
        "MappingNetwork": {"z_dim": config.z_dim, "w_dim": config.w_dim, "num_layers": config.mapping_layers},
        "SynthesisBlock": {"architecture": "skip"},
        "SynthesisLayer": {"activation": "lrelu", "use_noise": True, "conv_clamp": clamp},
        "ToRGBLayer": {"conv_clamp": clamp},
        "FullyConnectedLayer": {"bias_gain": MAPPING_LEARNING_RATE if mapping else 1},
        "DiscriminatorBlock": {"architecture": "resnet"},
        "DiscriminatorEpilogue": {"architecture": "resnet", "cmap_dim": 0},
        "Conv2dLayer": {"activation": "linear" if skip else "lrelu", "conv_clamp": None if skip else clamp},
        "MinibatchStdLayer": {"group_size": config.mbstd_group, "num_channels": 1},
    }
    return wanted.get(class_name, {})
