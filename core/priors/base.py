"""What an attack needs from a generative prior: latents in, images out."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from smoothsweep.core.priors.projection import OnProgress, project


class Decoder(Protocol):
    """What makes images of latents: a prior, or a generator that a part of an attack has trained.

    resolution: side length R of the square images in pixels.
    """

    @property
    def resolution(self) -> int: ...

    def synthesize(self, w: Tensor) -> Tensor:
        """w [n, ., w_dim] -> images float32 [n, 3, R, R], nominally in [-1, 1] but not clipped; differentiable."""
        ...


@runtime_checkable
class Prior(Protocol):
    """A generative model of public images with two stages, z -> w -> images.

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


class Sizes(Protocol):
    """What a prior's configuration says of its latents and images, see `Prior`."""

    @property
    def z_dim(self) -> int: ...

    @property
    def num_ws(self) -> int: ...

    @property
    def w_dim(self) -> int: ...

    @property
    def resolution(self) -> int: ...


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
