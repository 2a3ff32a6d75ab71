"""What a face embedder must see through: framing, colour, blur, noise, and the softness of generated pictures."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def augment(images: Tensor, basis: tuple[Tensor, Tensor], generator: torch.Generator) -> Tensor:
    """Crops, mirror images, colour; then a part of the batch coarse, a part through eigenfaces, a part noisy.

    The embedder judges reconstructions by generators, which are soft: it must know a person from a blurred picture.
    """
    images = _shift_and_scale(images, generator)
    count = len(images)
    gain = 1 + 0.08 * torch.randn(count, 1, 1, 1, generator=generator)
    cast = 0.03 * torch.randn(count, 3, 1, 1, generator=generator)
    images = images * gain + cast + 0.05 * torch.randn(count, 1, 1, 1, generator=generator)
    order = torch.randperm(count, generator=generator)
    coarse, soft = order[: count // 4], order[count // 4 : (2 * count) // 5]
    noisy = order[count // 5 : (3 * count) // 5]
    images[coarse] = _coarsen(images[coarse], int(torch.randint(16, 44, (), generator=generator)))
    images[soft] = _through_eigenfaces(images[soft], basis, generator)
    strength = 0.10 * torch.rand(len(noisy), 1, 1, 1, generator=generator)
    images[noisy] += strength * torch.randn(images[noisy].shape, generator=generator)
    return images.clamp_(-1, 1)


def _shift_and_scale(images: Tensor, generator: torch.Generator) -> Tensor:
    """Random crops of 0.90 to 1.04 of the side, slightly out of square, half of them mirrored."""
    count = len(images)
    side = 0.90 + 0.14 * torch.rand(count, generator=generator)
    stretch = 1 + 0.04 * (torch.rand(count, generator=generator) - 0.5)
    mirror = torch.where(torch.rand(count, generator=generator) < 0.5, -1.0, 1.0)
    room = (1.04 - side).clamp_min(0.03)
    theta = torch.zeros(count, 2, 3)
    theta[:, 0, 0] = side * stretch * mirror
    theta[:, 1, 1] = side / stretch
    theta[:, :, 2] = room[:, None] * (2 * torch.rand(count, 2, generator=generator) - 1)
    grid = functional.affine_grid(theta, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def _coarsen(images: Tensor, size: int) -> Tensor:
    small = functional.interpolate(images, size=size, mode="bilinear", antialias=True)
    return functional.interpolate(small, size=images.shape[-1], mode="bilinear")


def _through_eigenfaces(images: Tensor, basis: tuple[Tensor, Tensor], generator: torch.Generator) -> Tensor:
    """The images as the first 40 to 300 eigenfaces show them."""
    mean, components = basis
    kept = components[:, : int(torch.randint(40, components.shape[1] + 1, (), generator=generator))]
    flat = functional.interpolate(images, size=32, mode="bilinear", antialias=True).flatten(1)
    soft = ((flat - mean) @ kept) @ kept.T + mean
    return functional.interpolate(soft.view(-1, 3, 32, 32), size=images.shape[-1], mode="bilinear")
