"""The FIDs that the low-resolution attacks publish: LOMMA's and PLG-MI's, each a judge of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from smoothsweep.core.attacks.shared.base import Attack
from smoothsweep.core.judges.base import RECONSTRUCTIONS, Planned, StageBuilder, StageWork
from smoothsweep.core.judges.inception import InceptionJudge
from smoothsweep.core.metrics.metric import AT_LEAST_0, Metric

FID_NULL = "the evaluator takes fewer than two reconstructions for their class"

FID_LOMMA: tuple[Metric, ...] = (
    Metric(
        key="fid_lomma",
        label="FID as LOMMA publishes it",
        unit="plain",
        bounds=AT_LEAST_0,
        better="high",
        group="leak",
        null=FID_NULL,
        description="Frechet distance of the reconstructions that the evaluator takes for their class to the training "
        "images of the attacked classes, in the Inception network of 2015 that is shown the bright half of the range.",
    ),
    Metric(
        key="fid_lomma_images",
        label="images behind LOMMA's FID",
        unit="plain",
        bounds=AT_LEAST_0,
        better=None,
        group="check",
        description="How many reconstructions the evaluator takes for their class: the sample of that FID.",
    ),
)

FID_PLG: tuple[Metric, ...] = (
    Metric(
        key="fid_plg",
        label="FID as PLG-MI publishes it",
        unit="plain",
        bounds=AT_LEAST_0,
        better="high",
        group="leak",
        null=FID_NULL,
        description="Frechet distance of the reconstructions that the evaluator takes for their class, each stretched "
        "to the whole range, to all private training images, in torchvision's Inception of ImageNet; of both, what "
        "fills no batch of 100 is left out.",
    ),
    Metric(
        key="fid_plg_images",
        label="images behind PLG-MI's FID",
        unit="plain",
        bounds=AT_LEAST_0,
        better=None,
        group="check",
        description="How many reconstructions the evaluator takes for their class, those left out included.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class PublishedFid(InceptionJudge):
    """An FID as the code of a low-resolution attack computes it, over what the evaluator recognises alone.

    Its network is the row of its name in `core.models.fid`.
    """

    work = StageWork(
        run="smoothsweep.tasks.lowres_fid:judge_by_published_fid", labelled=("verdicts", "real", RECONSTRUCTIONS)
    )
    requires: ClassVar[Mapping[str, str]] = {"evaluator": "whose hits alone it counts"}

    def wants_decoded(self, attack: Attack, protocol: str) -> bool:
        """Always."""
        return True

    def plan(self, builder: StageBuilder, name: str) -> Planned:
        """The real images at the target's size, and the evaluator's verdicts."""
        config, hints, real = self.with_features(
            builder, builder.image_size, {"network": name, "side": builder.image_size}
        )
        return Planned(
            config=config,
            hints=hints,
            inputs={"real": real, RECONSTRUCTIONS: RECONSTRUCTIONS, "verdicts": "judge_evaluator"},
        )


class FidLomma(PublishedFid):
    """FID as LOMMA publishes it, in the FID network."""

    cites: ClassVar[tuple[str, ...]] = ("heusel2017gans", "nguyen2023rethinking")

    columns = FID_LOMMA
    published = "fid_inception"
    weights_words = "the FID network"


class FidPlg(PublishedFid):
    """FID as PLG-MI publishes it, in torchvision's Inception."""

    cites: ClassVar[tuple[str, ...]] = ("heusel2017gans", "yuan2023pseudo")

    columns = FID_PLG
    published = "inception_v3"
