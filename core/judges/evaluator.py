"""The paper's judge: another classifier of the same private images (section 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from smoothsweep.core.attacks.shared.base import Attack
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.base import RECONSTRUCTIONS, ClassifierJudge, Planned, StageBuilder, StageWork
from smoothsweep.core.metrics.metric import BALANCED, UNKEPT, Metric, amount, distance, leak, spread

REPORT_NULL = (
    "only protocol paper has it, of attacks whose official code reports it, and with several images of each class"
)
GMI_NULL = "only attack gmi has it, under protocol paper"
KNN_NULL = "protocol paper counts labels below 300, of which none was attacked"

COLUMNS: tuple[Metric, ...] = (
    leak(
        key="attack_acc1",
        label="evaluator",
        ceiling="evaluator_real_acc",
        counted="reconstructions",
        description="The paper's Acc@1: share of reconstructions that a second classifier, trained on the same "
        "private images as the target, takes for the attacked class. It may accept what only classifiers "
        "accept.",
    ),
    leak(
        key="attack_acc5",
        label="evaluator, top 5",
        counted="reconstructions",
        description="The paper's Acc@5: the attacked class is among the evaluator's five best guesses.",
    ),
    Metric(
        key="attack_acc5_last",
        label="evaluator, top 5, last image",
        counted="classes",
        description="The evaluator's Acc@5 over the last image of each class alone, LOMMA's published report. Under "
        "protocol paper that is its last draw, elsewhere the one the attack ranks last.",
    ),
    spread(
        key="attack_acc1_std",
        label="evaluator, spread over classes",
        description="Standard deviation of the evaluator's hit rate over the classes.",
    ),
    spread(
        key="attack_acc1_std_slots",
        label="evaluator, spread over slots",
        description="Standard deviation over the per-class result slots, the official code's convention.",
    ),
    distance(
        key="dist_eval",
        label="evaluator distance",
        description="The same nearest-image distance (squared) in the evaluator's penultimate features.",
    ),
    distance(
        key="dist_eval_plain",
        label="evaluator distance, not squared",
        description="The nearest-image distance in the evaluator's penultimate features, as a plain L2 distance.",
    ),
    amount(
        key="dist_knn",
        label="k-NN distance",
        better="high",
        group="leak",
        description="The low-resolution attacks' squared nearest-image distance in the evaluator's features. Protocol "
        "paper sums labels below 300 and divides by all reconstructions, as LOMMA publishes it; of PLG-MI it is the "
        "mean over all of them as pictures stretched to the whole range. Clean is dist_eval.",
        null=KNN_NULL,
    ),
    amount(
        key="dist_knn_plain",
        label="k-NN distance, not squared",
        better="high",
        group="leak",
        null=KNN_NULL,
        description="The same distance as a plain L2 distance.",
    ),
    Metric(
        key="attack_conf",
        label="evaluator's confidence",
        group="leak",
        searched=True,
        description="Mean confidence of the evaluator in the attacked class, over all reconstructions.",
    ),
    Metric(
        key="evaluator_real_acc",
        label="evaluator on real images",
        counted="test images",
        description="How often the evaluator names real test images correctly.",
    ),
    Metric(
        key="evaluator_real_acc_balanced",
        label="evaluator on real images, balanced",
        counted="test images",
        description=BALANCED,
        null=UNKEPT,
    ),
    spread(
        key="attack_acc1_std_batches",
        label="evaluator, published spread over restarts",
        null=REPORT_NULL,
        description="Standard deviation of Acc@1 over the restarts, in batches of 60 classes as the attack's official "
        "code takes them: the mean of the batches' deviations (LOMMA's evaluation), or the root of the mean of their "
        "variances (PLG-MI's).",
    ),
    Metric(
        key="gmi_acc",
        label="GMI's own Acc",
        better="low",
        group="leak",
        null=GMI_NULL,
        counted="classes",
        description="Share of classes whose restart of the largest target logit the evaluator takes for the class: "
        "what GMI's own code prints as Acc.",
    ),
    Metric(
        key="gmi_acc_any",
        label="GMI's own Acc5",
        better="low",
        group="leak",
        null=GMI_NULL,
        counted="classes",
        description="Share of classes that the evaluator recognises in at least one restart: what GMI's own code "
        "prints as Acc5. No top-5 accuracy.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Evaluator(ClassifierJudge):
    """The paper's judge: another architecture trained on the same private data."""

    cites = ("struppek2022plug",)
    learns_private = True

    work = StageWork(
        version=4,
        run="smoothsweep.tasks.judges:judge_by_evaluator",
        labelled=("evaluator", "real", RECONSTRUCTIONS, "attack", "target"),
    )
    columns = COLUMNS
    example: ClassVar[Mapping[str, Any]] = {
        "architecture": "vgg_small",
        "pretrained": False,
        "image_size": 32,
        "epochs": 2,
        "batch_size": 16,
        "augmentation": {"hue": 0.0},
    }
    usual: ClassVar[Mapping[str, Any]] = {
        "architecture": "inception_v3",
        "image_size": 299,
        "seed": 1000,
        "checkpoint_every": 10,
    }
    importable = True
    balanced = "evaluator_real_acc_balanced"

    def check(self, sweep: Any) -> None:
        if self.settings.architecture == sweep.recipe.architecture:
            got = self.settings.architecture
            raise InputError(f"judges.evaluator.architecture: expected another than the target's, got {got}")

    def wants_decoded(self, attack: Attack, protocol: str) -> bool:
        """Where it reports as an attack's own evaluation does, that of LOMMA apart."""
        report = _report(attack, protocol)
        return report is not None and report["of"] != "lomma"

    def plan(self, builder: StageBuilder, name: str) -> Planned:
        """Its classifier, and that one's features of the real images."""
        data = builder.data(self.settings.image_size)
        model = builder.classifier(data)
        real = builder.embeddings({"data": data, "network": model}, {"network": "target"})
        inputs = {"evaluator": model, "real": real, RECONSTRUCTIONS: RECONSTRUCTIONS}
        report = _report(builder.attack, builder.protocol)
        if report is None:
            return Planned(config={"protocol": builder.protocol}, inputs=inputs)
        inputs |= {"attack": "attack"} | ({"target": "target"} if report["of"] == "gmi" else {})
        return Planned(config={"protocol": builder.protocol, "report": report}, inputs=inputs)


def _report(attack: Attack | None, protocol: str) -> dict[str, Any] | None:
    """How it reports beside the usual columns, None where it does not."""
    report = attack.report if attack is not None else None
    return {"of": report[0], "classes": report[1]} if report and protocol == "paper" else None
