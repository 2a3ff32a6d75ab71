"""How sharp reconstructions are beside real images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from smoothsweep.core.bounds import Count
from smoothsweep.core.judges.base import Judge
from smoothsweep.core.metrics.metric import AT_LEAST_0, Metric

if TYPE_CHECKING:
    from smoothsweep.core.judges.base import JudgeInputs, Measurement


@dataclass(frozen=True, kw_only=True)
class Sharpness(Judge):
    """Contrast between neighbouring pixels, in units of that of real test images. step: their distance in pixels."""

    columns = (
        Metric(
            key="sharpness",
            label="sharpness",
            unit="plain",
            bounds=AT_LEAST_0,
            better=None,
            group="check",
            description="Mean difference of neighbouring pixels of reconstructions, divided by that of test images.",
        ),
    )
    cites = ()  # nobody published it
    wrong = ({"step": 0},)

    step: Count = 1

    def measure(self, inputs: JudgeInputs) -> Measurement:
        """Over all reconstructions."""
        from smoothsweep.core.data.images import to_unit
        from smoothsweep.core.judges.base import Measurement

        images, _ = inputs.reconstructions(None)
        real = to_unit(inputs.real("test").images)
        mean = [(one[..., self.step :] - one[..., : -self.step]).abs().mean().item() for one in (images, real)]
        return Measurement(metrics={"sharpness": mean[0] / mean[1]})
