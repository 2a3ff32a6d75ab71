"""Distance of reconstructions to the nearest real image of the same class, in a judge's feature space.

The paper's delta_eval (evaluation model, penultimate layer) and delta_face (FaceNet). It calls them l2
distances, but the published numbers are squared (metrics/distance_metrics.py of
LukasStruppek/Plug-and-Play-Attacks), which is why `squared` has no default: protocol "paper" is squared=True.
"""

from __future__ import annotations

import torch
from torch import Tensor

from smoothsweep.core.errors import InputError, NotFinite

OFFICIAL_LABELS = 300  # that LOMMA's evaluation has real features of
OFFICIAL_EPSILON = 1e-6  # that torch's PairwiseDistance adds to every difference there

CHUNK_ELEMENTS = 2**24  # distances held at once: 64 MiB in float32


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
    _check(features_fake, labels_fake, "fake")
    _check(features_real, labels_real, "real")
    if features_fake.shape[1] != features_real.shape[1]:
        raise ValueError(f"features: fake have {features_fake.shape[1]} numbers, real {features_real.shape[1]}")
    _check_classes(labels_fake, labels_real, count)
    fake, real = _at_least_float32(features_fake), _at_least_float32(features_real)
    distance = fake.new_empty(len(fake), count)
    index = labels_fake.new_empty(len(fake), count)
    for label in labels_fake.unique():
        rows, candidates = (labels_fake == label).nonzero()[:, 0], (labels_real == label).nonzero()[:, 0]
        step = max(1, CHUNK_ELEMENTS // len(candidates))
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


def _check(features: Tensor, labels: Tensor, what: str) -> None:
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        got = f"{tuple(features.shape)}, {tuple(labels.shape)}"
        raise ValueError(f"{what}: expected features [N, D] and labels [N], got {got}")
    if not features.isfinite().all():
        raise NotFinite(f"{what}: expected finite features, got NaN or infinity")


def _at_least_float32(features: Tensor) -> Tensor:
    return features.float() if features.dtype in (torch.float16, torch.bfloat16) else features
