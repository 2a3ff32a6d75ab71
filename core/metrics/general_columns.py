"""Columns of the judge whose features were learnt on pictures of anything."""

from __future__ import annotations

from core.metrics.metric import Metric

# fmt: off
GENERAL_JUDGE: tuple[Metric, ...] = (
    Metric(
        key="general_acc1", label="general judge", unit="percent", better="low", group="leak", measured_by="general",
        ceiling="general_real_acc", searched=True,
        description="As the independent judge, in the features of a network of another family that never learnt faces: "
        "a vision transformer trained on the hashtags of pictures of anything.",
    ),
    Metric(
        key="general_acc5", label="general judge, top 5", unit="percent", better="low", group="leak",
        measured_by="general", searched=True,
        description="As the general judge, counting the attacked class among its five best guesses.",
    ),
    Metric(
        key="general_acc1_std", label="general judge, spread over classes", unit="percent", better=None, group="leak",
        measured_by="general",
        description="Standard deviation of the general judge's hit rate over the classes.",
    ),
    Metric(
        key="general_real_acc", label="general judge on real images", unit="percent", better=None, group="check",
        measured_by="general",
        description="How often the general judge names real images of the private classes correctly: the ceiling of "
        "its verdict on reconstructions.",
    ),
)
# fmt: on
