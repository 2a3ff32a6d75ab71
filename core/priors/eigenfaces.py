"""The smallest prior: principal components of public images ("eigenfaces", Turk & Pentland 1991).

Blurry, but it is fitted in seconds, weighs under a few megabytes and attacks well at 32 to 64 pixels.
"""

from __future__ import annotations

import torch
from torch import Tensor

from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.base import OnProgress, PriorNetwork, spread_over_places, truncate
from smoothsweep.core.priors.settings import EigenfacesConfig, EigenfacesFit

EXACT_UP_TO = 1024
"""Below this many images (or pixels) the eigenproblem is solved exactly; above it, from a random sketch."""

CHUNK = 1024
OVERSAMPLING = 16
POWER_ITERATIONS = 2


class Eigenfaces(PriorNetwork):
    """Images = mean + sum_k w_k std_k component_k, w ~ N(0, 1) per coordinate. A `Prior` with one w.

    Buffers: mean [3, R, R] in [-1, 1]; components [K, 3RR], orthonormal rows, largest variance first;
    std [K], the standard deviation of the training images along each component.
    """

    mean: Tensor
    components: Tensor
    std: Tensor

    def __init__(self, config: EigenfacesConfig) -> None:
        super().__init__(config)
        side, count = config.resolution, config.components
        self.register_buffer("mean", torch.zeros(3, side, side))
        self.register_buffer("components", torch.zeros(count, 3 * side * side))
        self.register_buffer("std", torch.zeros(count))

    def map(self, z: Tensor, *, psi: float = 1.0, cutoff: int | None = None) -> Tensor:
        """z [n, K] -> w float32 [n, 1, K]: the same numbers; psi shrinks them towards 0, the mean image."""
        w = z.to(device=self.mean.device, dtype=torch.float32)[:, None, :]
        return truncate(w, 0.0, psi=psi, cutoff=cutoff)

    def synthesize(self, w: Tensor) -> Tensor:
        """w [n, 1, K] -> images float32 [n, 3, R, R]."""
        w = spread_over_places(w, num_ws=1, w_dim=self.w_dim)[:, 0]
        flat = torch.addmm(self.mean.reshape(1, -1), w * self.std, self.components)
        return flat.reshape(-1, *self.mean.shape)

    def encode(self, images: Tensor) -> Tensor:
        """images [n, 3, R, R] in [-1, 1] -> w [n, 1, K] of the nearest image that the prior can show."""
        centred = (images - self.mean).reshape(len(images), -1)
        return (centred @ self.components.T / self.std.clamp_min(1e-12))[:, None, :]

    def project(self, images: Tensor, *, crop: int | None, seed: int, on_progress: OnProgress) -> Tensor:
        """Project whole images in closed form, and a crop by descent, as other priors do."""
        if crop in (None, self.resolution):
            return self.encode(images)
        return super().project(images, crop=crop, seed=seed, on_progress=on_progress)


def fit_eigenfaces(images: Tensor, *, components: int, seed: int) -> Eigenfaces:
    """Fit the prior to images uint8 [N, 3, R, R].

    components: at most min(N - 1, 3RR). seed: of the random sketch that stands in for the full
    eigenproblem when both N and 3RR exceed `EXACT_UP_TO` (Halko, Martinsson & Tropp 2011, randomised
    range finder with power iterations; 14,000 images of 64 pixels take about 8 s on one core). The sign
    of a component is fixed: its entry of largest magnitude is positive.
    """
    _check_images(images, components)
    count = len(images)
    mean = _mean(images)
    centred = _centred(images, mean)
    if min(centred.shape) <= EXACT_UP_TO:
        rows, scale = _exact_components(centred, components)
    else:
        rows, scale = _sketched_components(centred, components, seed)
    strongest = rows.gather(1, rows.abs().argmax(dim=1, keepdim=True))
    prior = Eigenfaces(EigenfacesConfig(resolution=images.shape[-1], components=components))
    prior.mean.copy_(mean)
    prior.components.copy_(rows * torch.where(strongest < 0, -1.0, 1.0))
    prior.std.copy_(scale / (count - 1) ** 0.5)
    return prior.eval()


def from_public(settings: EigenfacesFit, images: Tensor) -> Eigenfaces:
    """The prior of these settings. Raises InputError for too few images."""
    settings.check_public(count=len(images))
    return fit_eigenfaces(images, components=settings.components, seed=settings.seed)


def _check_images(images: Tensor, components: int) -> None:
    square = images.ndim == 4 and images.shape[1] == 3 and images.shape[2] == images.shape[3]
    if images.dtype != torch.uint8 or not square:
        raise InputError(f"images: expected uint8 [N, 3, R, R], got {images.dtype} {list(images.shape)}")
    most = min(len(images) - 1, images[0].numel()) if len(images) else 0
    if not 1 <= components <= most:
        raise InputError(f"components: expected 1 to {most} for {len(images)} images, got {components}")


def _mean(images: Tensor) -> Tensor:
    total = torch.zeros(images.shape[1:], dtype=torch.int64)
    for chunk in images.split(CHUNK):
        total += chunk.sum(dim=0)
    return (total.double() / len(images) / 127.5 - 1).float()


def _centred(images: Tensor, mean: Tensor) -> Tensor:
    centred = torch.empty(len(images), mean.numel())
    for start in range(0, len(images), CHUNK):
        chunk = images[start : start + CHUNK].float().div_(127.5).sub_(1 + mean)
        centred[start : start + CHUNK] = chunk.reshape(len(chunk), -1)
    return centred


def _exact_components(centred: Tensor, components: int) -> tuple[Tensor, Tensor]:
    """Orthonormal rows [K, D] and singular values [K] from the smaller of the two Gram matrices."""
    wide = centred.double()
    tall = wide.shape[0] > wide.shape[1]
    values, vectors = torch.linalg.eigh(wide.T @ wide if tall else wide @ wide.T)
    scale = values.clamp_min(0).sqrt().flip(0)[:components]
    leading = vectors.flip(1)[:, :components]
    rows = leading.T if tall else leading.T @ wide
    # QR instead of division by the singular value: stays orthonormal where the variance is (nearly) zero.
    basis, triangle = torch.linalg.qr(rows.T)
    return (basis * torch.where(triangle.diagonal() < 0, -1.0, 1.0)).T.float(), scale.float()


def _sketched_components(centred: Tensor, components: int, seed: int) -> tuple[Tensor, Tensor]:
    width = min(components + OVERSAMPLING, *centred.shape)
    start = torch.randn(centred.shape[1], width, generator=torch.Generator().manual_seed(seed))
    basis = torch.linalg.qr(centred @ start).Q
    for _ in range(POWER_ITERATIONS):
        basis = torch.linalg.qr(centred.T @ basis).Q
        basis = torch.linalg.qr(centred @ basis).Q
    _, scale, rows = torch.linalg.svd(basis.T @ centred, full_matrices=False)
    return rows[:components], scale[:components]
