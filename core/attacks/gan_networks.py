"""The networks of the GANs that attacks train: GMI's, KED-MI's and LOMMA's under the module names of the official code,
then PLG-MI's; and official checkpoints of all of them.

Sources: generator.py and discri.py of AI-secure/GMI-Attack (Celeba/), SCccc21/Knowledge-Enriched-DMI and
sutd-visual-computing-group/Re-thinking_MI, which agree; models/generators and models/discriminators/snresnet64.py of
LetheSec/PLG-MI-Attack. Images of the former are in [0, 1], as theirs; weights begin as torch's layers do.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import spectral_norm

from smoothsweep.core.attacks.training_settings import CONDITIONAL, GENERAL, NETWORKS, ConditionalConfig, PlainGanConfig
from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.checkpoints import SMALL_STATE, fitting_state
from smoothsweep.core.models.official import WRAPPINGS, read_official_checkpoint
from smoothsweep.core.priors.base import sample_latents, truncate

Made = TypeVar("Made", bound=nn.Module)

_SLOPE = 0.2
_STATISTIC_DIM = 50  # numbers that minibatch discrimination compares for each of its outputs


class PlainGenerator(nn.Module):
    """z [N, z_dim] -> images in (0, 1): a linear layer, then a transposed convolution for each doubling.

    A `core.priors.base.Prior` too, for attacks that search in it: its w is z itself. resolution: side of its images in
    pixels.
    """

    num_ws = 1

    def __init__(self, config: PlainGanConfig) -> None:
        super().__init__()
        self.config, channels = config, tuple(reversed(config.channels))
        self.resolution, self.z_dim, self.w_dim = config.resolution, config.z_dim, config.z_dim
        self.l1 = nn.Sequential(
            nn.Linear(config.z_dim, 16 * channels[0], bias=False), nn.BatchNorm1d(16 * channels[0]), nn.ReLU()
        )
        doublings = [
            nn.Sequential(_doubling(before, after, bias=False), nn.BatchNorm2d(after), nn.ReLU())
            for before, after in pairwise(channels)
        ]
        self.l2_5 = nn.Sequential(*doublings, _doubling(channels[-1], 3, bias=True), nn.Sigmoid())

    def sample_z(self, n: int, seed: int) -> np.ndarray:
        """float64 [n, z_dim], standard normal."""
        return sample_latents(n, self.z_dim, seed)

    def map(self, z: Tensor, *, psi: float = 1.0, cutoff: int | None = None) -> Tensor:
        """z [N, z_dim] -> the same as float32 [N, 1, z_dim], pulled towards 0 by psi."""
        return truncate(z.float()[:, None], 0.0, psi=psi, cutoff=cutoff)

    def forward(self, z: Tensor) -> Tensor:
        """[N, 3, R, R] in (0, 1)."""
        return self.l2_5(self.l1(z).unflatten(1, (-1, 4, 4)))

    def synthesize(self, w: Tensor) -> Tensor:
        """w [N, 1, z_dim] -> images [N, 3, R, R] in (-1, 1)."""
        return 2 * self(w[:, 0]) - 1


class Critic(nn.Module):
    """GMI's: images [N, 3, R, R] in [0, 1] -> [N], large for what looks real. It has no batch statistics."""

    def __init__(self, config: PlainGanConfig) -> None:
        super().__init__()
        self.config, channels = config, config.channels
        first = [nn.Conv2d(3, channels[0], 5, 2, 2), nn.LeakyReLU(_SLOPE)]
        blocks = [_halving(before, after) for before, after in pairwise(channels)]
        self.ls = nn.Sequential(*first, *blocks, nn.Conv2d(channels[-1], 1, 4))

    def forward(self, images: Tensor) -> Tensor:
        return self.ls(images).flatten()


class MinibatchDiscriminator(nn.Module):
    """KED-MI's: images [N, 3, R, R] in [0, 1] -> features [N, F] and logits [N, classes].

    There is no unit for fakes: theirs is a fixed logit of 0. The images of a batch are compared with each other, also
    in evaluation; with `groups` those of a group alone.
    """

    def __init__(self, config: PlainGanConfig) -> None:
        super().__init__()
        self.config = config
        channels = (3, *config.channels[:-1], config.channels[-2])
        self.steps = len(channels) - 1
        for number, (before, after) in enumerate(pairwise(channels), start=1):
            last = number == self.steps
            setattr(self, f"layer{number}", _halving(before, after, kernel=3 if last else 5))
        features = 16 * channels[-1]
        self.mbd1 = MinibatchStatistics(features, config.width)
        self.fc_layer = nn.Linear(features + config.width, config.classes)

    def forward(self, images: Tensor, groups: int | None = None) -> tuple[Tensor, Tensor]:
        """groups: images of each group, in their order; None for the whole batch as one."""
        x = images
        for number in range(1, self.steps + 1):
            x = getattr(self, f"layer{number}")(x)
        features = x.flatten(1)
        if groups == 1:  # nothing to compare an image with: 0, and no gradient
            likeness = features.new_zeros(features.shape[0], self.config.width)
        else:
            parts = features.split(groups) if groups else (features,)
            likeness = torch.cat([self.mbd1(part) for part in parts])
        return features, self.fc_layer(torch.cat([features, likeness], 1))


