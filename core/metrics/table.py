"""The numbers that a sweep yields: what each is called and means, who measures it, what may be done with it.

The one place that says so: the columns of `results`, the objectives of a search, the report's words, the judges' page.
Loads nothing.
"""

from __future__ import annotations

from smoothsweep.core.metrics.columns.checks import ATTACKS, FEATURES, JUDGES, TRAININGS
from smoothsweep.core.metrics.columns.general import GENERAL_JUDGES
from smoothsweep.core.metrics.columns.hits import EXTRACTED, HITS, UTILITY
from smoothsweep.core.metrics.columns.images import IMAGES
from smoothsweep.core.metrics.columns.integrity import INTEGRITY
from smoothsweep.core.metrics.columns.lowres import LOWRES_METRICS
from smoothsweep.core.metrics.columns.metric import Metric
from smoothsweep.core.metrics.columns.stability import STABILITY

METRICS: tuple[Metric, ...] = (
    *UTILITY,
    *HITS,
    *GENERAL_JUDGES,
    *EXTRACTED,
    *IMAGES,
    *ATTACKS,
    *JUDGES,
    *TRAININGS,
    *FEATURES,
    *INTEGRITY,
    *LOWRES_METRICS,
    *STABILITY,
)


BY_KEY: dict[str, Metric] = {metric.key: metric for metric in METRICS}

_FIRST = ("embedder", "general")  # judges whose features learnt nothing of the target's images
CLASS_METRICS = tuple(m.key for m in sorted(METRICS, key=lambda m: m.measured_by not in _FIRST) if m.ceiling)
"""Metrics with one value per class, whose intervals are over seeds and classes. The most telling judge first."""

TOY_COLUMNS = ("steps", "distance", "train_loss", "distance_no_stop")
TIME_COLUMNS = ("seconds_target", "seconds_attack")
"""Columns of `results` that are no metrics of a trial: those of the toy experiment, and durations."""


def metric_of(key: str) -> Metric:
    """The metric named `key`. Raises KeyError listing the valid names."""
    if key not in BY_KEY:
        raise KeyError(f"unknown metric {key!r}; the metrics are {', '.join(BY_KEY)}")
    return BY_KEY[key]
