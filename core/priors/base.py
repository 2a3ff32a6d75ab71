"""What an attack needs from a generative prior: latents in, images out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from smoothsweep.core.data.images import centre_crop, resize

OnProgress = Callable[[float, str], None]
"""How far the work is, in [0, 1], and a few words."""


class Decoder(Protocol):
    """What makes images of latents: a prior, or a generator that a part of an attack has trained.

    resolution: side length R of the square images in pixels.
    """

    @property
    def resolution(self) -> int: ...

    def synthesize(self, w: Tensor) -> Tensor:
        """w [n, ., w_dim] -> images float32 [n, 3, R, R], nominally in [-1, 1] but not clipped; differentiable."""
        ...


class Sizes(Protocol):
    """What a prior, or its configuration, says of its latents and images.

    z_dim: size of the Gaussian latent z. num_ws: number of w vectors that steer one image.
    w_dim: size of each. resolution: side length R of the square images in pixels.
    """

    @property
    def z_dim(self) -> int: ...

    @property
    def num_ws(self) -> int: ...

    @property
    def w_dim(self) -> int: ...

    @property
    def resolution(self) -> int: ...


@runtime_checkable
class Prior(Sizes, Protocol):
    """A generative model of public images with two stages, z -> w -> images."""

    def sample_z(self, n: int, seed: int) -> np.ndarray:
        """float64 [n, z_dim], standard normal, a function of the seed alone."""
        ...

    def map(self, z: Tensor, *, psi: float = 1.0, cutoff: int | None = None) -> Tensor:
        """z [n, z_dim] (any float type) -> w float32 [n, num_ws, w_dim].

        psi pulls the first `cutoff` of the num_ws vectors (None: all) towards their mean:
        mean + psi (w - mean).
        """
        ...

    def synthesize(self, w: Tensor) -> Tensor:
        """w [n, 1 or num_ws, w_dim] -> images float32 [n, 3, R, R], nominally in [-1, 1] but not clipped.

        Deterministic and differentiable in w. A single w vector is used for all num_ws places.
        """
        ...


class PriorNetwork(nn.Module):
    """A `Prior` of the sizes that its configuration says; what maps and synthesises is still to be added.

    Attributes:
        mapping_slope: Slope below zero of the leaky ReLU that ends `map`, None where it ends otherwise. Latents are
            nearly Gaussian before that activation, and a search that keeps them in a box measures it there.
    """

    mapping_slope: ClassVar[float | None] = None

    def __init__(self, config: Sizes) -> None:
        super().__init__()
        self.config: Any = config  # of the network's own kind
        self.z_dim, self.num_ws, self.w_dim = config.z_dim, config.num_ws, config.w_dim
        self.resolution = config.resolution

    def sample_z(self, n: int, seed: int) -> np.ndarray:
        """float64 [n, z_dim], standard normal."""
        return sample_latents(n, self.z_dim, seed)

    def map(self, z: Tensor, *, psi: float = 1.0, cutoff: int | None = None) -> Tensor:
        """As `Prior.map`."""
        raise TypeError(f"{type(self).__name__} says nothing of how it maps latents")

    def synthesize(self, w: Tensor) -> Tensor:
        """As `Prior.synthesize`."""
        raise TypeError(f"{type(self).__name__} says nothing of how it makes images")

    def frozen_synthesis(self, *, crop: int | None, dtype: torch.dtype | None) -> nn.Module | None:
        """A copy of `synthesize` that runs faster while weights do not change: w [n, num_ws, w_dim] -> float32 images.

        crop: side in pixels of the centre crop that is all an attack looks at, None for whole images; a form that
        cannot crop gives whole images. dtype: of its numbers, None for the network's own. None where there is no such
        form: attacks then use `synthesize`.
        """
        return None

    def project(self, images: Tensor, *, crop: int | None, seed: int, on_progress: OnProgress) -> Tensor:
        """Latents w [n, 1, w_dim] that draw `images` best: by descent, unless a prior knows them in closed form.

        images: float32 [n, 3, S, S] in [-1, 1]; S is `crop`, the side of the images' centre that is compared, or
        without one `resolution`. seed: of where descents start.
        """
        return project(self, images, crop=crop, seed=seed, on_progress=on_progress)


def sample_latents(n: int, z_dim: int, seed: int) -> np.ndarray:
    """float64 [n, z_dim] from the legacy NumPy stream, as Plug & Play Attacks draws its pool.

    Source: LukasStruppek/Plug-and-Play-Attacks, attacks/initial_selection.py.
    """
    return np.random.RandomState(seed).randn(n, z_dim)


def truncate(w: Tensor, mean: Tensor | float, *, psi: float, cutoff: int | None) -> Tensor:
    """Pull the first `cutoff` vectors of w [n, num_ws, w_dim] towards `mean`; None or >= num_ws: all."""
    if cutoff is not None and cutoff < 0:
        raise ValueError(f"cutoff: expected None or a number >= 0, got {cutoff}")
    if psi == 1.0:
        return w
    head = mean + psi * (w[:, :cutoff] - mean)
    return head if cutoff is None else torch.cat([head, w[:, cutoff:]], dim=1)


def spread_over_places(w: Tensor, *, num_ws: int, w_dim: int) -> Tensor:
    """Check w [n, 1 or num_ws, w_dim]; return it as [n, num_ws, w_dim], one vector filling every place."""
    if w.ndim != 3 or w.shape[1] not in (1, num_ws) or w.shape[2] != w_dim:
        raise ValueError(f"w: expected [n, 1 or {num_ws}, {w_dim}], got {list(w.shape)}")
    return w.expand(-1, num_ws, -1)


# Projection: the latents with which a prior draws given images best. What it cannot draw then, no attack can show. It
# needs the images themselves, so it is no attack but an oracle: how far a prior reaches.

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
