"""How much one set of vectors depends on another, measured within a batch: normalised HSIC and COCO.

As computed by the training of AlanPeng0897/Defend_MI, BiDO/ (m images in a batch, sigma = 5, ridge 1e-5 * m), in
float64 from the m x m kernels on. Distances come from inner products, so that nothing of the size d x d is built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

SIGMA = 5.0  # of the Gaussian kernel, on the mean squared difference of two vectors
RIDGE = 1e-5
_TINY = 1e-12  # below it COCO counts as 0, where its square root has no slope


def squared_distances(x: Tensor) -> Tensor:
    """Squared Euclidean distances float64 [m, m] between x[0], ..., x[m-1]; x float [m, ...].

    The inner products have x's precision; they are taken after centring, which leaves distances as they are and
    keeps them from cancelling.
    """
    flat = x.permute(0, 2, 3, 1).flatten(1) if x.ndim == 4 else x.flatten(1)  # no copy of channels_last images
    centred = flat - flat.mean(dim=0)
    inner = (centred @ centred.T).double()
    norms = inner.diagonal()
    return (norms[:, None] + norms[None, :] - 2 * inner).abs()


def gaussian_kernel(x: Tensor) -> Tensor:
    """exp(-D / (2 * 25 * d)) for x [m, ...] of d numbers each -> float64 [m, m]."""
    return torch.exp(-squared_distances(x) / (2 * SIGMA**2 * x[0].numel()))


def linear_kernel(x: Tensor) -> Tensor:
    """Inner products float64 [m, m]; of one-hot labels, whether two images share a class."""
    flat = x.flatten(1)
    return (flat @ flat.T).double()


def imq_kernel(x: Tensor) -> Tensor:
    """The inverse multiquadric 1 / sqrt(D + 1), float64 [m, m]."""
    return (squared_distances(x) + 1).rsqrt()


Kernel = Literal["gaussian", "linear", "imq"]
KERNELS: dict[Kernel, Callable[[Tensor], Tensor]] = {
    "gaussian": gaussian_kernel,
    "linear": linear_kernel,
    "imq": imq_kernel,
}


def hsic_operator(k: Tensor) -> Tensor:
    """A (A + 1e-5 m I)^-1 with A = K H, centred from the right only as in the official code: [m, m]."""
    centred = k - k.mean(dim=1, keepdim=True)
    ridge = RIDGE * len(k) * torch.eye(len(k), dtype=k.dtype, device=k.device)
    return torch.linalg.solve(centred + ridge, centred, left=False)


def coco_operator(k: Tensor) -> Tensor:
    """H K H, centred from both sides: [m, m]."""
    return k - k.mean(dim=1, keepdim=True) - k.mean(dim=0, keepdim=True) + k.mean()


def hsic(a: Tensor, b: Tensor) -> Tensor:
    """Normalised HSIC of two `hsic_operator`s: the trace of their product, from about 0 to m - 1."""
    return (a * b.T).sum()


def coco(a: Tensor, b: Tensor, norm: CocoNorm = "frobenius") -> Tensor:
    """COCO of two `coco_operator`s: sqrt(||A B||) / m.

    norm: `frobenius`, which the official code takes, or `spectral`, as constrained covariance is defined.
    """
    size = torch.linalg.matrix_norm(a @ b, ord=COCO_NORMS[norm])
    return size.clamp(min=_TINY).sqrt() / len(a)


CocoNorm = Literal["frobenius", "spectral"]
COCO_NORMS: dict[CocoNorm, str | int] = {"frobenius": "fro", "spectral": 2}
