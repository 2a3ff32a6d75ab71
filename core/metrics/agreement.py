"""How far people who judge the same things agree beyond chance: Fleiss' kappa."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def fleiss_kappa(votes: ArrayLike) -> float | None:
    """Fleiss' kappa for nominal categories: 1 is full agreement, 0 that of chance, below 0 less than that.

    votes: whole numbers [things, categories], how many judged each thing to be of each category. Things may have
    unequal numbers of votes (Fleiss, Nee and Landis, 1979); those with fewer than two say nothing of agreement and are
    left out. None where nothing is left, or where all votes are for one category: chance then agrees fully too.
    Source: J. L. Fleiss, Measuring nominal scale agreement among many raters, Psychological Bulletin 76 (1971).
    Raises ValueError for anything but a table of counts.
    """
    counts = np.asarray(votes, dtype=np.float64)
    if counts.ndim != 2 or (counts < 0).any() or (counts != np.round(counts)).any():
        raise ValueError("votes: expected whole numbers from 0, one row per thing and one column per category")
    counts = counts[counts.sum(axis=1) >= 2]
    if not len(counts):
        return None
    answers = counts.sum(axis=1)
    agreeing = (counts * (counts - 1)).sum(axis=1) / (answers * (answers - 1))
    by_chance = np.square(counts.sum(axis=0) / counts.sum()).sum()
    if np.isclose(by_chance, 1.0):
        return None
    return float((agreeing.mean() - by_chance) / (1 - by_chance))
