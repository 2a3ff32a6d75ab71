"""The numbers that a sweep yields: what each is called and means, who measures it, what may be done with it.

The one place that says so: the columns of `results`, the objectives of a search, the report's words, the judges' page.
Those of a judge stand in its file, and come the sooner if it learnt nothing of the target's images. Loads no torch.
"""

from __future__ import annotations

from dataclasses import replace

from smoothsweep.core.judges.table import ATTACK, JUDGES, TARGET, stage_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.plugins import with_plugin_name

METRICS: tuple[Metric, ...] = (
    *(replace(metric, measured_by="target", stage="target") for metric in TARGET),
    *(
        replace(
            metric,
            label=with_plugin_name(metric.label, "judges", name),
            measured_by=name,
            judge=None if judge.requested_by else name,
            stage=stage_of(name),
        )
        for name, judge in sorted(JUDGES.items(), key=lambda row: not row[1].independent)
        for metric in judge.columns
    ),
    *(replace(metric, measured_by="attack", stage="attack") for metric in ATTACK),
)


BY_KEY: dict[str, Metric] = {metric.key: metric for metric in METRICS}

CLASS_METRICS = tuple(metric.key for metric in METRICS if metric.ceiling)
"""Metrics with one value per class, whose intervals are over seeds and classes. The most telling judge first."""

CLOSED_SET = tuple(key for key in CLASS_METRICS if not BY_KEY[key].verifies)
"""Class metrics that name the closest private person (closed set), without verifying that it is that person."""

CEILINGS: dict[str, str] = {
    metric.key: ceiling
    for metric in METRICS
    if metric.is_leak
    and (
        ceiling := metric.ceiling
        or next((other.ceiling for other in METRICS if other.ceiling and other.measured_by == metric.measured_by), None)
    )
}
"""Leak metric -> what its judge reaches on real images: its own, else the judge's first."""

REACH_IMAGES = {
    reach: next(m.key for m in METRICS if m.measured_by == BY_KEY[reach].measured_by and m.unit == "plain")
    for reach in (metric.reach for metric in METRICS if metric.reach)
}
"""Reach -> the column with the number of photographs that it is of."""

TOY_COLUMNS = ("steps", "distance", "train_loss", "distance_no_stop")
TIME_COLUMNS = ("seconds_target", "seconds_attack")
"""Columns of `results` that are no metrics of a trial: those of the toy experiment, and durations."""


def metric_of(key: str) -> Metric:
    """The metric named `key`. Raises KeyError listing the valid names."""
    if key not in BY_KEY:
        raise KeyError(f"unknown metric {key!r}; the metrics are {', '.join(BY_KEY)}")
    return BY_KEY[key]
