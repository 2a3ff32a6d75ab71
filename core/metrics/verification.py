"""Verification: would a face recogniser accept an image as a given person?

A closed-set judge must name one of N people, so it names one whatever it is shown. A recogniser compares an image
with one person's template and accepts it above a threshold. The threshold is set on photographs of strangers, so that
the recogniser accepts a stated fraction of them (the false-accept rate, ISO/IEC 19795-1). Images that it accepts show
the person as well as a photograph would have to.

Scores are cosines, in [-1, 1]: the more alike, the larger.
"""

from __future__ import annotations

import torch
from torch import Tensor

from smoothsweep.core.errors import InputError

GALLERY = 500
"""Strangers that a rank is among."""


def accept_threshold(impostors: Tensor, false_accepts: float) -> float:
    """The smallest score above which at most the fraction `false_accepts` of the impostor scores lies.

    impostors: float [N], scores of strangers, N at least 1; false_accepts: in (0, 1). A score is accepted if it is
    larger than the threshold, so of equal scores either all are accepted or none, and the rate is kept on
    `impostors` whatever the ties. Raises InputError for no scores, scores that are not finite, or a rate out of range.
    """
    if impostors.ndim != 1 or not len(impostors) or not impostors.isfinite().all():
        raise InputError(f"impostor scores: expected finite numbers [N], got {list(impostors.shape)}")
    if not 0 < false_accepts < 1:
        raise InputError(f"false accepts: expected a rate between 0 and 1, got {false_accepts}")
    allowed = int(false_accepts * len(impostors) + 1e-9)  # .01 of 100 scores is 1, whatever the rounding
    return float(impostors.double().sort(descending=True).values[allowed])


def accepted(scores: Tensor, threshold: float) -> Tensor:
    """Whether each score is accepted, bool of the scores' shape."""
    return scores.double() > threshold


def template_scores(features: Tensor, templates: Tensor, labels: Tensor) -> Tensor:
    """Cosine of each row with its own person's template, float64 [M].

    Args:
        features: [M, D] of any length but 0.
        templates: [C, D] of length 1.
        labels: int64 [M], in 0..C-1.
    """
    return (unit(features) * templates.double()[labels]).sum(dim=1)


def all_scores(features: Tensor, templates: Tensor) -> Tensor:
    """Cosine of each row with each person's template, float64 [M, C]."""
    return unit(features) @ templates.double().T


def gallery_ranks(features: Tensor, labels: Tensor, own: Tensor, own_labels: Tensor, strangers: Tensor) -> Tensor:
    """The rank at which a search by each image finds a photograph of its person among those of 500 strangers.

    Args:
        features: [M, D], labels: int64 [M].
        own: [P, D], photographs of the people, own_labels: int64 [P], each label present.
        strangers: [S, D].

    Returns float64 [M] in [1, 501]: 1 plus 500 times the fraction of strangers that are nearer than a photograph of the
    person, the median over the person's photographs. So the rank is that expected in a gallery of 500 drawn from the
    strangers, and a stranger's image has 251 in the middle. A tie counts as half nearer.
    """
    theirs, mine = unit(features) @ unit(strangers).T, unit(own)
    ordered = theirs.sort(dim=1).values
    ranks = torch.empty(len(features), dtype=torch.float64)
    for label in labels.unique().tolist():
        rows = labels == label
        scores = (unit(features[rows]) @ mine[own_labels == label].T).contiguous()
        below = torch.searchsorted(ordered[rows], scores, right=False)
        not_above = torch.searchsorted(ordered[rows], scores, right=True)
        nearer = strangers.shape[0] - (below + not_above).double() / 2
        ranks[rows] = 1 + GALLERY * nearer.median(dim=1).values / strangers.shape[0]
    return ranks


def unit(features: Tensor) -> Tensor:
    """Rows scaled to length 1, float64. Raises ValueError for rows that are not finite, or of length 0."""
    rows = features.double()
    length = rows.norm(dim=1, keepdim=True)
    if not rows.isfinite().all() or (length == 0).any():
        raise ValueError("verification: expected finite features of a length above 0")
    return rows / length
