"""Reconstructions as a set of pictures: FID, KID, precision, recall, density, coverage, and FIDs that attacks publish.

All compare in the features of an Inception network.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from smoothsweep.core.attacks.shared.base import Attack
from smoothsweep.core.bounds import Checked, Count, FilePath
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.base import RECONSTRUCTIONS, Judge, Planned, StageBuilder, StageWork
from smoothsweep.core.metrics.metric import Metric, amount, distance, leak
from smoothsweep.core.text import quoted


def is_sha256(text: str) -> str:
    """Refuse what is no SHA-256 in hexadecimal digits. Raises ValueError."""
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise ValueError(f"expected 64 hexadecimal digits, got {quoted(text)}")
    return text


Sha256 = Annotated[str, Checked(is_sha256)]

_Features = tuple[dict[str, Any], dict[str, Any], Any]


@dataclass(frozen=True, kw_only=True)
class InceptionJudge(Judge):
    """A judge in the features of an Inception network.

    Without `weights` their staged file is used; where that is absent the columns stay empty, with the reason.

    Attributes:
        weights: File of the network's weights, None for the staged file of `smoothsweep weights stage`.
        sha256: Digest of `weights`, where it is not the published file.
    """

    published = ""  # which of the published files

    weights: FilePath | None = None
    sha256: Sha256 | None = None

    def __post_init__(self) -> None:
        if self.sha256 is not None and self.weights is None:
            raise InputError("sha256: expected only with weights, got no weights")

    @property
    def staged(self) -> str | None:
        return self.published if self.weights is None else None

    def with_features(self, builder: StageBuilder, size: int, network: Mapping[str, Any]) -> _Features:
        """The network's configuration with its weights, hints, and features of the training images at that size."""
        weights = self.weights if self.weights is not None else builder.staged(self.published)
        config = {**network, **builder.content(weights, "weights")}
        hints = {"path": str(weights), **({"sha256": self.sha256} if self.sha256 else {})}
        return config, hints, builder.embeddings({"data": builder.data(size)}, {**config, "parts": ["train"]}, hints)


SIDE = 299  # pixels


COLUMNS: tuple[Metric, ...] = (
    distance(
        key="fid",
        label="FID",
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
    leak(
        key="precision",
        label="precision",
        description="Share of reconstructions that lie among the training images of their class, in the features of "
        "the FID network; mean over classes.",
    ),
    leak(
        key="recall",
        label="recall",
        description="Share of training images that lie among the reconstructions of their class.",
    ),
    amount(
        key="density",
        label="density",
        better="low",
        group="leak",
        searched=True,
        description="How many neighbourhoods of training images a reconstruction lies in, relative to their number.",
    ),
    leak(
        key="coverage",
        label="coverage",
        description="Share of training images with a reconstruction in their neighbourhood.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Fidelity(InceptionJudge):
    """FID, KID, precision, recall, density and coverage of the reconstructions against the target's training images.

    In the features of the Inception network of 2015 (the one of pytorch-fid). neighbours: k of precision, recall,
    density and coverage.
    """

    cites = (
        "heusel2017gans",
        "binkowski2018demystifying",
        "kynkaanniemi2019improved",
        "naeem2020reliable",
    )

    work = StageWork(version=2, run="smoothsweep.tasks.judges:judge_by_fidelity", labelled=("real", RECONSTRUCTIONS))
    columns = COLUMNS
    example: ClassVar[Mapping[str, Any]] = {"neighbours": 1}
    wrong: ClassVar[tuple[Mapping[str, Any], ...]] = ({"neighbours": 0},)
    published = "fid_inception"
    weights_words = "the FID network"

    neighbours: Count = 3

    @property
    def reconstruction_size(self) -> int:
        return SIDE

    def check(self, sweep: Any) -> None:
        if self.neighbours >= sweep.attack.selected:
            expected = f"expected fewer than attack.selected ({sweep.attack.selected})"
            raise InputError(f"judges.fidelity.neighbours: {expected}, got {self.neighbours}")

    def plan(self, builder: StageBuilder, name: str) -> Planned:
        network = {"network": self.published, "protocol": builder.protocol}
        config, hints, real = self.with_features(builder, SIDE, network)
        config["neighbours"] = self.neighbours
        return Planned(config=config, hints=hints, inputs={"real": real, RECONSTRUCTIONS: RECONSTRUCTIONS})


FID_NULL = "the evaluator takes fewer than two reconstructions for their class"

FID_LOMMA: tuple[Metric, ...] = (
    amount(
        key="fid_lomma",
        label="FID as LOMMA publishes it",
        better="high",
        group="leak",
        null=FID_NULL,
        description="Frechet distance of the reconstructions that the evaluator takes for their class to the training "
        "images of the attacked classes, in the Inception network of 2015 that is shown the bright half of the range.",
    ),
    amount(
        key="fid_lomma_images",
        label="images behind LOMMA's FID",
        description="How many reconstructions the evaluator takes for their class: the sample of that FID.",
    ),
)

FID_PLG: tuple[Metric, ...] = (
    amount(
        key="fid_plg",
        label="FID as PLG-MI publishes it",
        better="high",
        group="leak",
        null=FID_NULL,
        description="Frechet distance of the reconstructions that the evaluator takes for their class, each stretched "
        "to the whole range, to all private training images, in torchvision's Inception of ImageNet; of both, what "
        "fills no batch of 100 is left out.",
    ),
    amount(
        key="fid_plg_images",
        label="images behind PLG-MI's FID",
        description="How many reconstructions the evaluator takes for their class, those left out included.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class PublishedFid(InceptionJudge):
    """An FID as the code of a low-resolution attack computes it, over what the evaluator recognises alone.

    Its network is the row of its name in `core.models.fid`.
    """

    work = StageWork(
        run="smoothsweep.tasks.judges:judge_by_published_fid", labelled=("verdicts", "real", RECONSTRUCTIONS)
    )
    requires: ClassVar[Mapping[str, str]] = {"evaluator": "whose hits alone it counts"}

    def wants_decoded(self, attack: Attack, protocol: str) -> bool:
        return True

    def plan(self, builder: StageBuilder, name: str) -> Planned:
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

    cites = ("heusel2017gans", "nguyen2023rethinking")

    columns = FID_LOMMA
    published = "fid_inception"
    weights_words = "the FID network"


class FidPlg(PublishedFid):
    """FID as PLG-MI publishes it, in torchvision's Inception."""

    cites = ("heusel2017gans", "yuan2023pseudo")

    columns = FID_PLG
    published = "inception_v3"
