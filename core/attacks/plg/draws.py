"""What chance decides in a step of the conditional GAN's training.

Every draw of a step comes from a stream of its own, made from (seed, step, which update of the step): a resumed
training is the same training. The official labels, from a numpy generator that is seeded anew by the clock, cannot be
drawn again (LetheSec/PLG-MI-Attack, dataset.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from smoothsweep.core.attacks.gan.conditional_config import ConditionalConfig
from smoothsweep.core.attacks.optimisation.losses import Protocol
from smoothsweep.core.attacks.plg.augment import Distortion, draw_distortion
from smoothsweep.core.attacks.plg.config import ConditionalTraining
from smoothsweep.core.seeds import generator

JITTER = 0.5  # chance that colours are changed while the GAN is trained


@dataclass(frozen=True, kw_only=True)
class Fakes:
    """z [B, z_dim] and labels int64 [B] of generated images; distortion: how the target is shown them, None as is."""

    z: Tensor
    labels: Tensor
    distortion: Distortion | None = None


@dataclass(frozen=True, kw_only=True)
class Reals:
    """images float [B, 3, R, R] in the generator's range, labels int64 [B]."""

    images: Tensor
    labels: Tensor


class Draws:
    """The draws of every step, from pseudo-labelled public images."""

    def __init__(
        self, images: Tensor, index: Tensor, config: ConditionalConfig, recipe: ConditionalTraining, protocol: Protocol
    ) -> None:
        """images: uint8 [N, 3, R, R]; index: int64 [C, n], the images labelled with each class."""
        self._images, self._config, self._recipe, self._protocol = images, config, recipe, protocol
        self._image_of = index.flatten()
        self._label_of = torch.arange(len(index)).repeat_interleave(index.shape[1])

    def for_generator(self, step: int) -> Fakes:
        """What the generator's update sees, and the target with it."""
        stream = generator(self._recipe.seed, "plg gan", step, 0)
        z, labels = self._fakes(stream)
        # kornia draws the order of the colour changes once per batch: a trap that is kept, since it costs nothing
        shared = stream if self._protocol == "paper" else None
        side = self._config.resolution
        return Fakes(
            z=z, labels=labels, distortion=draw_distortion(len(z), side, stream, jitter=JITTER, shared_order=shared)
        )

    def for_critic(self, step: int, update: int) -> tuple[Fakes, Reals]:
        """What one update of the discriminator sees; update: 0, 1, ... within the step."""
        stream = generator(self._recipe.seed, "plg gan", step, 1 + update)
        z, labels = self._fakes(stream)
        count = self._recipe.critic_steps * step + update
        pairs = self._pairs(count)
        images = self._images[self._image_of[pairs]].float()
        images = dequantised(images, torch.rand(images.shape, generator=stream), self._config.output)
        return Fakes(z=z, labels=labels), Reals(images=images, labels=self._label_of[pairs])

    def _fakes(self, stream: torch.Generator) -> tuple[Tensor, Tensor]:
        count, config = self._recipe.batch_size, self._config
        z = torch.randn(count, config.z_dim, generator=stream)
        return z, torch.randint(config.classes, (count,), generator=stream)

    def _pairs(self, batch: int) -> Tensor:
        """Pairs of a batch of reals: all pairs of image and label are shown in a fresh order again and again."""
        size, count = self._recipe.batch_size, len(self._label_of)
        places = range(batch * size, (batch + 1) * size)
        return torch.stack([_order(count, self._recipe.seed, place // count)[place % count] for place in places])


def dequantised(images: Tensor, noise: Tensor, output: str) -> Tensor:
    """Bytes as float [.., R, R], with noise in [0, 1) of a byte, in the range that the generator's tanh stands for.

    "unit" as published: value / 255 + noise / 256, in [0, 1.004) where tanh is asked for [0, 1].
    """
    return images / 255 + noise / 256 if output == "unit" else (images + noise) / 128 - 1


@lru_cache(maxsize=2)
def _order(count: int, seed: int, round_: int) -> Tensor:
    return torch.randperm(count, generator=generator(seed, "plg order", round_))
