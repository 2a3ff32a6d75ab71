"""The random numbers and images of a step of a GAN's training: each from a stream of its own, made of seed and step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from smoothsweep.core.attacks.gan.config import GanTraining
from smoothsweep.core.seeds import generator


@dataclass(frozen=True, kw_only=True)
class StepDraw:
    """What one step of a GAN's training draws.

    Attributes:
        images: Batches [B, 3, R, R] in [0, 1].
        z, z_generator: [B, z_dim], of the two updates.
        mix: [B, 1, 1, 1].
    """

    images: tuple[Tensor, ...]
    z: Tensor
    z_generator: Tensor
    mix: Tensor


class Draws:
    """Batches of public images uint8 [N, 3, R, R], in a fresh order in each epoch, what is left of one aside."""

    def __init__(self, images: Tensor, recipe: GanTraining, *, streams: int, device: torch.device) -> None:
        """streams: batches of a step, each in an order of its own."""
        recipe.steps(len(images))
        self._images, self._recipe, self._streams, self._device = images, recipe, streams, device

    def at(self, step: int) -> StepDraw:
        """The draw of a zero-based step, on the device."""
        recipe, count = self._recipe, self._recipe.batch_size
        numbers = generator(recipe.seed, "gan", step)
        z, again = (torch.randn(count, recipe.z_dim, generator=numbers) for _ in range(2))
        mix = torch.rand(count, 1, 1, 1, generator=numbers)
        return StepDraw(
            images=tuple(self._batch(step, stream) for stream in range(self._streams)),
            z=z.to(self._device),
            z_generator=again.to(self._device),
            mix=mix.to(self._device),
        )

    def _batch(self, step: int, stream: int) -> Tensor:
        count = self._recipe.batch_size
        epoch, place = divmod(step, len(self._images) // count)
        rows = _order(len(self._images), self._recipe.seed, stream, epoch)[place * count : (place + 1) * count]
        return self._images[rows].to(self._device).float() / 255


@lru_cache(maxsize=8)
def _order(count: int, seed: int, stream: int, epoch: int) -> Tensor:
    return torch.randperm(count, generator=generator(seed, "gan order", stream, epoch))
