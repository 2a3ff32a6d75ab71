"""How far reconstructions are from real images, in the features of a network.

Fréchet inception distance (`fid`): how far apart two sets of features are, as Gaussians. The formula is that of
pytorch-fid 0.2.1, which metrics/fid_score.py of LukasStruppek/Plug-and-Play-Attacks uses: means, unbiased covariances,
float64. Which network makes the features, and from which pixel range, is the caller's; protocols `paper` and `clean`
differ there and not here.

Kernel inception distance (`kid`): the squared maximum mean discrepancy of two sets of features, without bias. Defined
as by Bińkowski et al., "Demystifying MMD GANs" (ICLR 2018), and with the defaults of torchmetrics and torch-fidelity:
kernel (x.y / D + 1)^3, mean over 100 random subsets of 1,000 rows of each set. Unlike the Fréchet distance it has no
bias from small sets, so its expectation is 0 for two samples of one distribution; a single value may be negative.

Precision, recall, density and coverage (`prdc_per_class`): do reconstructions look real, and do they cover the real
images? Every image carries a ball that reaches to its k-th nearest neighbour of its own set, surface included. The
measures ask who lies in whose balls, in two definitions:

* "official": metrics/prcd.py of LukasStruppek/Plug-and-Play-Attacks. Precision and recall test the ball of the
  nearest neighbour only; density divides by k times the number of *real* images.
* "standard": Kynkäänniemi et al. (2019) and Naeem et al. (ICML 2020). Any ball may hold the image; density
  divides by k times the number of *fake* images. Coverage is the same in both.

The distance of reconstructions to the nearest real image of their class (`nearest_real`) is the paper's delta_eval
(evaluation model, penultimate layer) and delta_face (FaceNet). It calls them l2 distances, but the published numbers
are squared (metrics/distance_metrics.py of LukasStruppek/Plug-and-Play-Attacks), which is why `squared` has no default:
protocol "paper" is squared=True.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smoothsweep.core.errors import InputError, NotFinite

OFFICIAL_LABELS = 300  # that LOMMA's evaluation has real features of
OFFICIAL_EPSILON = 1e-6  # that torch's PairwiseDistance adds to every difference there

CHUNK_ELEMENTS = 2**22  # distances held at once: 32 MiB, with about as much again for what they are compared to
NEAREST_CHUNK = 2**24  # and of the nearest image of a class: 64 MiB in float32

_NEGATIVE = 1e-6  # a covariance may have eigenvalues below zero by this share of its largest: rounding
_SNAP = 1e-12  # squared distances below this share of the squared norms are rounding: the rows are equal
_SURFACE = 1 + 1e-9  # and those this close to a squared radius lie on the ball


def fid(features_a: Tensor, features_b: Tensor) -> float:
    """Fréchet distance of two sets of features [N, D], [M, D]; symmetric, 0 for equal sets.

    Raises InputError if a set has fewer than two rows, ValueError for shapes that do not fit, NaN or infinity.
    """
    return frechet_distance(*_gaussian(features_a), *_gaussian(features_b))


def _gaussian(features: Tensor) -> tuple[Tensor, Tensor]:
    """Mean [D] and unbiased covariance [D, D] of features [N, D], float64."""
    if features.ndim != 2:
        raise ValueError(f"features: expected [N, D], got {tuple(features.shape)}")
    if len(features) < 2:
        raise InputError(f"feature statistics: expected at least 2 images for a covariance, got {len(features)}")
    features = features.double()
    mean = features.mean(dim=0)
    if not mean.isfinite().all():
        raise NotFinite("features: expected finite numbers, got NaN or infinity")
    centred = features - mean
    return mean, centred.T @ centred / (len(features) - 1)


def frechet_distance(mu1: Tensor, sigma1: Tensor, mu2: Tensor, sigma2: Tensor) -> float:
    """Squared Fréchet distance of two Gaussians, |mu1 - mu2|^2 + tr(S1 + S2 - 2 (S1 S2)^(1/2)), at least 0.

    mu: [D], sigma: [D, D] symmetric and positive semidefinite, any rank; computed in float64. The eigenvalues of
    S1 S2 are the squared singular values of S1^(1/2) S2^(1/2), so the trace of the root is the sum of those: no
    complex numbers, no jitter, and no loss of digits where a covariance is singular. Raises ValueError for other
    shapes, and matrices that are no covariances.
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


