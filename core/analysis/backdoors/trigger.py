"""A trigger put into images, and how often a classifier obeys it."""

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


# What a backdoor reached: how often the trigger decides, and whether the training came to anything at all.


def backdoor_metrics(clean: Tensor, triggered: Tensor, labels: Tensor, target: int) -> dict[str, float | None]:
    """Column -> value, of a classifier's answers int64 [N] to test images as they are, and with the trigger.

    backdoor_success: share answered with the target class under the trigger, images of that class left out (paper,
    Appendix C.9); backdoor_false: the same without the trigger, what success must exceed to mean anything. None where
    all images are of that class. backdoor_collapsed: see `collapsed`. Raises InputError without images.
    """
    if not len(labels):
        raise InputError("backdoor: expected test images, got none")
    others = labels != target
    shares = [
        answers[others].eq(target).double().mean().item() if others.any() else None for answers in (triggered, clean)
    ]
    return {
        "backdoor_success": shares[0],
        "backdoor_false": shares[1],
        "backdoor_collapsed": float(collapsed(clean, labels)),
    }


def collapsed(answers: Tensor, labels: Tensor) -> bool:
    """Whether the classifier gives nearly every clean image one class: the training failed, trigger or none.

    Nearly: the commonest answer's share is beyond half-way between the commonest class's share and all images (0.55
    with ten classes of one size).
    """
    answered, true = (values.bincount().max().item() / len(values) for values in (answers, labels))
    return answered > (1 + true) / 2
