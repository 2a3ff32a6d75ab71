"""Statistics of an audit's hits: leaks with intervals, compared with controls.

The numbers are those of a sweep's page, computed by the same functions of `core.metrics`, which
`orchestrator.result` wraps for tables. A test holds the two together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from smoothsweep.core.metrics.accuracy import class_means
from smoothsweep.core.metrics.comparisons import Pair, compare_recipes
from smoothsweep.core.metrics.intervals import Interval, rate_interval

LEVEL = 0.95  # as of `orchestrator.result.estimates.Settings`
SPAN = 1.0  # of shares


@dataclass(frozen=True, kw_only=True)
class Tally:
    """The hits of one attack.

    Attributes:
        shares: Fraction of hits, float64 [seeds, classes], classes ascending.
        images: Number of images per class and seed, int64 [classes].
    """

    classes: tuple[int, ...]
    shares: np.ndarray
    images: np.ndarray

    @classmethod
    def of(cls, hits_by_seed: Sequence[Tensor], labels: Tensor) -> Tally:
        """Count hits. hits_by_seed: bool [M] for every seed; labels: int64 [M], the same for all seeds."""
        rows = [class_means(hits, labels) for hits in hits_by_seed]
        return cls(
            classes=tuple(rows[0][0].tolist()),
            shares=torch.stack([shares for _, shares in rows]).numpy(),
            images=torch.unique(labels.cpu(), return_counts=True)[1].numpy(),
        )

    @property
    def leak(self) -> Interval:
        """Mean over seeds and classes, with its interval."""
        return rate_interval(self.shares, images=len(self.shares) * int(self.images.sum()), level=LEVEL)

    def beyond(self, control: Tally, *, among: int) -> Pair:
        """This leak minus the control's, paired by seed and person; corrected for `among` comparisons."""
        sides = {"attack": self.shares, "control": control.shares}
        (pair,) = compare_recipes(sides, level=LEVEL, among=among, span=SPAN).pairs
        return pair
