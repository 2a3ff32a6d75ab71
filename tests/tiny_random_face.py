"""Tiny networks of MobileStyleGAN, numbers under the package's names, and folders as the import writes them."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from smoothsweep.core.priors.mobilestylegan import MobileStyleGAN
from smoothsweep.core.priors.random_face import with_mean, write_resolution
from smoothsweep.core.priors.settings import MobileStyleGANConfig

GOLDEN = Path(__file__).parent / "golden" / "mobilestylegan.npz"


def tiny_generator(channels=(8, 12, 8)):
    """The network, a latent [1, 8], its w and the image of it, as NumPy computed them of the graph."""
    name = {(8, 12, 8): "three.", (12, 8, 8, 4): "four."}[channels]
    with np.load(GOLDEN) as arrays:
        found = {key.removeprefix(name): arrays[key] for key in arrays.files if key.startswith(name)}
    network = MobileStyleGAN(MobileStyleGANConfig(channels=channels, z_dim=8, w_dim=8, mapping_layers=2))
    state = {key.removeprefix("state."): value for key, value in found.items() if key.startswith("state.")}
    network.load_state_dict({key: torch.from_numpy(value) for key, value in state.items()})
    return network.eval().requires_grad_(False), found["z"], found["w"], found["image"]


def random_generator(config, seed=0):
    """A network of that configuration with small random numbers."""
    network, draws = MobileStyleGAN(config), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in network.state_dict().values():
            value.copy_(torch.randn(value.shape, generator=draws) / max(1, np.prod(value.shape[1:])) ** 0.5)
    return with_mean(network)


def imported_folder(place, resolution=64):
    """One resolution of an imported prior under `place`, with few channels."""
    channels = (8, 8, 8, 8, 8, 8, 8, 8)[: {64: 4, 128: 5, 256: 6, 1024: 8}[resolution]]
    config = MobileStyleGANConfig(channels=channels, z_dim=6, w_dim=6, mapping_layers=1)
    write_resolution(random_generator(replace(config)), place / str(resolution), {"resolution": resolution})
    return place


def package_numbers(channels, w_dim=8, layers=2):
    """Random constants under the names that the package's graphs have, as (mapping, synthesis)."""
    shapes = {"m.input.input": (1, channels[0], 4, 4), "Mul_39_copy": (channels[0], channels[0], 3, 3)}
    shapes |= {"1531": (1, 1, 4, 4), "Constant_18": (1, 1, 1, 1), "m.conv1.bias": (1, channels[0], 1, 1)}

    def style(name, count):
        shapes.update({f"{name}.modulation.weight": (count, w_dim), f"{name}.modulation.bias": (1, count)})

    style("m.conv1.conv", channels[0])
    for stage, (before, count) in enumerate(pairwise(channels)):
        style(f"m.layers.{stage}.up", before)
        for number, inputs, at in ((1, before // 4, (106, 1560, 84)), (2, count, (139, 1572, 117))):
            layer = f"m.layers.{stage}.conv{number}"
            style(f"{layer}.conv", inputs)
            shapes[f"{layer}.bias"], shapes[f"{layer}.conv.weight_dw"] = (1, count, 1, 1), (inputs, 1, 1, 3, 3)
            shapes[f"Mul_{at[0] + 100 * stage}_copy"] = (count, inputs, 1, 1)
            shapes[f"{at[1] + 41 * stage}"] = (1, 1, 8 * 2**stage, 8 * 2**stage)
            shapes[f"Constant_{at[2] + 100 * stage}"] = (1, 1, 1, 1)
    image = f"m.layers.{len(channels) - 2}.to_img"
    style(f"{image}.conv", channels[-1])
    shapes |= {f"{image}.conv.weight": (12, channels[-1], 1, 1), f"{image}.bias": (1, 12, 1, 1)}
    shapes[f"Constant_{50 + 100 * (len(channels) - 1)}"] = (1, 1, 1, 1)
    mapping = {f"{173 + 4 * index + part}": (w_dim, w_dim)[: 2 - part] for index in range(layers) for part in (0, 1)}
    draws = np.random.default_rng(0)
    return tuple(
        {name: draws.standard_normal(shape).astype("<f4") * 0.5 for name, shape in named.items()}
        for named in (mapping, shapes)
    )


def graph_of(numbers):
    """An OpenVINO graph of constants alone: its text, its file of constants."""
    layers, content = [], b""
    for name, value in numbers.items():
        shape = ", ".join(map(str, value.shape))
        stated = f'element_type="f32" shape="{shape}" offset="{len(content)}" size="{value.nbytes}"'
        layers.append(f'<layer id="{len(layers)}" name="{name}" type="Const" version="opset1"><data {stated}/></layer>')
        content += value.tobytes()
    return f'<net name="x" version="10"><layers>{"".join(layers)}</layers></net>'.encode(), content