class MinibatchStatistics(nn.Module):
    """How close every image is to the others of its batch, [N, F] -> [N, outputs]: a sum over them, not a mean."""

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.T = nn.Parameter(torch.randn(features, outputs, _STATISTIC_DIM))

    def forward(self, features: Tensor) -> Tensor:
        compared = (features @ self.T.flatten(1)).unflatten(1, self.T.shape[1:])
        # Row by row: all pairs at once would be N * N * outputs * 50 numbers.
        return torch.stack([(-(compared - row).abs().sum(2)).exp().sum(0) - 1 for row in compared])


def _doubling(before: int, after: int, *, bias: bool) -> nn.ConvTranspose2d:
    return nn.ConvTranspose2d(before, after, 5, 2, padding=2, output_padding=1, bias=bias)


def _halving(before: int, after: int, *, kernel: int = 5) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, kernel, 2, kernel // 2), nn.InstanceNorm2d(after, affine=True), nn.LeakyReLU(_SLOPE)
    )


class ConditionalNorm(nn.BatchNorm2d):
    """Batch norm without weights of its own, then a scale (1 at first) and a shift (0) of the image's class."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__(channels, affine=False)
        self.scale, self.shift = nn.Embedding(classes, channels), nn.Embedding(classes, channels)
        nn.init.ones_(self.scale.weight)
        nn.init.zeros_(self.shift.weight)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:  # ty: ignore[incompatible-method-override]  # needs labels
        """x [N, channels, H, W], labels int64 [N]."""
        return self.scale(labels)[:, :, None, None] * super().forward(x) + self.shift(labels)[:, :, None, None]


class UpBlock(nn.Module):
    """Twice the side: norm, ReLU, doubling, 3x3, norm, ReLU, 3x3; beside it doubling and 1x1."""

    def __init__(self, before: int, after: int, classes: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = ConditionalNorm(before, classes), ConditionalNorm(after, classes)
        self.conv1 = nn.Conv2d(before, after, 3, padding=1)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1)
        self.shortcut = nn.Conv2d(before, after, 1)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """x [N, before, S, S] -> [N, after, 2 S, 2 S]."""
        inner = self.conv1(doubled(F.relu(self.norm1(x, labels))))
        inner = self.conv2(F.relu(self.norm2(inner, labels)))
        return inner + self.shortcut(doubled(x))


class ConditionalGenerator(nn.Module):
    """z [N, z_dim] and labels [N] -> images. Weights begin as torch's layers do (the official initialiser never runs).

    As a decoder it takes one vector w [N, 1, z_dim + 1]: z, and the class as a whole number in the last place.
    """

    def __init__(self, config: ConditionalConfig) -> None:
        super().__init__()
        self.config, channels = config, config.channels
        self.linear = nn.Linear(config.z_dim, 16 * channels[0])
        self.blocks = nn.ModuleList(UpBlock(before, after, config.classes) for before, after in pairwise(channels))
        self.norm = nn.BatchNorm2d(channels[-1])
        self.rgb = nn.Conv2d(channels[-1], 3, 1)

    @property
    def resolution(self) -> int:
        return self.config.resolution

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        """[N, 3, R, R] as tanh gives it: images in [-1, 1] where config.output is "signed", in [0, 1] where "unit"."""
        x = self.linear(z).unflatten(1, (-1, 4, 4))
        for block in self.blocks:
            x = block(x, labels)
        return torch.tanh(self.rgb(F.relu(self.norm(x))))

    def synthesize(self, w: Tensor) -> Tensor:
        """w [N, 1, z_dim + 1] -> images [N, 3, R, R], nominally in [-1, 1] whatever tanh stands for."""
        images = self(w[:, 0, :-1], w[:, 0, -1].detach().round().long())
        return images if self.config.output == "signed" else 2 * images - 1


def with_class(z: Tensor, target_class: int) -> Tensor:
    """z [N, z_dim] -> w [N, 1, z_dim + 1], what `ConditionalGenerator.synthesize` takes."""
    return torch.cat([z, torch.full_like(z[:, :1], target_class)], dim=1)[:, None]


def doubled(x: Tensor) -> Tensor:
    """Twice the side, bilinear, corners not aligned; as two matrix products, whose gradient is the same every time."""
    side = x.shape[-1]
    place = ((torch.arange(2 * side) + 0.5) / 2 - 0.5).clamp(0, side - 1)
    # [2 side, side]: each row holds the weights of one pixel's two neighbours; the border repeats.
    matrix = (1 - (place[:, None] - torch.arange(side)).abs()).clamp_min(0).to(x)
    return matrix @ x @ matrix.T


class DownBlock(nn.Module):
    """Half the side: ReLU, 3x3, ReLU, 3x3, pooling; beside it 1x1 and pooling.

    The first block, which gets an image, has no ReLU before it and pools its shortcut first.
    """

    def __init__(self, before: int, after: int, *, first: bool = False) -> None:
        super().__init__()
        inside = after if first else before
        self.first = first
        self.conv1 = _normed(nn.Conv2d(before, inside, 3, padding=1), gain=math.sqrt(2))
        self.conv2 = _normed(nn.Conv2d(inside, after, 3, padding=1), gain=math.sqrt(2))
        self.shortcut = _normed(nn.Conv2d(before, after, 1), gain=1)

    def forward(self, x: Tensor) -> Tensor:
        """x [N, before, S, S] -> [N, after, S / 2, S / 2]."""
        inner = self.conv1(x if self.first else F.relu(x))
        inner = F.avg_pool2d(self.conv2(F.relu(inner)), 2)
        skip = self.shortcut(F.avg_pool2d(x, 2)) if self.first else F.avg_pool2d(self.shortcut(x), 2)
        return inner + skip


class ProjectionDiscriminator(nn.Module):
    """Images [N, 3, R, R] in the generator's range, and labels [N] -> [N, 1], large for what looks real.

    It is torch's older spectral norm: one power iteration per pass in train mode, v before u. The newer parametrisation
    takes u before v, which gives other numbers on the way.
    """

    def __init__(self, config: ConditionalConfig) -> None:
        super().__init__()
        self.config = config
        channels = (3, *reversed(config.channels))
        self.blocks = nn.ModuleList(
            DownBlock(before, after, first=place == 0) for place, (before, after) in enumerate(pairwise(channels))
        )
        self.linear = _normed(nn.Linear(channels[-1], 1), gain=1)
        self.embed = _normed(nn.Embedding(config.classes, channels[-1]), gain=1)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Logits [N, 1]. In train mode every call moves the vectors of the spectral norm by one power iteration."""
        x = images
        for block in self.blocks:
            x = block(x)
        features = F.relu(x).sum(dim=(2, 3))
        return self.linear(features) + (self.embed(labels) * features).sum(1, keepdim=True)


