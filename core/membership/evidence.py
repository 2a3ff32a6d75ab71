"""What a membership attack is shown: what the target, and shadow models of its recipe, answer to candidate images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

Numbers = np.ndarray[Any, np.dtype[np.float64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Answers to n candidate images. What was not asked for is None.

    Attributes:
        labels: Class of each image, whole numbers [n].
        phi: The target's log odds of the true class, log(p / (1 - p)), float64 [views, n]; the first view is the
            image itself.
        margin: The true class's logit minus the largest other one, float64 [n].
        shadow_phi: Log odds of the true class from shadow models, float64 [models, views, n].
        inside: Whether a shadow model was trained on the image, bool [models, n].
        right_over_views: Whether the target's label is right for shifted and mirrored copies, bool [copies, n].
        right_over_noise: Whether it is right under noise, weakest noise first, bool [levels, n].
        losses: The image's loss after each epoch of the target's training, float64 [epochs, n].
    """

    labels: np.ndarray[Any, np.dtype[np.int64]]
    phi: Numbers | None = None
    margin: Numbers | None = None
    shadow_phi: Numbers | None = None
    inside: Flags | None = None
    right_over_views: Flags | None = None
    right_over_noise: Flags | None = None
    losses: Numbers | None = None

    def has(self, name: str) -> bool:
        """Whether this part of the evidence is there."""
        return getattr(self, name) is not None


def log_odds(logits: ArrayLike, labels: ArrayLike) -> Numbers:
    """log(p / (1 - p)) of the true class, [..., n], from logits [..., n, C] of at least two classes.

    Computed as the true logit minus the log-sum-exp of the others, which keeps its precision where p is 1 in floating
    point. Source: Carlini et al. 2022, section IV-C.
    """
    true, others = _split(logits, labels)
    from scipy.special import logsumexp  # here: reading a sweep file needs none of it

    return np.asarray(true - logsumexp(others, axis=-1), dtype=np.float64)


def margins(logits: ArrayLike, labels: ArrayLike) -> Numbers:
    """The true class's logit minus the largest of the others, [..., n]; positive where the answer is right."""
    true, others = _split(logits, labels)
    return np.asarray(true - others.max(axis=-1), dtype=np.float64)


def log_probability(phi: ArrayLike) -> Numbers:
    """log p of the true class from its log odds."""
    return -np.logaddexp(0.0, -np.asarray(phi, dtype=np.float64))


def _split(logits: ArrayLike, labels: ArrayLike) -> tuple[Numbers, Numbers]:
    """The true logits [..., n], and all with -inf in their place, [..., n, C]."""
    table, rows = np.array(logits, dtype=np.float64), np.asarray(labels)
    if table.ndim < 2 or table.shape[-1] < 2 or table.shape[-2] != len(rows):
        raise ValueError(f"logits: expected [..., {len(rows)}, at least 2 classes], got {list(table.shape)}")
    index = np.arange(len(rows)), rows
    true = table[..., index[0], index[1]]
    table[..., index[0], index[1]] = -np.inf
    return true, table
