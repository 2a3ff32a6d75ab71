"""Adversarial images of the target's test images (the paper's Table 11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import Gt, Le

from smoothsweep.core.bounds import Count, Seed
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.base import Judge, Planned, StageBuilder, StageWork
from smoothsweep.core.metrics.metric import Metric

NONE_CORRECT = "no test image was answered correctly before"
ATTACKS = {
    "fgsm": ("FGSM", "one step of eps along the gradient's sign"),
    "pgd": ("PGD", "projected gradient descent from one random start"),
    "bim": ("BIM", "the same descent from the image itself"),
    "one_pixel": ("one pixel", "one pixel chosen by differential evolution, from scores alone"),
}
STRONGER = {
    "margin_pgd": (
        "PGD on the margin",
        "PGD on the difference of two logits, which does not vanish where the softmax "
        "is saturated: far above PGD's own success, gradients are masked",
    ),
    "auto_pgd": ("Auto-PGD", "AutoAttack's Auto-PGD with the difference of logits ratio"),
}


def _success(key: str, targeted: bool) -> tuple[Metric, Metric]:
    """One attack's success over all images, and over those answered correctly before."""
    label, what = {**ATTACKS, **STRONGER}[key]
    way, goal = ("targeted", "as a class drawn for each") if targeted else ("untargeted", "wrongly")
    common: dict[str, Any] = {"unit": "percent", "better": "low", "group": "integrity", "counted": "own images"}
    return (
        Metric(
            key=f"{key}_{way}",
            label=f"{label}, {way}",
            **common,
            description=f"Share of all test images answered {goal} under {what}. Those answered wrongly before count "
            "among them, as in the paper's Table 11."
            if not targeted
            else f"Share of all test images answered {goal} under {what}.",
        ),
        Metric(
            key=f"{key}_{way}_correct",
            label=f"{label}, {way}, of correct ones",
            **common,
            null=NONE_CORRECT,
            description="The same over the images that were answered correctly before the attack.",
        ),
    )


COLUMNS: tuple[Metric, ...] = (
    *(metric for targeted in (False, True) for key in ATTACKS for metric in _success(key, targeted)),
    *(metric for key in STRONGER for metric in _success(key, False)),
    Metric(
        key="robust_acc",
        label="robust accuracy",
        better="high",
        group="integrity",
        counted="own images",
        description="Share of test images answered correctly as they are and under every untargeted attack tried; a "
        "stronger attack can only lower it.",
    ),
    Metric(
        key="zero_gradients",
        label="zero gradients",
        counted="own images",
        description="Share of test images at which cross entropy's gradient is exactly zero in every pixel: FGSM and "
        "BIM cannot move them, whatever the model would answer.",
    ),
)


LEAST_CLASSES = 3
"""Auto-PGD's loss compares three logits."""

SmallStep = Annotated[float, Gt(0), Le(1)]


@dataclass(frozen=True, kw_only=True)
class Robustness(Judge):
    """Adversarial images of the target's test images (the paper's Table 11); it needs no attack.

    The defaults are the paper's (Appendix C.8); those of `strong_*` are AutoAttack's.

    Attributes:
        eps: Largest change of a pixel's channel, of pictures in [0, 1] (8/255).
        step: Change in one iteration of PGD and BIM, on the same scale (2/255).
        steps: Iterations of PGD and BIM.
        generations: Generations of the one-pixel attack's differential evolution.
        population: Images of each of these generations.
        strong_steps: Iterations of Auto-PGD with the difference of logits ratio.
        strong_restarts: Random starts of Auto-PGD.
        images: Measure on this many of the test images, drawn by `seed`; null: on all.
        seed: Seed of random starts, targets and evolution.
    """

    cites = ("goodfellow2015explaining", "madry2018towards")

    work = StageWork(
        run="smoothsweep.tasks.judging:judge_robustness",
        labelled=("target", "data"),
        check="smoothsweep.tasks.settings:check_robustness",
        check_reads=("data",),
    )
    columns = COLUMNS
    answers = "answers.parquet"
    example: ClassVar[Mapping[str, Any]] = {"steps": 2, "generations": 2, "population": 4, "strong_steps": 4}
    wrong: ClassVar[tuple[Mapping[str, Any], ...]] = ({"eps": 0.0}, {"steps": 0})
    needs_attack = False
    sees = "gradients"
    layers = True

    eps: SmallStep = 8 / 255
    step: SmallStep = 2 / 255
    steps: Count = 10
    generations: Count = 10
    population: Count = 10
    strong_steps: Count = 100
    strong_restarts: Count = 1
    images: Count | None = None
    seed: Seed = 0

    def check_classes(self, classes: int) -> None:
        if classes < LEAST_CLASSES:
            raise InputError(f"robustness: expected pictures of at least {LEAST_CLASSES} classes, got {classes}")

    def check_images(self, count: int) -> None:
        if not count:
            raise InputError("robustness: expected pictures, got none")
        if self.images is not None and self.images > count:
            raise InputError(f"judges.robustness.images: expected at most the {count} test images, got {self.images}")

    def plan(self, builder: StageBuilder, name: str) -> Planned:
        inputs = {"target": "target", "data": "target.data"}
        return Planned(config={"settings": builder.stated()}, inputs=inputs)

    @classmethod
    def counts(cls, answers: Any, inputs: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
        """The images that were attacked; of the rates over correct ones, those that were answered correctly before."""
        correct = int((answers["answer"] == answers["class"]).sum())
        return {column.key: correct if column.null == NONE_CORRECT else len(answers) for column in COLUMNS}
