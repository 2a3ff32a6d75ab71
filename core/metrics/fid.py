"""Fréchet inception distance: how far apart two sets of features are, as Gaussians.

The formula is that of pytorch-fid 0.2.1, which metrics/fid_score.py of LukasStruppek/Plug-and-Play-Attacks
uses: means, unbiased covariances, float64. Which network makes the features, and from which pixel range, is
the caller's; protocols `paper` and `clean` differ there and not here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from smoothsweep.core.errors import InputError, NotFinite

_NEGATIVE = 1e-6  # a covariance may have eigenvalues below zero by this share of its largest: rounding


@dataclass(frozen=True, kw_only=True)
class FeatureStatistics:
    """Count, mean and scatter of feature rows; everything float64.

    Attributes:
        n: Number of rows.
        mean: [D].
        scatter: [D, D], the sum over the rows of (x - mean)(x - mean)^T. Statistics of parts add up to those of the
            whole (`merge_statistics`), however the rows were cut.
    """

    n: int
    mean: Tensor
    scatter: Tensor

    @property
    def covariance(self) -> Tensor:
        """The unbiased covariance [D, D]. Raises InputError for fewer than two rows."""
        if self.n < 2:
            raise InputError(f"feature statistics: expected at least 2 images for a covariance, got {self.n}")
        return self.scatter / (self.n - 1)


def feature_statistics(features: Tensor | Iterable[Tensor]) -> FeatureStatistics:
    """Statistics of features [N, D], or of batches of them that arrive one after the other.

    Only one batch is held at a time. Batches may be empty. Raises InputError if there is no row at all,
    ValueError for shapes that do not fit, NaN or infinity.
    """
    total: FeatureStatistics | None = None
    for batch in [features] if isinstance(features, Tensor) else features:
        part = _of_batch(batch)
        if part is not None:
            total = part if total is None else merge_statistics(total, part)
    if total is None:
        raise InputError("feature statistics: expected at least one image, got none")
    return total


def merge_statistics(a: FeatureStatistics, b: FeatureStatistics) -> FeatureStatistics:
    """The statistics of the rows of both."""
    if a.mean.shape != b.mean.shape:
        raise ValueError(f"features: expected {len(a.mean)} numbers in every part, got {len(b.mean)}")
    n, gap = a.n + b.n, b.mean - a.mean
    mean = a.mean + gap * (b.n / n)
    return FeatureStatistics(n=n, mean=mean, scatter=a.scatter + b.scatter + torch.outer(gap, gap) * (a.n * b.n / n))


def frechet_distance(mu1: Tensor, sigma1: Tensor, mu2: Tensor, sigma2: Tensor) -> float:
    """Squared Fréchet distance of two Gaussians, |mu1 - mu2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2)), at least 0.

    mu: [D], sigma: [D, D] symmetric and positive semidefinite, any rank; computed in float64. The eigenvalues of
    S1 S2 are the squared singular values of S1^(1/2) S2^(1/2), so the trace of the root is the sum of those: no
    complex numbers, no jitter, and no loss of digits where a covariance is singular. Raises ValueError for other
    shapes, numbers that are not finite, and matrices that are no covariances.
    """
    mu1, sigma1, mu2, sigma2 = (t.double() for t in (mu1, sigma1, mu2, sigma2))
    for mu, sigma in ((mu1, sigma1), (mu2, sigma2)):
        if mu.shape != mu1.shape or mu.ndim != 1 or sigma.shape != (len(mu), len(mu)):
            raise ValueError(f"frechet distance: expected [D] and [D, D], got {tuple(mu.shape)}, {tuple(sigma.shape)}")
        if not (mu.isfinite().all() and sigma.isfinite().all()):
            raise NotFinite("frechet distance: expected finite numbers, got NaN or infinity")
    root = torch.linalg.svdvals(_half(sigma1).T @ _half(sigma2)).sum()
    value = (mu1 - mu2).square().sum() + sigma1.trace() + sigma2.trace() - 2 * root
    return max(0.0, value.item())


def fid(features_a: Tensor, features_b: Tensor) -> float:
    """Fréchet distance of two sets of features [N, D], [M, D]; symmetric, 0 for equal sets.

    Raises InputError if a set has fewer than two rows.
    """
    a, b = feature_statistics(features_a), feature_statistics(features_b)
    return frechet_distance(a.mean, a.covariance, b.mean, b.covariance)


def whole_batches(features: Tensor, size: int | None) -> Tensor:
    """The first rows of features [N, D] that fill batches of `size`; all of them if there are fewer, or without a size.

    What pytorch-fid's first version does with the rest of the images (crcrpar/pytorch.sngan_projection, metrics/fid.py,
    which PLG-MI uses).
    """
    return features if size is None or len(features) < size else features[: len(features) // size * size]


def _of_batch(batch: Tensor) -> FeatureStatistics | None:
    """The statistics of one batch, or None if it is empty."""
    if batch.ndim != 2:
        raise ValueError(f"features: expected [N, D], got {tuple(batch.shape)}")
    if not len(batch):
        return None
    batch = batch.double()
    mean = batch.mean(dim=0)
    if not mean.isfinite().all():
        raise NotFinite("features: expected finite numbers, got NaN or infinity")
    centred = batch - mean
    return FeatureStatistics(n=len(batch), mean=mean, scatter=centred.T @ centred)


def _half(sigma: Tensor) -> Tensor:
    """A factor F [D, r] with F F^T = sigma, r its rank.

    Eigenvalues within rounding of zero are taken for zero: the root would turn an error of 1e-16 into one of 1e-8,
    and there are as many as directions without data.
    """
    values, vectors = torch.linalg.eigh((sigma + sigma.T) / 2)
    largest = values.abs().max()
    if values[0] < -_NEGATIVE * largest:
        raise ValueError(f"frechet distance: expected a covariance, got one with eigenvalue {values[0].item():g}")
    kept = values > torch.finfo(values.dtype).eps * len(values) * largest
    return vectors[:, kept] * values[kept].sqrt()
