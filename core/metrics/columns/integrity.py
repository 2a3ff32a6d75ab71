"""The columns of what an attacker can make a target answer: adversarial images (Table 11), backdoors (Table 12)."""

from __future__ import annotations

from typing import Any

from smoothsweep.core.metrics.columns.metric import Metric

CLEAN_TRAINING = "the training set has no backdoor (recipe.poison)"
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
    common: dict[str, Any] = {"unit": "percent", "better": "low", "group": "integrity", "measured_by": "robustness"}
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


INTEGRITY: tuple[Metric, ...] = (
    *(metric for targeted in (False, True) for key in ATTACKS for metric in _success(key, targeted)),
    *(metric for key in STRONGER for metric in _success(key, False)),
    Metric(
        key="robust_acc",
        label="robust accuracy",
        unit="percent",
        better="high",
        group="integrity",
        measured_by="robustness",
        description="Share of test images answered correctly as they are and under every untargeted attack tried; a "
        "stronger attack can only lower it.",
    ),
    Metric(
        key="zero_gradients",
        label="zero gradients",
        unit="percent",
        better=None,
        group="check",
        measured_by="robustness",
        description="Share of test images at which cross entropy's gradient is exactly zero in every pixel: FGSM and "
        "BIM cannot move them, whatever the model would answer.",
    ),
    Metric(
        key="backdoor_success",
        label="backdoor success",
        unit="percent",
        better="low",
        group="integrity",
        measured_by="backdoor",
        null=CLEAN_TRAINING,
        description="Share of test images of other classes that are answered with the backdoor's target class once "
        "they carry its trigger.",
    ),
    Metric(
        key="backdoor_false",
        label="target class without trigger",
        unit="percent",
        better=None,
        group="check",
        measured_by="backdoor",
        null=CLEAN_TRAINING,
        description="The same share without the trigger: what the backdoor's success must exceed to mean anything.",
    ),
    Metric(
        key="backdoor_collapsed",
        label="training collapsed",
        unit="percent",
        better=None,
        group="check",
        measured_by="backdoor",
        counted="trainings",
        null=CLEAN_TRAINING,
        description="1 where the target gives nearly every clean test image one class: its training failed, and the "
        "backdoor's success says nothing; over seeds, the share of such trainings.",
    ),
)
