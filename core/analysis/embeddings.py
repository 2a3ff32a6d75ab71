"""How a classifier places its training images: maps in the plane, and distances within and between classes.

The paper's Figures 4 and 5 (section 4.4): positive smoothing draws the images of a class together, negative smoothing
lets classes run into each other. Features are penultimate activations.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smoothsweep.core.judges.features import Features, spread_over

BLOCK = 1024  # rows of the matrix of distances at once: 0.3 GB beside 37,000 others


@dataclass(frozen=True, kw_only=True)
class FeatureMap:
    """Points in the plane, float32 [N, 2] each. explained: the share of the variance along both axes of the PCA."""

    tsne: Tensor
    pca: Tensor
    explained: tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class FeatureDistances:
    """Distances of every sample, float64 [N], in units of the largest between any two samples.

    Attributes:
        intra, inter: The mean distance to all others of its class, and to all samples of other classes.
        intra_nearest, inter_nearest: The distance to the closest of each. NaN for a sample that is alone in its class,
            or with its class.
        scale: The largest distance, Euclidean in feature space.
    """

    intra: Tensor
    inter: Tensor
    intra_nearest: Tensor
    inter_nearest: Tensor
    scale: float


def mapped_rows(labels: Tensor, classes: int) -> Tensor:
    """Rows int64 of all samples of `classes` classes, evenly spread over the labels that occur, not picked.

    labels: int64 [N]. All rows where there are no more classes.
    """
    known = labels.unique()
    return torch.isin(labels, known[torch.tensor(spread_over(len(known), classes))]).nonzero().flatten()


def map_features(features: Tensor, settings: Features) -> FeatureMap:
    """t-SNE and PCA of features float [N, D], D at least 2, on the CPU. The same seed gives the same map.

    Raises InputError if there are no more samples than the perplexity.
    """
    from sklearn.decomposition import PCA  # scikit-learn takes a second
    from sklearn.manifold import TSNE

    settings.check_samples(len(features))
    values = features.double().numpy()
    tsne = TSNE(perplexity=settings.perplexity, init="random", random_state=settings.seed, n_jobs=1)
    pca = PCA(n_components=2, svd_solver="full")
    flat = pca.fit_transform(values)
    first, second = (float(share) for share in pca.explained_variance_ratio_)
    return FeatureMap(
        tsne=torch.from_numpy(tsne.fit_transform(values)).float(),
        pca=torch.from_numpy(flat).float(),
        explained=(first, second),
    )


def feature_distances(features: Tensor, labels: Tensor) -> FeatureDistances:
    """Distances between all samples, in float64, a block of rows at a time.

    features: float [N, D]; labels: int64 [N]. Raises ValueError for fewer than two samples. Features that are all the
    same have no largest distance: all distances are NaN and the scale is 0.
    """
    if len(features) < 2:
        raise ValueError(f"features: expected at least 2 samples, got {len(features)}")
    centred = features.double() - features.double().mean(dim=0)  # products of near vectors lose fewer digits so
    squares = centred.square().sum(dim=1)
    largest, parts = 0.0, []
    for rows in torch.arange(len(features)).split(BLOCK):
        products = centred[rows] @ centred.T
        distances = (squares[rows, None] + squares - 2 * products).clamp(min=0).sqrt()
        largest = max(largest, distances.max().item())
        parts.append(_of_rows(distances, rows, labels))
    scaled = torch.cat(parts, dim=1) / largest if largest > 0 else torch.full((4, len(features)), torch.nan)
    intra, inter, intra_nearest, inter_nearest = scaled.double()
    return FeatureDistances(
        intra=intra, inter=inter, intra_nearest=intra_nearest, inter_nearest=inter_nearest, scale=largest
    )


def _of_rows(distances: Tensor, rows: Tensor, labels: Tensor) -> Tensor:
    """[4, R] of distances [R, N]: means within and between classes, then the nearest of both."""
    alike = labels[rows, None] == labels
    others = ~alike
    alike[torch.arange(len(rows)), rows] = False
    means = [(distances * mask).sum(dim=1) / mask.sum(dim=1) for mask in (alike, others)]
    nearest = [distances.masked_fill(~mask, torch.inf).min(dim=1).values for mask in (alike, others)]
    return torch.stack(
        [
            *means,
            *(distances_of_rows.masked_fill(distances_of_rows.isinf(), torch.nan) for distances_of_rows in nearest),
        ]
    )
