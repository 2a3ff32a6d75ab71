"""The tensors that an official StyleGAN2 pair has: names and shapes, from the configuration alone.

Source: `NVlabs/stylegan2-ada-pytorch`, training/networks.py. Written down apart from our networks, so that a file
is checked before anything of its size is allocated.
"""

from __future__ import annotations

from smoothsweep.core.priors.stylegan2_settings import StyleGAN2Config

Shapes = dict[str, tuple[int, ...]]

FILTER = "resample_filter"
FILTER_SIDE = 4


def generator_shapes(config: StyleGAN2Config) -> Shapes:
    """Official state-dict keys of the generator to shapes, the constant filters included."""
    shapes: Shapes = {"mapping.w_avg": (config.w_dim,)}
    for index in range(config.mapping_layers):
        inputs = config.z_dim if index == 0 else config.w_dim
        shapes |= _linear(f"mapping.fc{index}", inputs, config.w_dim)
    for side in config.sides:
        block, width = f"synthesis.b{side}", config.channels(side)
        shapes[f"{block}.{FILTER}"] = (FILTER_SIDE, FILTER_SIDE)
        if side == 4:
            shapes[f"{block}.const"] = (width, 4, 4)
        else:
            shapes |= _synthesis_layer(f"{block}.conv0", config, config.channels(side // 2), side)
        shapes |= _synthesis_layer(f"{block}.conv1", config, width, side)
        shapes |= _linear(f"{block}.torgb.affine", config.w_dim, width)
        shapes |= {f"{block}.torgb.weight": (3, width, 1, 1), f"{block}.torgb.bias": (3,)}
    return shapes


def discriminator_shapes(config: StyleGAN2Config) -> Shapes:
    """Shapes of the residual discriminator's tensors, likewise."""
    shapes: Shapes = {}
    for side in reversed(config.sides[1:]):
        block, width, narrower = f"b{side}", config.channels(side), config.channels(side // 2)
        shapes[f"{block}.{FILTER}"] = (FILTER_SIDE, FILTER_SIDE)
        if side == config.resolution:
            shapes |= _convolution(f"{block}.fromrgb", 3, width, 1)
        shapes |= _convolution(f"{block}.conv0", width, width, 3)
        shapes |= _convolution(f"{block}.conv1", width, narrower, 3)
        shapes |= _convolution(f"{block}.skip", width, narrower, 1, bias=False)
    width = config.channels(4)
    shapes |= _convolution("b4.conv", width + 1, width, 3)
    return shapes | _linear("b4.fc", width * 16, width) | _linear("b4.out", width, 1)


def _linear(name: str, inputs: int, outputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _convolution(name: str, inputs: int, outputs: int, side: int, *, bias: bool = True) -> Shapes:
    shapes: Shapes = {f"{name}.{FILTER}": (FILTER_SIDE, FILTER_SIDE), f"{name}.weight": (outputs, inputs, side, side)}
    return shapes | ({f"{name}.bias": (outputs,)} if bias else {})


def _synthesis_layer(name: str, config: StyleGAN2Config, inputs: int, side: int) -> Shapes:
    convolution = _convolution(name, inputs, config.channels(side), 3)
    noise: Shapes = {f"{name}.noise_const": (side, side), f"{name}.noise_strength": ()}
    return convolution | noise | _linear(f"{name}.affine", config.w_dim, inputs)
