"""How the target places its training images (the paper's Figures 4 and 5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Le

from smoothsweep.core.bounds import Count, Seed
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.base import Judge, Planned, StageBuilder, StageWork
from smoothsweep.core.metrics.metric import Metric

ALIKE = "all features of the training images are alike"
ALONE = f"{ALIKE}, or each class has one image"

COLUMNS: tuple[Metric, ...] = (
    Metric(
        key="features_intra",
        label="distance within a class",
        unit="plain",
        bounds=(0.0, 1.0),
        description="Median over the training images of the mean distance to all others of the same class, in the "
        "target's penultimate features and in units of the largest distance between any two.",
        null=ALONE,
    ),
    Metric(
        key="features_inter",
        label="distance between classes",
        unit="plain",
        bounds=(0.0, 1.0),
        description="The same to all training images of other classes.",
        null=ALIKE,
    ),
    Metric(
        key="features_intra_nearest",
        label="nearest of the same class",
        unit="plain",
        bounds=(0.0, 1.0),
        description="Median distance of a training image to the nearest other of its class, in the same units.",
        null=ALONE,
    ),
    Metric(
        key="features_inter_nearest",
        label="nearest of another class",
        unit="plain",
        bounds=(0.0, 1.0),
        description="Median distance of a training image to the nearest of another class, in the same units.",
        null=ALIKE,
    ),
)


def spread_over(count: int, most: int) -> list[int]:
    """At most `most` of the numbers 0 to count - 1, evenly spread, both ends among them."""
    if count <= most:
        return list(range(count))
    return [round(place * (count - 1) / (most - 1)) for place in range(most)] if most > 1 else [0]


@dataclass(frozen=True, kw_only=True)
class Features(Judge):
    """How the target's penultimate activations of its training images lie (the paper's Figs. 4, 5); it needs no attack.

    `perplexity` is t-SNE's and must be less than the number of images mapped, those of `classes` classes.

    Attributes:
        classes: Classes on the map, evenly spread over the labels (the paper's 100); distances are measured of all.
        perplexity: Neighbours that t-SNE weighs for each point.
        seed: Seed of t-SNE's random start.
    """

    cites = ("maaten2008visualizing",)

    work = StageWork(
        run="smoothsweep.tasks.judging:judge_features",
        on_device=False,
        labelled=("features", "data"),
        check="smoothsweep.tasks.settings:check_features",
        check_reads=("data",),
        not_finite=("distances.parquet",),  # none for a sample that is alone in its class
    )
    columns = COLUMNS
    draws = "feature_map"
    example: ClassVar[Mapping[str, Any]] = {"perplexity": 5.0}
    wrong: ClassVar[tuple[Mapping[str, Any], ...]] = ({"perplexity": 0.0},)
    needs_attack = False
    layers = True

    classes: Count = 100
    perplexity: Annotated[float, Ge(2), Le(1000)] = 30.0
    seed: Seed = 0

    def check_samples(self, count: int) -> None:
        if count <= self.perplexity:
            expected = f"expected less than the {count} training images to map"
            raise InputError(f"perplexity: {expected}, got {self.perplexity:g}")

    def plan(self, builder: StageBuilder, name: str) -> Planned:
        read = {"data": "target.data", "network": "target"}
        features = builder.embeddings(read, {"network": "target", "parts": ["train"]})
        return Planned(config=builder.stated(), inputs={"features": features, "data": "target.data"})
