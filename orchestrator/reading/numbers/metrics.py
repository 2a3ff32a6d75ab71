"""The numbers a report knows, and which of them come first."""

from __future__ import annotations

from core.metrics.table import BY_KEY, CLASS_METRICS, METRICS
from core.metrics.table import Metric as MetricSpec
from core.metrics.table import metric_of as spec_of

__all__ = ["BY_KEY", "CEILINGS", "CLASS_METRICS", "KEY_METRICS", "METRICS", "MetricSpec", "spec_of"]

CEILINGS: dict[str, str] = {metric.key: metric.ceiling for metric in METRICS if metric.ceiling}
"""Judge -> what the same judge reaches on real images."""

KEY_METRICS: tuple[str, ...] = ("test_acc", "embedder_acc1", "attack_acc1", "xi_train", "dist_face")
"""The metrics of the first table; the rest follow in the table of everything measured."""
