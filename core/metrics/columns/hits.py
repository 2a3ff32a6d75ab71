"""The columns of a model's use and of its leak as shares: accuracy, hit rates, knowledge extracted."""

from __future__ import annotations

from smoothsweep.core.metrics.columns.metric import Metric

UTILITY: tuple[Metric, ...] = (
    Metric(
        key="test_acc",
        label="test accuracy",
        unit="percent",
        better="high",
        group="utility",
        measured_by="target",
        searched=True,
        counted="test images",
        description="Share of held-out images of the private classes that the target classifies correctly.",
    ),
    Metric(
        key="ece",
        label="calibration error",
        unit="plain",
        bounds=(0.0, 1.0),
        better="low",
        group="utility",
        measured_by="target",
        searched=True,
        description="Expected calibration error of the target on the test images: the mean gap between its confidence "
        "and its accuracy, 0 to 1.",
    ),
)
"""Of the target on images of its own people."""

HITS: tuple[Metric, ...] = (
    Metric(
        key="embedder_acc1",
        label="independent judge",
        unit="percent",
        better="low",
        group="leak",
        measured_by="embedder",
        ceiling="embedder_real_acc",
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
        measured_by="embedder",
        searched=True,
        counted="reconstructions",
        description="As the independent judge, counting the attacked class among its five best guesses.",
    ),
    Metric(
        key="attack_acc1",
        label="evaluator",
        unit="percent",
        better="low",
        group="leak",
        measured_by="evaluator",
        ceiling="evaluator_real_acc",
        searched=True,
        counted="reconstructions",
        description="The paper's Acc@1: share of reconstructions that a second classifier, trained on the same "
        "private images as the target, takes for the attacked class. It may accept what only classifiers "
        "accept.",
    ),
    Metric(
        key="attack_acc5",
        label="evaluator, top 5",
        unit="percent",
        better="low",
        group="leak",
        measured_by="evaluator",
        searched=True,
        counted="reconstructions",
        description="The paper's Acc@5: the attacked class is among the evaluator's five best guesses.",
    ),
    Metric(
        key="attack_acc5_last",
        label="evaluator, top 5, last image",
        unit="percent",
        better=None,
        group="check",
        measured_by="evaluator",
        description="The evaluator's Acc@5 over the last image of each class alone, LOMMA's published report. Under "
        "protocol paper that is its last draw, elsewhere the one the attack ranks last.",
    ),
)
"""Of the two judges that tell classes apart."""

EXTRACTED: tuple[Metric, ...] = (
    Metric(
        key="attack_acc1_std",
        label="evaluator, spread over classes",
        unit="percent",
        better=None,
        group="leak",
        measured_by="evaluator",
        spread=True,
        description="Standard deviation of the evaluator's hit rate over the classes.",
    ),
    Metric(
        key="attack_acc1_std_slots",
        label="evaluator, spread over slots",
        unit="percent",
        better=None,
        group="leak",
        measured_by="evaluator",
        spread=True,
        description="Standard deviation over the per-class result slots, the official code's convention.",
    ),
    Metric(
        key="xi_train",
        label="knowledge extracted, train",
        unit="percent",
        better="low",
        group="leak",
        measured_by="knowledge",
        searched=True,
        description="A surrogate is trained on the reconstructions alone; its accuracy on the target's training "
        "images says how much class knowledge left the model.",
    ),
    Metric(
        key="xi_test",
        label="knowledge extracted, test",
        unit="percent",
        better="low",
        group="leak",
        measured_by="knowledge",
        searched=True,
        counted="test images",
        description="The same surrogate's accuracy on the target's test images.",
    ),
)
"""Spread of the evaluator, and what a surrogate learns from the reconstructions."""
