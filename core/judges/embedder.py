"""The independent judge: face features learnt on other people, with a linear head on the private classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.base import RECONSTRUCTIONS, StageWork
from smoothsweep.core.judges.by_features import ByFeatures
from smoothsweep.core.metrics.metric import AT_LEAST_0, BALANCED, Metric
from smoothsweep.core.models.embedder_kinds import FACES, KINDS, FaceNetwork

COLUMNS: tuple[Metric, ...] = (
    Metric(
        key="embedder_acc1",
        label="independent judge",
        unit="percent",
        better="low",
        group="leak",
        ceiling="embedder_real_acc",
        reach="embedder_reach",
        searched=True,
        counted="reconstructions",
        description="Share of reconstructions taken for the attacked class by a judge whose face features were learnt "
        "on other people, with a linear head for the private classes. What fools a classifier trained "
        "like the target does not fool this one: it wants likeness.",
    ),
    Metric(
        key="embedder_acc5",
        label="independent judge, top 5",
        unit="percent",
        better="low",
        group="leak",
        searched=True,
        counted="reconstructions",
        description="As the independent judge, counting the attacked class among its five best guesses.",
    ),
    Metric(
        key="dist_face",
        label="face distance",
        unit="plain",
        bounds=AT_LEAST_0,
        better="high",
        group="leak",
        searched=True,
        description="Squared distance between a reconstruction and the nearest training image of its class, in the "
        "feature space of a face embedder. Smaller means a closer likeness.",
    ),
    Metric(
        key="dist_face_plain",
        label="face distance, not squared",
        unit="plain",
        bounds=AT_LEAST_0,
        better="high",
        group="leak",
        searched=True,
        description="The nearest-image distance in the face embedder's features, as a plain L2 distance.",
    ),
    Metric(
        key="embedder_acc1_std",
        label="independent judge, spread over classes",
        unit="percent",
        better=None,
        group="leak",
        spread=True,
        description="Standard deviation of the independent judge's hit rate over the classes.",
    ),
    Metric(
        key="embedder_real_acc",
        label="independent judge on real images",
        unit="percent",
        better=None,
        group="check",
        counted="test images",
        description="How often the independent judge names real images of the private classes correctly: the ceiling "
        "of its verdict on reconstructions.",
    ),
    Metric(
        key="embedder_real_acc_balanced",
        label="independent judge on real images, balanced",
        unit="percent",
        better=None,
        group="check",
        counted="test images",
        description=BALANCED,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Embedder(ByFeatures):
    """An independent judge: face features learnt on other people, with a linear head on the private classes.

    name: the network whose features are used; without `weights` its shipped or staged file is used (`smoothsweep
    weights stage`), and where that is absent the judge's columns stay empty, with the reason.
    """

    work = StageWork(version=4, run="smoothsweep.tasks.judges:judge_by_embedder", labelled=("real", RECONSTRUCTIONS))
    networks = FACES
    columns = COLUMNS
    cites = ()  # those of its network are all
    example: ClassVar[Mapping[str, Any]] = {"name": "synthetic"}

    name: FaceNetwork

    def __post_init__(self) -> None:
        kind = KINDS[self.name]
        if self.weights is None and not kind.is_staged and kind.shipped_file is None:
            raise InputError(f"weights: expected the file of {self.name}, got none")