def whole_batches(features: Tensor, size: int | None) -> Tensor:
    """The first rows of features [N, D] that fill batches of `size`; all of them if there are fewer, or without a size.

    What pytorch-fid's first version does with the rest of the images (crcrpar/pytorch.sngan_projection, metrics/fid.py,
    which PLG-MI uses).
    """
    return features if size is None or len(features) < size else features[: len(features) // size * size]


def kid(
    features_a: Tensor, features_b: Tensor, *, seed: int, subsets: int = 100, subset_size: int = 1000
) -> tuple[float, float | None]:
    """Unbiased squared discrepancy of features [N, D] and [M, D]: its mean over random subsets of both, and its spread.

    The spread is the population standard deviation over the subsets (ddof 0, as torchmetrics and torch-fidelity), no
    standard error, since subsets overlap. Subsets are drawn without repetition from `seed` alone, on every device
    alike. Sets smaller than `subset_size` give subsets as large as the smaller of them; if both are that small and
    equally large, one subset is all there is, and there is no spread. Raises InputError for fewer than two rows or
    settings out of range.
    """
    if subsets < 1 or subset_size < 2:
        raise InputError(f"kid: expected subsets >= 1 and subset_size >= 2, got {subsets} and {subset_size}")
    a, b = _checked("kid", features_a, features_b)
    if min(len(a), len(b)) < 2:
        raise InputError(f"kid: expected at least 2 images on both sides, got {len(a)} and {len(b)}")
    size = min(subset_size, len(a), len(b))
    if size == len(a) == len(b):
        return _squared_mmd(a, b), None
    generator = torch.Generator().manual_seed(seed)

    def drawn(rows: Tensor) -> Tensor:
        return rows[torch.randperm(len(rows), generator=generator)[:size].to(rows.device)]

    table = torch.tensor([_squared_mmd(drawn(a), drawn(b)) for _ in range(subsets)], dtype=torch.float64)
    return table.mean().item(), table.std(correction=0).item() if subsets > 1 else None


def _squared_mmd(a: Tensor, b: Tensor) -> float:
    """Pairs of a row with itself do not count. For N = M it is the estimator of torchmetrics and torch-fidelity."""

    def kernel(left: Tensor, right: Tensor) -> Tensor:
        return (left @ right.T).div_(left.shape[1]).add_(1).pow_(3)

    def mean_of_pairs(rows: Tensor) -> Tensor:
        values, n = kernel(rows, rows), len(rows)
        return (values.sum() - values.diagonal().sum()) / (n * (n - 1))

    return (mean_of_pairs(a) + mean_of_pairs(b) - 2 * kernel(a, b).mean()).item()


def _checked(what: str, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both sets in float64. Raises ValueError for bad shapes, NaN or infinity."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(f"{what}: expected features [N, D] and [M, D], got {tuple(a.shape)} and {tuple(b.shape)}")
    if not (a.isfinite().all() and b.isfinite().all()):
        raise NotFinite(f"{what}: expected finite features, got NaN or infinity")
    return a.double(), b.double()


@dataclass(frozen=True, kw_only=True)
class PRDC:
    """The four measures. All are shares in [0, 1] but density, which has no upper end."""

    precision: float
    recall: float
    density: float
    coverage: float


def prdc_per_class(
    real: Tensor, labels_real: Tensor, fake: Tensor, labels_fake: Tensor, *, official: bool, k: int = 3
) -> tuple[PRDC, tuple[int, ...]]:
    """The measures of fakes [M, D] against reals [N, D] of their class, as means over the classes that have fakes, and
    the classes with fewer than k + 1 real or fake images, which have no balls and are not in the means.

    labels: int64 [N], [M]. Euclidean, float64; memory is bounded by the features and `CHUNK_ELEMENTS`. official: by the
    definition of that name, which is what the official loop was meant to compute. Raises InputError if no class has
    enough images; ValueError for bad shapes, NaN or infinity.
    """
    real, fake = _checked("prdc", real, fake)
    if len(real):  # the reals' mean becomes the origin: smaller norms, more exact distances
        centre = real.mean(dim=0)
        real, fake = real - centre, fake - centre
    rows, excluded = [], []
    for label in labels_fake.unique().tolist():
        of_real, of_fake = real[labels_real == label], fake[labels_fake == label]
        if min(len(of_real), len(of_fake)) <= k:
            excluded.append(label)
        else:
            rows.append(_measure(of_real, of_fake, official=official, k=k))
    if not rows:
        raise InputError(f"prdc: expected classes with at least {k + 1} real and fake images, got none")
    means = torch.tensor(rows, dtype=torch.float64).mean(dim=0).tolist()
    return PRDC(**dict(zip(PRDC.__annotations__, means, strict=True))), tuple(excluded)


def _measure(real: Tensor, fake: Tensor, *, official: bool, k: int) -> tuple[float, float, float, float]:
    """The fields of `PRDC`, by one pass over the distances of fakes to reals, in chunks of fakes."""
    radius_real, radius_fake = _squared_radii(real, k), _squared_radii(fake, k)
    pairs, fakes_in_nearest, fakes_in_any = 0, 0, 0
    covered = torch.zeros(len(real), dtype=torch.bool, device=real.device)
    in_fake_ball = torch.zeros_like(covered)
    nearest = real.new_full((len(real),), torch.inf)  # squared distance of each real to its nearest fake so far
    its_radius = torch.zeros_like(nearest)
    step = max(1, CHUNK_ELEMENTS // len(real))
    for rows, radii in zip(fake.split(step), radius_fake.split(step), strict=True):
        between = _squared_distances(rows, real)
        inside = between <= radius_real
        pairs += int(inside.sum())
        covered |= inside.any(dim=0)
        fakes_in_any += int(inside.any(dim=1).sum())
        fakes_in_nearest += int(inside.gather(1, between.argmin(dim=1, keepdim=True)).sum())
        in_fake_ball |= (between <= radii[:, None]).any(dim=0)
        closest, index = between.min(dim=0)
        its_radius = torch.where(closest < nearest, radii[index], its_radius)
        nearest = torch.minimum(closest, nearest)
    return (
        (fakes_in_nearest if official else fakes_in_any) / len(fake),
        ((nearest <= its_radius) if official else in_fake_ball).double().mean().item(),
        pairs / (k * (len(real) if official else len(fake))),
        covered.double().mean().item(),
    )


def _squared_radii(rows: Tensor, k: int) -> Tensor:
    """Squared distance of every row to its k-th nearest other row, widened by a rounding error."""
    parts = rows.split(max(1, CHUNK_ELEMENTS // len(rows)))
    kth = [_squared_distances(part, rows).kthvalue(k + 1, dim=1).values for part in parts]  # the first is itself
    return torch.cat(kth) * _SURFACE


def _squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """[N, D], [M, D] -> [N, M] through one matrix product; equal rows are at distance 0 exactly."""
    norms = a.square().sum(dim=1)[:, None] + b.square().sum(dim=1)
    squared = torch.addmm(norms, a, b.T, alpha=-2)
    return squared.masked_fill_(squared < _SNAP * norms, 0)


def nearest_real(
    features_fake: Tensor, labels_fake: Tensor, features_real: Tensor, labels_real: Tensor, *, squared: bool
) -> tuple[Tensor, Tensor]:
    """Euclidean distance of every fake to the nearest real of its class, float [N] on the features' device, and that
    real's row, int64 [N].

    features_fake: [N, D], features_real: [M, D]; labels int64 [N], [M]. Half precision becomes float32.
    squared: the squared distance, as in the paper's tables. `class_means` in accuracy.py gives class means.
    Raises InputError naming the classes without a real image, ValueError for bad shapes, NaN or infinity.
    """
    for what, features, labels in (("fake", features_fake, labels_fake), ("real", features_real, labels_real)):
        if features.ndim != 2 or labels.shape != features.shape[:1]:
            got = f"{tuple(features.shape)}, {tuple(labels.shape)}"
            raise ValueError(f"{what}: expected features [N, D] and labels [N], got {got}")
        if not features.isfinite().all():
            raise NotFinite(f"{what}: expected finite features, got NaN or infinity")
    if features_fake.shape[1] != features_real.shape[1]:
        raise ValueError(f"features: fake have {features_fake.shape[1]} numbers, real {features_real.shape[1]}")
    if missing := sorted(set(labels_fake.tolist()) - set(labels_real.tolist())):
        raise InputError(f"distance: no real image of class {', '.join(map(str, missing))}")
    fake, real = _at_least_float32(features_fake), _at_least_float32(features_real)
    distance, index = fake.new_empty(len(fake)), labels_fake.new_empty(len(fake))
    for label in labels_fake.unique():
        rows, candidates = (labels_fake == label).nonzero()[:, 0], (labels_real == label).nonzero()[:, 0]
        for part in rows.split(max(1, NEAREST_CHUNK // len(candidates))):
            # the matrix-product shortcut of cdist cancels digits exactly where the distance is small
            between = torch.cdist(fake[part], real[candidates], compute_mode="donot_use_mm_for_euclid_dist")
            found, nearest = between.topk(1, dim=1, largest=False)
            distance[part], index[part] = found[:, 0], candidates[nearest[:, 0]]
    return distance.square() if squared else distance, index


def knn_distance(
    features_fake: Tensor,
    labels_fake: Tensor,
    features_real: Tensor,
    labels_real: Tensor,
    *,
    squared: bool,
    official: bool,
) -> float | None:
    """The low-resolution attacks' delta_KNN: mean over the fakes of the distance to the nearest real of their class.

    official: as the published tables have it (sutd-visual-computing-group/Re-thinking_MI, metrics/KNN_dist.py): the sum
    goes over labels below 300 alone, but is divided by all fakes. None where that leaves no fake. Otherwise, and in
    SCccc21/Knowledge-Enriched-DMI and LetheSec/PLG-MI-Attack, the mean over all. Raises as `nearest_real`.
    """
    if not official:
        distances, _ = nearest_real(features_fake, labels_fake, features_real, labels_real, squared=squared)
        return distances.double().mean().item()
    counted = labels_fake < OFFICIAL_LABELS
    if not counted.any():
        return None
    shifted = features_fake[counted] + OFFICIAL_EPSILON
    distances, _ = nearest_real(shifted, labels_fake[counted], features_real, labels_real, squared=squared)
    return distances.double().sum().item() / len(labels_fake)


def _at_least_float32(features: Tensor) -> Tensor:
    return features.float() if features.dtype in (torch.float16, torch.bfloat16) else features