def _normed(layer: nn.Conv2d | nn.Linear | nn.Embedding, *, gain: float) -> nn.Module:
    nn.init.xavier_uniform_(layer.weight, gain)
    return spectral_norm(layer)


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
    """The networks of this part by name from official checkpoints: in eval mode, on the CPU.

    GMI, KED-MI and LOMMA save {"state_dict": ...} of DataParallel modules (`.tar`), PLG-MI {"model": ..., "opt": ...}
    (`.pth.tar`). Their own scripts load with strict=False, so that a missing prefix loads nothing and says nothing:
    here every tensor must find its place. What a network is built from is read off its tensors' shapes. Nothing that
    the files hold is run. Raises InputError, one line naming the file.
    """
    wants = "discriminator" in NETWORKS[part]
    if wants != (discriminator is not None):
        expected = f"the checkpoint of the discriminator of a {part}" if wants else f"none: a {part} is used without it"
        raise InputError(f"--discriminator: expected {expected}, got {discriminator or 'none'}")
    where = f"checkpoint {generator} as generator of a {part}"
    if part == CONDITIONAL:
        return {"generator": _conditional_generator(_read(generator, (*WRAPPINGS, "model")), where)}
    state = _read(generator)
    generator_network = _plain_generator(state, where)
    made: dict[str, nn.Module] = {"generator": generator_network}
    config = generator_network.config
    state = _read(present(discriminator, "discriminator"))
    where = f"checkpoint {discriminator} as discriminator of a {part}"
    if part == GENERAL:
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
