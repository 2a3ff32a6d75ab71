"""Official checkpoints of the low-resolution attacks' GANs, read without running anything they hold, all or nothing.

GMI, KED-MI and LOMMA save {"state_dict": ...} of DataParallel modules (`.tar`), PLG-MI {"model": ..., "opt": ...}
(`.pth.tar`). Their own scripts load with strict=False, so that a missing prefix loads nothing and says nothing: here
every tensor must find its place. What a network is built from is read off its tensors' shapes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from smoothsweep.core.attacks.gan.conditional_config import ConditionalConfig
from smoothsweep.core.attacks.gan.conditional_generator import ConditionalGenerator
from smoothsweep.core.attacks.gan.config import PlainGanConfig
from smoothsweep.core.attacks.gan.imported import NETWORKS
from smoothsweep.core.attacks.gan.networks import Critic, MinibatchDiscriminator, PlainGenerator
from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.checkpoints import SMALL_STATE, fitting_state
from smoothsweep.core.models.official import WRAPPINGS, read_official_checkpoint

Made = TypeVar("Made", bound=nn.Module)

_RENAMED = {
    "l1": "linear",
    "b6": "norm",
    "conv6": "rgb",
    "c1": "conv1",
    "c2": "conv2",
    "b1": "norm1",
    "b2": "norm2",
    "weights": "scale",
    "biases": "shift",
    "c_sc": "shortcut",
}
"""Names in PLG-MI's models/generators (resnet64.py, resblocks.py) -> ours."""

_FIRST_BLOCK = 2  # of them: block2 ... block5


def official_networks(part: str, generator: Path, discriminator: Path | None) -> dict[str, nn.Module]:
    """The networks of this part by name: in eval mode, on the CPU. Raises InputError, one line naming the file."""
    wants = "discriminator" in NETWORKS[part]
    if wants != (discriminator is not None):
        expected = f"the checkpoint of the discriminator of a {part}" if wants else f"none: a {part} is used without it"
        raise InputError(f"--discriminator: expected {expected}, got {discriminator or 'none'}")
    where = f"checkpoint {generator} as generator of a {part}"
    if part == "plg_gan":
        return {"generator": _conditional_generator(_read(generator, (*WRAPPINGS, "model")), where)}
    state = _read(generator)
    generator_network = _plain_generator(state, where)
    made: dict[str, nn.Module] = {"generator": generator_network}
    config = generator_network.config
    state = _read(present(discriminator, "discriminator"))
    where = f"checkpoint {discriminator} as discriminator of a {part}"
    if part == "general_gan":
        return {**made, "discriminator": _filled(Critic, config, state, where)}
    classes = _shape(state, "fc_layer.weight", 2, where)[0]
    our_config = PlainGanConfig(resolution=config.resolution, z_dim=config.z_dim, width=config.width, classes=classes)
    return {**made, "discriminator": _filled(MinibatchDiscriminator, our_config, state, where)}


def _read(path: Path, wrappings: tuple[str, ...] = WRAPPINGS) -> dict[str, Tensor]:
    return read_official_checkpoint(path, wrappings, most_bytes=SMALL_STATE)


def _plain_generator(state: Mapping[str, Tensor], where: str) -> PlainGenerator:
    z_dim = _shape(state, "l1.0.weight", 2, where)[1]
    last = max((int(key.split(".")[1]) for key in state if re.fullmatch(r"l2_5\.\d+\.weight", key)), default=-1)
    width = _shape(state, f"l2_5.{max(last, 0)}.weight", 4, where)[0]
    return _filled(
        PlainGenerator, _config(PlainGanConfig, where, z_dim=z_dim, width=width, doublings=last + 1), state, where
    )


def _conditional_generator(state: Mapping[str, Tensor], where: str) -> nn.Module:
    """Its tanh stands for [0, 1], which the official reals lie in, whatever the protocol."""
    z_dim = _shape(state, "l1.weight", 2, where)[1]
    width = _shape(state, "conv6.weight", 4, where)[1]
    classes = _shape(state, f"block{_FIRST_BLOCK}.b1.weights.weight", 2, where)[0]
    blocks = len({key.split(".")[0] for key in state if re.match(r"block\d+\.", key)})
    config = _config(
        ConditionalConfig, where, z_dim=z_dim, width=width, doublings=blocks, classes=classes, output="unit"
    )
    return _filled(ConditionalGenerator, config, {_ours(key): value for key, value in state.items()}, where)


def _ours(key: str) -> str:
    """Our name of a tensor of the conditional generator; of one that it does not have, whatever comes out."""
    names = [_RENAMED.get(part, part) for part in key.split(".")]
    if match := re.fullmatch(r"block(\d+)", names[0]):
        names[0] = f"blocks.{int(match[1]) - _FIRST_BLOCK}"
    return ".".join(names)


def _config(kind: type, where: str, *, doublings: int, **value: int | str) -> PlainGanConfig | ConditionalConfig:
    try:
        return kind(resolution=4 * 2 ** min(doublings, 30), **value)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _shape(state: Mapping[str, Tensor], key: str, rank: int, where: str) -> tuple[int, ...]:
    if key not in state or state[key].ndim != rank:
        first = next(iter(state))
        raise InputError(f"{where}: expected a tensor {key} of {rank} axes, there is none; the first is {first}")
    return tuple(state[key].shape)


def _filled(kind: Callable[[Any], Made], config: Any, state: Mapping[str, Tensor], where: str) -> Made:
    """A network of this kind with exactly these tensors; nothing of its size is made before they are known to fit."""
    with torch.device("meta"):
        expected = kind(config).state_dict()
    fitting = fitting_state(state, expected, where)
    network = kind(config)
    network.load_state_dict(fitting)
    return network.eval().requires_grad_(False)
