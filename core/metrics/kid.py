"""Kernel inception distance: the squared maximum mean discrepancy of two sets of features, without bias.

Defined as by Bińkowski et al., "Demystifying MMD GANs" (ICLR 2018), and with the defaults of torchmetrics and
torch-fidelity: kernel (x.y / D + 1)^3, mean over 100 random subsets of 1,000 rows of each set. Unlike the Fréchet
distance it has no bias from small sets, so its expectation is 0 for two samples of one distribution; a single
value may be negative.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smoothsweep.core.errors import InputError, NotFinite


@dataclass(frozen=True, kw_only=True)
class KernelDistance:
    """Mean over the subsets and their spread.

    Attributes:
        std: Population standard deviation over the subsets (ddof 0, as torchmetrics and torch-fidelity), no standard
            error: subsets overlap; None if there is only one subset, which is the case when one subset is all there is.
        subsets, subset_size: How many subsets were drawn, and of how many images.
    """

    mean: float
    std: float | None
    subsets: int
    subset_size: int


def squared_mmd(features_a: Tensor, features_b: Tensor) -> float:
    """Unbiased estimate of the squared discrepancy of all rows [N, D] and [M, D], in float64.

    Pairs of a row with itself do not count. For N = M it is the estimator of torchmetrics and torch-fidelity.
    Raises InputError for fewer than two rows.
    """
    a, b = _checked(features_a, features_b)
    return _squared_mmd(a, b)


def kid(
    features_a: Tensor, features_b: Tensor, *, seed: int, subsets: int = 100, subset_size: int = 1000
) -> KernelDistance:
    """Mean and spread of `squared_mmd` over random subsets of both sets, features [N, D] and [M, D].

    Subsets are drawn without repetition from `seed` alone, on every device alike. Sets smaller than `subset_size`
    give subsets as large as the smaller of them; if both are that small and equally large, there is one subset.
    Raises InputError for fewer than two rows or settings out of range.
    """
    if subsets < 1 or subset_size < 2:
        raise InputError(f"kid: expected subsets >= 1 and subset_size >= 2, got {subsets} and {subset_size}")
    a, b = _checked(features_a, features_b)
    size = min(subset_size, len(a), len(b))
    if size == len(a) == len(b):
        return KernelDistance(mean=_squared_mmd(a, b), std=None, subsets=1, subset_size=size)
    generator = torch.Generator().manual_seed(seed)
    values = []
    for _ in range(subsets):
        part_a, part_b = (_draw(rows, size, generator) for rows in (a, b))
        values.append(_squared_mmd(part_a, part_b))
    table = torch.tensor(values, dtype=torch.float64)
    std = table.std(correction=0).item() if subsets > 1 else None
    return KernelDistance(mean=table.mean().item(), std=std, subsets=subsets, subset_size=size)


def _checked(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both sets in float64."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(f"kid: expected features [N, D] and [M, D], got {tuple(a.shape)} and {tuple(b.shape)}")
    if min(len(a), len(b)) < 2:
        raise InputError(f"kid: expected at least 2 images on both sides, got {len(a)} and {len(b)}")
    if not (a.isfinite().all() and b.isfinite().all()):
        raise NotFinite("kid: expected finite features, got NaN or infinity")
    return a.double(), b.double()


def _draw(rows: Tensor, size: int, generator: torch.Generator) -> Tensor:
    return rows[torch.randperm(len(rows), generator=generator)[:size].to(rows.device)]


def _squared_mmd(a: Tensor, b: Tensor) -> float:
    within = sum(_mean_of_pairs(rows) for rows in (a, b))
    return (within - 2 * _kernel(a, b).mean()).item()


def _mean_of_pairs(rows: Tensor) -> Tensor:
    """Mean kernel of two different rows."""
    values, n = _kernel(rows, rows), len(rows)
    return (values.sum() - values.diagonal().sum()) / (n * (n - 1))


def _kernel(a: Tensor, b: Tensor) -> Tensor:
    return (a @ b.T).div_(a.shape[1]).add_(1).pow_(3)
