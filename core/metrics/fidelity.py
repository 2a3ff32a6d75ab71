"""How far reconstructions are from real images, in the features of a network.

Fréchet inception distance (`fid`): how far apart two sets of features are, as Gaussians. The formula is that of
pytorch-fid 0.2.1, which metrics/fid_score.py of LukasStruppek/Plug-and-Play-Attacks uses: means, unbiased covariances,
float64. Which network makes the features, and from which pixel range, is the caller's; protocols `paper` and `clean`
differ there and not here.

Kernel inception distance (`kid`): the squared maximum mean discrepancy of two sets of features, without bias. Defined
as by Bińkowski et al., "Demystifying MMD GANs" (ICLR 2018), and with the defaults of torchmetrics and torch-fidelity:
kernel (x.y / D + 1)^3, mean over 100 random subsets of 1,000 rows of each set. Unlike the Fréchet distance it has no
bias from small sets, so its expectation is 0 for two samples of one distribution; a single value may be negative.

Precision, recall, density and coverage (`prdc`): do reconstructions look real, and do they cover the real images? Every
image carries a ball that reaches to its k-th nearest neighbour of its own set. The measures ask who lies in whose
balls, in two definitions (`DEFINITIONS`):

* "official": metrics/prcd.py of LukasStruppek/Plug-and-Play-Attacks. Precision and recall test the ball of the
  nearest neighbour only; density divides by k times the number of *real* images.
* "standard": Kynkäänniemi et al. (2019) and Naeem et al. (ICML 2020). Any ball may hold the image; density
  divides by k times the number of *fake* images.

Coverage is the same in both. Balls include their surface.

The distance of reconstructions to the nearest real image of their class (`nearest_real`) is the paper's delta_eval
(evaluation model, penultimate layer) and delta_face (FaceNet). It calls them l2 distances, but the published numbers
are squared (metrics/distance_metrics.py of LukasStruppek/Plug-and-Play-Attacks), which is why `squared` has no default:
protocol "paper" is squared=True.
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
    a, b = _checked_pair(features_a, features_b)
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
    a, b = _checked_pair(features_a, features_b)
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


def _checked_pair(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
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


DEFINITIONS = ("official", "standard")
CHUNK_ELEMENTS = 2**22  # distances held at once: 32 MiB, with about as much again for what they are compared to

_SNAP = 1e-12  # squared distances below this share of the squared norms are rounding: the rows are equal
_SURFACE = 1 + 1e-9  # and those this close to a squared radius lie on the ball


@dataclass(frozen=True, kw_only=True)
class PRDC:
    """The four measures. All are shares in [0, 1] but density, which has no upper end."""

    precision: float
    recall: float
    density: float
    coverage: float


@dataclass(frozen=True, kw_only=True)
class ClasswisePRDC:
    """The measures of every class on its own, and their mean over the classes.

    Attributes:
        classes: int64 [K] ascending.
        values: float64 [K, 4] in the order of `PRDC`.
        excluded: Classes with fewer than k + 1 real or fake images, which have no balls. They are not in the mean, so
            report their number beside it.
    """

    mean: PRDC
    classes: Tensor
    values: Tensor
    excluded: tuple[int, ...]


def prdc(real: Tensor, fake: Tensor, *, definition: str, k: int = 3) -> PRDC:
    """The measures of all fakes [M, D] against all reals [N, D], classes pooled; Euclidean, float64.

    Memory is bounded by the features and `CHUNK_ELEMENTS`. Raises InputError for an unknown definition and for
    sets with fewer than k + 1 rows; ValueError for bad shapes, NaN or infinity.
    """
    _check_settings(definition, k)
    real, fake = _checked(real, fake)
    if min(len(real), len(fake)) <= k:
        raise InputError(f"prdc: expected at least {k + 1} real and fake images, got {len(real)} and {len(fake)}")
    return _measure(real, fake, definition, k)


def prdc_per_class(
    real: Tensor, labels_real: Tensor, fake: Tensor, labels_fake: Tensor, *, definition: str, k: int = 3
) -> ClasswisePRDC:
    """`prdc` of every class that has fakes against the reals of that class, and the mean over these classes.

    labels: int64 [N], [M]. With definition "official" this is what the official loop was meant to compute. Raises
    as `prdc`, and InputError if no class has enough images.
    """
    _check_settings(definition, k)
    real, fake = _checked(real, fake)
    classes, rows, excluded = [], [], []
    for label in labels_fake.unique().tolist():
        of_real, of_fake = real[labels_real == label], fake[labels_fake == label]
        if min(len(of_real), len(of_fake)) <= k:
            excluded.append(label)
            continue
        classes.append(label)
        rows.append(_row(_measure(of_real, of_fake, definition, k)))
    if not rows:
        raise InputError(f"prdc: expected classes with at least {k + 1} real and fake images, got none")
    values = torch.tensor(rows, dtype=torch.float64)
    mean = PRDC(**dict(zip(_NAMES, values.mean(dim=0).tolist(), strict=True)))
    return ClasswisePRDC(mean=mean, classes=torch.tensor(classes), values=values, excluded=tuple(excluded))


_NAMES = ("precision", "recall", "density", "coverage")


def _row(measures: PRDC) -> list[float]:
    return [getattr(measures, name) for name in _NAMES]


def _check_settings(definition: str, k: int) -> None:
    if definition not in DEFINITIONS:
        raise InputError(f"prdc definition: expected one of {', '.join(DEFINITIONS)}, got {definition!r}")
    if k < 1:
        raise InputError(f"prdc k: expected at least 1, got {k}")


def _checked(real: Tensor, fake: Tensor) -> tuple[Tensor, Tensor]:
    """Both sets in float64, moved so that the reals' mean is the origin: smaller norms, more exact distances."""
    if real.ndim != 2 or fake.ndim != 2 or real.shape[1] != fake.shape[1]:
        raise ValueError(f"prdc: expected features [N, D] and [M, D], got {tuple(real.shape)} and {tuple(fake.shape)}")
    if not (real.isfinite().all() and fake.isfinite().all()):
        raise NotFinite("prdc: expected finite features, got NaN or infinity")
    real, fake = real.double(), fake.double()
    if not len(real):
        return real, fake
    centre = real.mean(dim=0)
    return real - centre, fake - centre


