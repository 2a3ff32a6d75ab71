"""Projection: the latents with which a prior draws given images best. What it cannot draw then, no attack can show.

It needs the images themselves, so it is no attack but an oracle: how far a prior reaches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from smoothsweep.core.data.transforms import centre_crop, resize

OnProgress = Callable[[float, str], None]
"""How far the work is, in [0, 1], and a few words."""

STEPS = 150
"""Steps of each image's descent."""
DRAWS = 256
"""Latents among which each descent's start is the one whose image is nearest."""
_BATCH = 16
_SCALES = (1, 2, 4)  # pixels, and what is seen of them from afar, which leads a descent that is still far away


def project(
    prior: Any, images: Tensor, *, crop: int | None, seed: int, on_progress: OnProgress, steps: int = STEPS
) -> Tensor:
    """Latents w [n, 1, w_dim] of a `Prior` whose images, or their centres of `crop` pixels, are nearest to `images`.

    images: float32 [n, 3, S, S], S the crop, or the prior's side. seed: of the draws from which descents start.
    """

    def synthesize(w: Tensor) -> Tensor:
        drawn = prior.synthesize(w)
        return drawn if crop is None else centre_crop(drawn, crop)

    with torch.no_grad():
        z = torch.from_numpy(prior.sample_z(DRAWS, seed)).float().to(images.device)
        draws = prior.map(z)[:, :1]
    return nearest_latents(synthesize, images, draws, steps=steps, on_progress=on_progress)


def nearest_latents(
    synthesize: Callable[[Tensor], Tensor],
    images: Tensor,
    draws: Tensor,
    *,
    steps: int = STEPS,
    rate: float = 0.05,
    on_progress: OnProgress = lambda fraction, text: None,
) -> Tensor:
    """Latents w [n, 1, w_dim] found by descent (Adam) from the nearest of `draws` for each image.

    Args:
        synthesize: w [n, 1, w_dim] -> images [n, 3, S, S], differentiable.
        images: float32 [n, 3, S, S], nominally in [-1, 1].
        draws: float32 [N, 1, w_dim]; their standard deviation is the unit of the steps.
        steps: Steps of each descent, at least 0.
        rate: The first step, which falls to 0 along a cosine.

    The best latent of each descent is kept. Loss: the mean squared error of pixels, and of images reduced to a half and
    a quarter. Deterministic. After Abdal, Qin and Wonka (2019, Image2StyleGAN, section 3), without their perceptual
    loss: its network would have seen faces.
    """
    with torch.no_grad():
        drawn = torch.cat([synthesize(part) for part in draws.split(_BATCH)])
    unit = draws.std(dim=0, keepdim=True).clamp_min(1e-6)
    latents = []
    for start in range(0, len(images), _BATCH):
        on_progress(start / len(images), f"projecting photograph {start}/{len(images)}")
        wanted = images[start : start + _BATCH]
        with torch.no_grad():
            first = torch.stack([draws[_loss(drawn, images[None]).argmin()] for images in wanted])
        latents.append(_descend(synthesize, wanted, first, unit, steps, rate))
    return torch.cat(latents)


def _descend(
    synthesize: Callable[[Tensor], Tensor], wanted: Tensor, first: Tensor, unit: Tensor, steps: int, rate: float
) -> Tensor:
    moved = torch.zeros_like(first, requires_grad=True)
    optimiser = torch.optim.Adam([moved], lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, max(1, steps))
    best, lowest = first.clone(), torch.full((len(first),), float("inf"), device=first.device)
    for step in range(steps + 1):
        w = first + moved * unit
        losses = _loss(synthesize(w), wanted)
        better = losses.detach() < lowest
        best[better], lowest[better] = w.detach()[better], losses.detach()[better]
        if step == steps:
            break
        optimiser.zero_grad()
        losses.sum().backward()
        optimiser.step()
        schedule.step()
    return best


def _loss(drawn: Tensor, wanted: Tensor) -> Tensor:
    """Loss of each image, float [n]."""
    side = wanted.shape[-1]
    errors = [
        (resize(drawn, max(1, side // scale)) - resize(wanted, max(1, side // scale))).square().flatten(1).mean(1)
        for scale in _SCALES
    ]
    return torch.stack(errors).sum(0)
