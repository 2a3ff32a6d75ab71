"""A judge of another family: features learnt on pictures of anything, with the same linear head."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from smoothsweep.core.judges.base import RECONSTRUCTIONS, StageWork
from smoothsweep.core.judges.by_features import ByFeatures
from smoothsweep.core.metrics.metric import BALANCED, Metric
from smoothsweep.core.models.embedder_kinds import GENERAL, GeneralNetwork

_leak = partial(Metric, unit="percent", better="low", group="leak", searched=True)
_check = partial(Metric, unit="percent", better=None, group="check")

COLUMNS: tuple[Metric, ...] = (
    _leak(
        key="general_acc1",
        label="general judge",
        ceiling="general_real_acc",
        reach="general_reach",
        counted="reconstructions",
        description=(
            "As the independent judge, in the features of a network of another family that never learnt faces: a "
            "vision transformer trained on the hashtags of pictures of anything."
        ),
    ),
    _leak(
        key="general_acc5",
        label="general judge, top 5",
        counted="reconstructions",
        description=("As the general judge, counting the attacked class among its five best guesses."),
    ),
    Metric(
        key="general_acc1_std",
        label="general judge, spread over classes",
        unit="percent",
        better=None,
        group="leak",
        spread=True,
        description="Standard deviation of the general judge's hit rate over the classes.",
    ),
    _check(
        key="general_real_acc",
        label="general judge on real images",
        counted="test images",
        description=(
            "How often the general judge names real images of the private classes correctly: the ceiling of its "
            "verdict on reconstructions."
        ),
    ),
    _check(
        key="general_real_acc_balanced",
        label="general judge on real images, balanced",
        counted="test images",
        description=BALANCED,
    ),
)


@dataclass(frozen=True, kw_only=True)
class General(ByFeatures):
    """A third judge, of another family: features learnt on pictures of anything, with a linear head as the embedder's.

    Without `weights` the staged file is used; where that is absent the columns stay empty, with the reason.

    name: the network whose features are used.
    """

    work = StageWork(
        version=2, run="smoothsweep.tasks.judges:judge_by_general_features", labelled=("real", RECONSTRUCTIONS)
    )
    networks = GENERAL
    columns = COLUMNS
    cites = ()  # those of its network are all

    name: GeneralNetwork = GENERAL[0]
