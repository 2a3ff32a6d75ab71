"""How a classifier places its training images: maps in the plane, and distances within and between classes.

The paper's Figures 4 and 5 (section 4.4): positive smoothing draws the images of a class together, negative smoothing
lets classes run into each other. Features are penultimate activations.
"""

from __future__ import annotations

import torch
from torch import Tensor

from smoothsweep.core.judges.features import Features, spread_over

BLOCK = 1024  # rows of the matrix of distances at once: 0.3 GB beside 37,000 others


def mapped_rows(labels: Tensor, classes: int) -> Tensor:
    """Rows int64 of all samples of `classes` classes, evenly spread over the labels that occur, not picked.

    labels: int64 [N]. All rows where there are no more classes.
    """
    known = labels.unique()
    return torch.isin(labels, known[torch.tensor(spread_over(len(known), classes))]).nonzero().flatten()


def map_features(features: Tensor, settings: Features) -> tuple[Tensor, Tensor]:
    """t-SNE and PCA of features float [N, D], D at least 2, on the CPU: float32 [N, 2] each. The same seed gives the
    same map.

    Raises InputError if there are no more samples than the perplexity.
    """
    from sklearn.decomposition import PCA  # scikit-learn takes a second
    from sklearn.manifold import TSNE

    settings.check_samples(len(features))
    values = features.double().numpy()
    tsne = TSNE(perplexity=settings.perplexity, init="random", random_state=settings.seed, n_jobs=1)
    pca = PCA(n_components=2, svd_solver="full")
    flat = torch.from_numpy(pca.fit_transform(values)).float()
    return torch.from_numpy(tsne.fit_transform(values)).float(), flat


def feature_distances(features: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Distances of every sample, float64 [N], in units of the largest between any two samples, a block at a time.

    `intra` and `inter`: the mean distance to all others of its class, and to all samples of other classes;
    `intra_nearest` and `inter_nearest`: the distance to the closest of each. NaN for a sample that is alone in its
    class, or with its class, and everywhere if all features are the same.

    features: float [N, D]; labels: int64 [N]. Raises ValueError for fewer than two samples.
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
    return dict(zip(("intra", "inter", "intra_nearest", "inter_nearest"), scaled.double(), strict=True))


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
