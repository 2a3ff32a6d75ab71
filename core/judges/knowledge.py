"""Knowledge extraction: what a surrogate trained on the reconstructions alone knows (paper section 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from smoothsweep.core.data.augmentation_settings import Augmentation
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.base import RECONSTRUCTIONS, ClassifierJudge, Planned, StageBuilder, StageWork
from smoothsweep.core.metrics.metric import Metric, leak

COLUMNS: tuple[Metric, ...] = (
    leak(
        key="xi_train",
        label="knowledge extracted, train",
        counted="own images",
        description="A surrogate is trained on the reconstructions alone; its accuracy on the target's training "
        "images says how much class knowledge left the model. Images of classes that were not attacked do not count.",
    ),
    leak(
        key="xi_test",
        label="knowledge extracted, test",
        counted="own images",
        description="The same surrogate's accuracy on the target's test images.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Knowledge(ClassifierJudge):
    """The surrogate trained on reconstructions; defaults are the official ones: SGD on a cosine, crops and mirrors.

    With sgd momentum defaults to 0.9, with the cosine schedule lr_min to 1e-4.
    """

    cites = ("struppek2024careful",)

    stage = "knowledge"
    work = StageWork(
        version=2,
        run="smoothsweep.tasks.judging:extract_knowledge",
        trains=True,
        labelled=("data", RECONSTRUCTIONS),
        check="smoothsweep.tasks.settings:check_training",
        not_finite=("history.parquet",),  # one row per epoch: what was not measured in it is missing
    )
    columns = COLUMNS
    answers = "images.parquet"
    example: ClassVar[Mapping[str, Any]] = {
        "architecture": "resnet_small",
        "pretrained": False,
        "image_size": 32,
        "epochs": 2,
        "batch_size": 16,
        "augmentation": {"hue": 0.0},
        "lr": 0.05,
    }
    hints = ("checkpoint_every",)
    usual: ClassVar[Mapping[str, Any]] = {
        "architecture": "resnet50",
        "epochs": 75,
        "batch_size": 32,
        "optimizer": "sgd",
        "lr": 0.1,
        "weight_decay": 1e-4,
        "lr_schedule": "cosine",
        "augmentation": Augmentation(crop_scale=(0.8, 1.0), brightness=0, contrast=0, saturation=0, hue=0),
        "seed": 2000,
        "checkpoint_every": 25,
    }
    where: ClassVar[Mapping[str, tuple[str, str, Any]]] = {
        "momentum": ("optimizer", "sgd", 0.9),
        "lr_min": ("lr_schedule", "cosine", 1e-4),
    }

    @classmethod
    def counts(cls, answers: Any, inputs: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
        """Images of the attacked classes, of which the file has a row each."""
        return {"xi_train": int(answers["train"].sum()), "xi_test": int(answers["test"].sum())}

    def check(self, sweep: Any) -> None:
        if sweep.attacked is not None and sweep.attacked * sweep.attack.selected < 2:
            raise InputError("judges.knowledge: expected at least 2 reconstructions to train on, got 1")

    def plan(self, builder: StageBuilder, name: str) -> Planned:
        """A training on the reconstructions, tested on the target's images."""
        config = builder.stated(self.hints)
        if builder.protocol == "paper":  # the official surrogate draws one crop and one mirror for a whole batch
            config["augmentation"]["shared"] = True
        return Planned(
            config={**config, "protocol": builder.protocol},
            hints={"checkpoint_every": self.settings.checkpoint_every},
            inputs={"data": builder.data(self.settings.image_size, as_trained=True), RECONSTRUCTIONS: RECONSTRUCTIONS},
        )
