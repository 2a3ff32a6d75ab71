"""The trigger of a backdoor: what is laid over a picture."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from smoothsweep.core.analysis.backdoors.settings import PoisonSettings
from smoothsweep.core.errors import InputError

MEAN, SPREAD = 0.5, 0.25  # of the Gaussian pattern, in [0, 1]: our choice, the paper states neither


@dataclass(frozen=True, kw_only=True)
class Trigger:
    """A pattern that is laid over a picture.

    Attributes:
        pattern: float32 [3, S, S] in [0, 1].
        opacity: float32 [1, S, S] in [0, 1], 0 where the picture stays.
    """

    pattern: Tensor
    opacity: Tensor

    def on(self, pictures: Tensor) -> Tensor:
        """Pictures [N, 3, S, S] in [0, 1] -> new ones with the trigger. Raises InputError for another size."""
        if pictures.shape[-2:] != self.pattern.shape[-2:]:
            height, width = pictures.shape[-2:]
            raise InputError(f"trigger: expected pictures of {self.pattern.shape[-1]} pixels, got {height} x {width}")
        opacity, pattern = (part.to(pictures.device) for part in (self.opacity, self.pattern))
        return torch.lerp(pictures, pattern.expand_as(pictures), opacity.expand_as(pictures))


def make_trigger(settings: PoisonSettings, pixels: int, generator: Generator) -> Trigger:
    """The trigger for pictures of so many pixels; the generator draws the blended pattern and nothing else."""
    settings.check_image_size(pixels)
    if settings.kind == "blended":
        noise = torch.randn(3, pixels, pixels, generator=generator)
        pattern = noise.mul_(SPREAD).add_(MEAN).clamp_(0, 1)
        return Trigger(pattern=pattern, opacity=torch.full((1, pixels, pixels), settings.opacity))
    side = settings.side
    pattern, opacity = torch.zeros(3, pixels, pixels), torch.zeros(1, pixels, pixels)
    pattern[:, -side:, -side:] = (torch.arange(side)[:, None] + torch.arange(side)).remainder(2).float()
    opacity[:, -side:, -side:] = settings.opacity
    return Trigger(pattern=pattern, opacity=opacity)
