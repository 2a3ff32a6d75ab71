"""How much a recipe is expected to extend the frontier, where the frontier itself is uncertain.

Noisy expected hypervolume improvement (Daulton, Balandat and Bakshy, 2021, "Parallel Bayesian optimization of multiple
noisy objectives"): the improvement is averaged over joint draws of what the frontier's recipes, those in flight and the
candidates are worth. So a recipe that was lucky under one seed does not hide others, and one in flight counts as what
it may turn out to be.
"""

from __future__ import annotations

import numpy as np

from smoothsweep.core.metrics.frontier import pareto_mask


def expected_gains(
    front: np.ndarray,
    candidates: np.ndarray,
    reference: np.ndarray,
    *,
    front_counts: np.ndarray | None = None,
    candidates_count: np.ndarray | None = None,
) -> np.ndarray:
    """Mean over the draws of the hypervolume that each candidate adds: [c], at least 0.

    Args:
        front: [s, f, d] draws of costs (smaller is better).
        candidates: [s, c, d].
        reference: [d], the costs that hypervolume is measured from.
        front_counts, candidates_count: bool [s, f] and [s, c], in which draws a recipe meets the constraints; where it
            does not, it counts for nothing.
    """
    total = np.zeros(candidates.shape[1])
    for draw in range(len(candidates)):
        members = front[draw] if front_counts is None else front[draw][front_counts[draw]]
        members = members[pareto_mask(members, ["min"] * len(reference))]  # slices cost the square of their number
        gained = gains(members, candidates[draw], reference)
        total += gained if candidates_count is None else gained * candidates_count[draw]
    return total / len(candidates)


def gains(front: np.ndarray, candidates: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Hypervolume that each candidate [c, d] adds to a front [f, d] of costs: [c]. Exact in any number of objectives.

    Between two of the front's values of the last cost the slice is the same problem in one dimension less, with those
    of the front that reach it.
    """
    last, limit = candidates[:, -1], reference[-1]
    if candidates.shape[1] == 1:
        return np.clip(min(limit, front[:, 0].min(initial=np.inf)) - last, 0.0, None)
    inside = front[(front < reference).all(axis=1)]
    levels = np.unique(inside[:, -1])
    total = np.zeros(len(candidates))
    for low, high in zip([-np.inf, *levels], [*levels, limit], strict=True):
        depth = np.clip(high - np.maximum(low, last), 0.0, None)
        if depth.any():
            total += depth * gains(inside[inside[:, -1] <= low, :-1], candidates[:, :-1], reference[:-1])
    return total