def _measure(real: Tensor, fake: Tensor, definition: str, k: int) -> PRDC:
    """One pass over the distances of fakes to reals, in chunks of fakes."""
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
    official = definition == "official"
    return PRDC(
        precision=(fakes_in_nearest if official else fakes_in_any) / len(fake),
        recall=((nearest <= its_radius) if official else in_fake_ball).double().mean().item(),
        density=pairs / (k * (len(real) if official else len(fake))),
        coverage=covered.double().mean().item(),
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


OFFICIAL_LABELS = 300  # that LOMMA's evaluation has real features of
OFFICIAL_EPSILON = 1e-6  # that torch's PairwiseDistance adds to every difference there

NEAREST_CHUNK = 2**24  # distances held at once: 64 MiB in float32


def nearest_feature_distance(
    features_fake: Tensor, labels_fake: Tensor, features_real: Tensor, labels_real: Tensor, *, squared: bool
) -> Tensor:
    """Euclidean distance of every fake to the nearest real of its class, float [N], on the features' device.

    features_fake: [N, D], features_real: [M, D]; labels int64 [N], [M]. Half precision becomes float32.
    squared: the squared distance, as in the paper's tables. `class_means` in accuracy.py gives class means.
    Raises InputError naming the classes without a real image, ValueError for bad shapes, NaN or infinity.
    """
    return nearest_real(features_fake, labels_fake, features_real, labels_real, squared=squared)[0]


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
    SCccc21/Knowledge-Enriched-DMI and LetheSec/PLG-MI-Attack, the mean over all. Raises as `nearest_feature_distance`.
    """
    if not official:
        real = nearest_feature_distance(features_fake, labels_fake, features_real, labels_real, squared=squared)
        return real.double().mean().item()
    counted = labels_fake < OFFICIAL_LABELS
    if not counted.any():
        return None
    shifted = features_fake[counted] + OFFICIAL_EPSILON
    distances = nearest_feature_distance(shifted, labels_fake[counted], features_real, labels_real, squared=squared)
    return distances.double().sum().item() / len(labels_fake)


def nearest_real(
    features_fake: Tensor, labels_fake: Tensor, features_real: Tensor, labels_real: Tensor, *, squared: bool
) -> tuple[Tensor, Tensor]:
    """As `nearest_feature_distance`, with the row of the nearest real image: (float [N], int64 [N])."""
    distance, index = nearest_reals(features_fake, labels_fake, features_real, labels_real, count=1, squared=squared)
    return distance[:, 0], index[:, 0]


def nearest_reals(
    features_fake: Tensor, labels_fake: Tensor, features_real: Tensor, labels_real: Tensor, *, count: int, squared: bool
) -> tuple[Tensor, Tensor]:
    """The `count` nearest reals of its class for every fake, nearest first: (float [N, count], int64 [N, count]).

    For pictures of a reconstruction beside its nearest training images. The official look-up of that kind
    (find_closest_training_sample) takes fakes that were reduced to the target's size and then once more to the
    judge's, where its distances reduce once; for its numbers the caller must embed such images. Raises as
    `nearest_feature_distance`, and InputError naming the first class with fewer than `count` reals.
    """
    _check_features(features_fake, labels_fake, "fake")
    _check_features(features_real, labels_real, "real")
    if features_fake.shape[1] != features_real.shape[1]:
        raise ValueError(f"features: fake have {features_fake.shape[1]} numbers, real {features_real.shape[1]}")
    _check_classes(labels_fake, labels_real, count)
    fake, real = _at_least_float32(features_fake), _at_least_float32(features_real)
    distance = fake.new_empty(len(fake), count)
    index = labels_fake.new_empty(len(fake), count)
    for label in labels_fake.unique():
        rows, candidates = (labels_fake == label).nonzero()[:, 0], (labels_real == label).nonzero()[:, 0]
        step = max(1, NEAREST_CHUNK // len(candidates))
        for part in rows.split(step):
            # the matrix-product shortcut of cdist cancels digits exactly where the distance is small
            between = torch.cdist(fake[part], real[candidates], compute_mode="donot_use_mm_for_euclid_dist")
            distance[part], nearest = between.topk(count, dim=1, largest=False)
            index[part] = candidates[nearest]
    return distance.square() if squared else distance, index


def _check_classes(labels_fake: Tensor, labels_real: Tensor, count: int) -> None:
    """Every class of a fake needs `count` reals."""
    if count < 1:
        raise InputError(f"nearest images: expected a count of at least 1, got {count}")
    available = dict(zip(*(t.tolist() for t in labels_real.unique(return_counts=True)), strict=True))
    wanted = labels_fake.unique().tolist()
    missing = [label for label in wanted if label not in available]
    if missing:
        raise InputError(f"distance: no real image of class {', '.join(map(str, missing))}")
    for label in wanted:
        if available[label] < count:
            raise InputError(f"nearest images: expected {count} reals of class {label}, got {available[label]}")


def _check_features(features: Tensor, labels: Tensor, what: str) -> None:
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        got = f"{tuple(features.shape)}, {tuple(labels.shape)}"
        raise ValueError(f"{what}: expected features [N, D] and labels [N], got {got}")
    if not features.isfinite().all():
        raise NotFinite(f"{what}: expected finite features, got NaN or infinity")


def _at_least_float32(features: Tensor) -> Tensor:
    return features.float() if features.dtype in (torch.float16, torch.bfloat16) else features
