"""The target's gradients, followed from random latents (the paper's Figs. 6b and 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from smoothsweep.core.analysis.gradient_settings import GradientSettings
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.base import Judge, Planned, StageBuilder, StageWork
from smoothsweep.core.metrics.metric import Metric

_LOSSES = {"poincare": "Poincar\u00e9", "cross_entropy": "cross-entropy"}
_WAY = "Mean over the steps of a descent from random latents, and over the attacked classes, under the {} loss: "

COLUMNS: tuple[Metric, ...] = tuple(
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
            description=_WAY.format(name) + "cosine between the gradients at consecutive images (the paper's eq. 4).",
            null="every gradient was exactly zero",
        ),
        Metric(
            key=f"gradients_zero_{loss}",
            label=f"zero gradients, {name}",
            unit="percent",
            better=None,
            group="check",
            description=_WAY.format(name) + "share of image gradients that are exactly zero.",
        ),
        Metric(
            key=f"gradients_logit_gap_{loss}",
            label=f"logit gap on the way, {name}",
            unit="plain",
            better=None,
            group="check",
            description=_WAY.format(name) + "the class's logit minus the mean of the others.",
        ),
        Metric(
            key=f"gradients_saturated_{loss}",
            label=f"saturated softmax, {name}",
            unit="percent",
            better=None,
            group="check",
            description=_WAY.format(name) + "share of images whose largest probability rounds to exactly 1 in single "
            "precision, where cross-entropy's gradient ends.",
        ),
    )
)


@dataclass(frozen=True, kw_only=True)
class Gradients(GradientSettings, Judge):
    """The target's gradients, followed from random latents (the paper's Figs. 6b and 7); it needs no attack."""

    cites: ClassVar[tuple[str, ...]] = ("struppek2024careful",)

    work = StageWork(
        run="smoothsweep.tasks.gradients:collect_gradients",
        shard="smoothsweep.tasks.gradients:follow_classes",
        labelled=("target",),
        not_finite=("gradients.parquet", "per_class.parquet"),  # none where a gradient is zero
    )
    columns = COLUMNS
    draws = "gradient_curves"
    example: ClassVar[Mapping[str, Any]] = {"steps": 3}
    wrong: ClassVar[tuple[Mapping[str, Any], ...]] = ({"steps": 1},)
    sees = "gradients"

    def check(self, sweep: Any) -> None:
        """A prior to draw from."""
        if not sweep.reads_prior:
            expected = "expected an attack that decodes latents by the sweep's prior, which this judge draws from"
            raise InputError(f"judges.gradients: {expected}, got {sweep.attack.kind}")

    def plan(self, builder: StageBuilder, name: str) -> Planned:
        """Every attacked class, whatever the attack is."""
        return Planned(
            config={
                "settings": builder.stated(),
                "classes": builder.classes,
                "image_size": builder.image_size,
                "protocol": builder.protocol,
                **builder.passes(asks=True),
            },
            inputs={"target": "target", "prior": builder.prior(self.crop, "crop")},
        )
