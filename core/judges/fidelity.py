"""FID, KID, precision, recall, density and coverage of the reconstructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from smoothsweep.core.bounds import Count
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.base import RECONSTRUCTIONS, Planned, StageBuilder, StageWork
from smoothsweep.core.judges.inception import InceptionJudge
from smoothsweep.core.metrics.metric import AT_LEAST_0, Metric

SIDE = 299  # pixels


COLUMNS: tuple[Metric, ...] = (
    Metric(
        key="fid",
        label="FID",
        unit="plain",
        bounds=AT_LEAST_0,
        better="high",
        group="leak",
        searched=True,
        description="Frechet distance between the features of reconstructions and training images. Smaller means a "
        "more similar distribution of images.",
    ),
    Metric(
        key="kid",
        label="KID",
        unit="plain",
        better="high",
        group="leak",
        searched=True,
        description="Kernel distance between the same features, unbiased also for few images: near 0 for sets alike.",
    ),
    Metric(
        key="precision",
        label="precision",
        unit="percent",
        better="low",
        group="leak",
        searched=True,
        description="Share of reconstructions that lie among the training images of their class, in the features of "
        "the FID network; mean over classes.",
    ),
    Metric(
        key="recall",
        label="recall",
        unit="percent",
        better="low",
        group="leak",
        searched=True,
        description="Share of training images that lie among the reconstructions of their class.",
    ),
    Metric(
        key="density",
        label="density",
        unit="plain",
        bounds=AT_LEAST_0,
        better="low",
        group="leak",
        searched=True,
        description="How many neighbourhoods of training images a reconstruction lies in, relative to their number.",
    ),
    Metric(
        key="coverage",
        label="coverage",
        unit="percent",
        better="low",
        group="leak",
        searched=True,
        description="Share of training images with a reconstruction in their neighbourhood.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Fidelity(InceptionJudge):
    """FID, KID, precision, recall, density and coverage of the reconstructions against the target's training images.

    In the features of the Inception network of 2015 (the one of pytorch-fid). neighbours: k of precision, recall,
    density and coverage.
    """

    cites: ClassVar[tuple[str, ...]] = (
        "heusel2017gans",
        "binkowski2018demystifying",
        "kynkaanniemi2019improved",
        "naeem2020reliable",
    )

    work = StageWork(version=2, run="smoothsweep.tasks.fidelity:judge_by_fidelity", labelled=("real", RECONSTRUCTIONS))
    columns = COLUMNS
    example: ClassVar[Mapping[str, Any]] = {"neighbours": 1}
    wrong: ClassVar[tuple[Mapping[str, Any], ...]] = ({"neighbours": 0},)
    published = "fid_inception"
    weights_words = "the FID network"

    neighbours: Count = 3

    @property
    def reconstruction_size(self) -> int:
        """What the network takes."""
        return SIDE

    def check(self, sweep: Any) -> None:
        """More reconstructions of each class than neighbours."""
        if self.neighbours >= sweep.attack.selected:
            expected = f"expected fewer than attack.selected ({sweep.attack.selected})"
            raise InputError(f"judges.fidelity.neighbours: {expected}, got {self.neighbours}")

    def plan(self, builder: StageBuilder, name: str) -> Planned:
        """The training images' features in the same network."""
        network = {"network": self.published, "protocol": builder.protocol}
        config, hints, real = self.with_features(builder, SIDE, network)
        config["neighbours"] = self.neighbours
        return Planned(config=config, hints=hints, inputs={"real": real, RECONSTRUCTIONS: RECONSTRUCTIONS})
