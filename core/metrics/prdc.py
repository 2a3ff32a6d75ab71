"""Precision, recall, density and coverage: do reconstructions look real, and do they cover the real images?

Every image carries a ball that reaches to its k-th nearest neighbour of its own set. The measures ask who lies in
whose balls, in two definitions (`DEFINITIONS`):

* "official": metrics/prcd.py of LukasStruppek/Plug-and-Play-Attacks. Precision and recall test the ball of the
  nearest neighbour only; density divides by k times the number of *real* images.
* "standard": Kynkäänniemi et al. (2019) and Naeem et al. (ICML 2020). Any ball may hold the image; density
  divides by k times the number of *fake* images.

Coverage is the same in both. Balls include their surface.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smoothsweep.core.errors import InputError, NotFinite

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
