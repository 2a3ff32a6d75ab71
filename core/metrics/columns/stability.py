"""The columns of gradient stability: what is met on the way of a descent, under both of the paper's losses."""

from __future__ import annotations

from smoothsweep.core.metrics.columns.metric import Metric

_LOSSES = {"poincare": "Poincar\u00e9", "cross_entropy": "cross-entropy"}
_WAY = "Mean over the steps of a descent from random latents, and over the attacked classes, under the {} loss: "

STABILITY: tuple[Metric, ...] = tuple(
    metric
    for loss, name in _LOSSES.items()
    for metric in (
        Metric(
            key=f"gradients_cosine_{loss}",
            label=f"gradient cosine, {name}",
            unit="plain",
            bounds=(-1.0, 1.0),
            better=None,
            group="check",
            measured_by="gradients",
            description=_WAY.format(name) + "cosine between the gradients at consecutive images (the paper's eq. 4).",
            null="every gradient was exactly zero",
        ),
        Metric(
            key=f"gradients_zero_{loss}",
            label=f"zero gradients, {name}",
            unit="percent",
            better=None,
            group="check",
            measured_by="gradients",
            description=_WAY.format(name) + "share of image gradients that are exactly zero.",
        ),
        Metric(
            key=f"gradients_logit_gap_{loss}",
            label=f"logit gap on the way, {name}",
            unit="plain",
            better=None,
            group="check",
            measured_by="gradients",
            description=_WAY.format(name) + "the class's logit minus the mean of the others.",
        ),
        Metric(
            key=f"gradients_saturated_{loss}",
            label=f"saturated softmax, {name}",
            unit="percent",
            better=None,
            group="check",
            measured_by="gradients",
            description=_WAY.format(name) + "share of images whose largest probability rounds to exactly 1 in single "
            "precision, where cross-entropy's gradient ends.",
        ),
    )
)
