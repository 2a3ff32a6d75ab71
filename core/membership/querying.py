"""Query a network with images, their mirror images, shifted copies, and noisy copies."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.nn.functional import pad

from smoothsweep.core.membership.evidence import Flags, Numbers, log_odds, margins
from smoothsweep.core.models.inference import Network, evaluate_logits, fit_images

SHIFT = 1 / 8
"""The farthest shift of a copy, of the image's side, as random crops of a training shift it."""

NOISE = (0.02, 0.5)
"""Standard deviations of the weakest and the strongest noise, of images in [-1, 1]."""

_BATCH = 256


def scores_of(
    model: Network, images: Tensor, labels: Tensor, *, image_size: int, device: str
) -> tuple[Numbers, Numbers]:
    """Log odds of the true class for each image and its mirror image, [2, n], and the margin of the image, [n]."""
    plain, mirrored = (
        evaluate_logits(model, each, image_size=image_size, device=device).double().numpy()
        for each in (images, images.flip(-1))
    )
    true = labels.numpy()
    return log_odds([plain, mirrored], true), margins(plain, true)


def right_over_views(
    model: Network, images: Tensor, labels: Tensor, *, copies: int, image_size: int, device: str, generator: Generator
) -> Flags:
    """Whether the label is right for each copy: shifted by up to an eighth of the side, every second one mirrored.

    bool [copies, n]. All images are shifted alike, so that a copy differs between images in nothing but the image.
    """
    farthest = max(1, int(SHIFT * image_size))
    is_right = []
    for number in range(copies):
        across, down = (int(torch.randint(-farthest, farthest + 1, (), generator=generator)) for _ in range(2))

        def moved(chunk: Tensor, across: int = across, down: int = down, number: int = number) -> Tensor:
            chunk = chunk.flip(-1) if number % 2 else chunk
            side = chunk.shape[-1]
            padded = pad(chunk, (farthest,) * 4, mode="replicate")
            return padded[..., farthest + down : farthest + down + side, farthest + across : farthest + across + side]

        is_right.append(_right(model, images, labels, moved, image_size=image_size, device=device))
    return torch.stack(is_right).numpy()


def right_over_noise(
    model: Network, images: Tensor, labels: Tensor, *, levels: int, image_size: int, device: str, generator: Generator
) -> Flags:
    """Whether the label is right under Gaussian noise of each level, bool [levels, n]; levels grow by a factor."""
    low, high = NOISE
    is_right = []
    for number in range(levels):
        strength = low * (high / low) ** (number / max(1, levels - 1))

        def noisy(chunk: Tensor, strength: float = strength) -> Tensor:
            return chunk + strength * torch.randn(chunk.shape, generator=generator).to(chunk)

        is_right.append(_right(model, images, labels, noisy, image_size=image_size, device=device))
    return torch.stack(is_right).numpy()


def _right(
    model: Network,
    images: Tensor,
    labels: Tensor,
    change: Callable[[Tensor], Tensor],
    *,
    image_size: int,
    device: str,
) -> Tensor:
    """Whether the network's label is right for changed images, bool [n]."""
    answers = []
    for chunk in images.split(_BATCH):
        pictures = change(fit_images(chunk, image_size)).clamp(-1, 1)
        answers.append(evaluate_logits(model, pictures, image_size=image_size, device=device).argmax(dim=1))
    return torch.cat(answers) == labels
