"""The numbers a report knows: what each is called, what it means, and which direction a defender wants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Better = Literal["low", "high"]
AT_LEAST_0 = (0.0, float("inf"))


@dataclass(frozen=True, kw_only=True)
class MetricSpec:
    """One metric as a reader meets it.

    key: the column of `results`. unit: "percent" metrics are fractions in [0, 1] and shown as percentages, "plain"
    ones are shown as they are. better: what the *defender* wants, None where neither direction is better.
    group: "utility" is what the owner of the model gets, "leak" what the attacker gets, "check" tells whether the
    other two can be trusted. bounds: what a "plain" metric can be, None if anything.
    """

    key: str
    label: str
    description: str
    unit: Literal["percent", "plain"]
    better: Better | None
    group: Literal["utility", "leak", "check"]
    bounds: tuple[float, float] | None = None

    @property
    def range(self) -> tuple[float, float] | None:
        """What the metric can be; an interval does not leave it."""
        return (0.0, 1.0) if self.unit == "percent" else self.bounds


METRICS: tuple[MetricSpec, ...] = (
    MetricSpec(
        key="test_acc",
        label="test accuracy",
        unit="percent",
        better="high",
        group="utility",
        description="Share of held-out images of the private classes that the target classifies correctly.",
    ),
    MetricSpec(
        key="ece",
        label="calibration error",
        unit="plain",
        bounds=(0.0, 1.0),
        better="low",
        group="utility",
        description="Expected calibration error of the target on the test images: the mean gap between its "
        "confidence and its accuracy, 0 to 1.",
    ),
    MetricSpec(
        key="embedder_acc1",
        label="independent judge",
        unit="percent",
        better="low",
        group="leak",
        description="Share of reconstructions taken for the attacked class by a judge whose face features were learnt "
        "on other people, with a linear head for the private classes. What fools a classifier trained like the target "
        "does not fool this one: it wants likeness.",
    ),
    MetricSpec(
        key="embedder_acc5",
        label="independent judge, top 5",
        unit="percent",
        better="low",
        group="leak",
        description="As the independent judge, counting the attacked class among its five best guesses.",
    ),
    MetricSpec(
        key="attack_acc1",
        label="evaluator",
        unit="percent",
        better="low",
        group="leak",
        description="The paper's Acc@1: share of reconstructions that a second classifier, trained on the same "
        "private images as the target, takes for the attacked class. It may accept what only classifiers accept.",
    ),
    MetricSpec(
        key="attack_acc5",
        label="evaluator, top 5",
        unit="percent",
        better="low",
        group="leak",
        description="The paper's Acc@5: the attacked class is among the evaluator's five best guesses.",
    ),
    MetricSpec(
        key="attack_acc1_std",
        label="evaluator, spread over classes",
        unit="percent",
        better=None,
        group="leak",
        description="Standard deviation of the evaluator's hit rate over the classes.",
    ),
    MetricSpec(
        key="attack_acc1_std_slots",
        label="evaluator, spread over slots",
        unit="percent",
        better=None,
        group="leak",
        description="Standard deviation over the per-class result slots, the official code's convention.",
    ),
    MetricSpec(
        key="xi_train",
        label="knowledge extracted, train",
        unit="percent",
        better="low",
        group="leak",
        description="A surrogate is trained on the reconstructions alone; its accuracy on the target's training "
        "images says how much class knowledge left the model.",
    ),
    MetricSpec(
        key="xi_test",
        label="knowledge extracted, test",
        unit="percent",
        better="low",
        group="leak",
        description="The same surrogate's accuracy on the target's test images.",
    ),
    MetricSpec(
        key="dist_face",
        label="face distance",
        unit="plain",
        bounds=AT_LEAST_0,
        better="high",
        group="leak",
        description="Squared distance between a reconstruction and the nearest training image of its class, in the "
        "feature space of a face embedder. Smaller means a closer likeness.",
    ),
    MetricSpec(
        key="dist_eval",
        label="evaluator distance",
        unit="plain",
        bounds=AT_LEAST_0,
        better="high",
        group="leak",
        description="The same nearest-image distance (squared) in the evaluator's penultimate features.",
    ),
    MetricSpec(
        key="dist_eval_plain",
        label="evaluator distance, not squared",
        unit="plain",
        bounds=AT_LEAST_0,
        better="high",
        group="leak",
        description="The nearest-image distance in the evaluator's penultimate features, as a plain L2 distance.",
    ),
    MetricSpec(
        key="dist_knn",
        label="k-NN distance",
        unit="plain",
        bounds=AT_LEAST_0,
        better="high",
        group="leak",
        description="Shortest distance from a reconstruction's evaluator features to those of its class, as used "
        "in the low-resolution attack literature.",
    ),
    MetricSpec(
        key="fid",
        label="FID",
        unit="plain",
        bounds=AT_LEAST_0,
        better="high",
        group="leak",
        description="Frechet distance between the features of reconstructions and training images. "
        "Smaller means a more similar distribution of images.",
    ),
    MetricSpec(
        key="kid",
        label="KID",
        unit="plain",
        better="high",
        group="leak",
        description="Kernel distance between the same features, unbiased also for few images: near 0 for sets alike.",
    ),
    MetricSpec(
        key="precision",
        label="precision",
        unit="percent",
        better="low",
        group="leak",
        description="Share of reconstructions that lie among the training images of their class, in the features of "
        "the FID network; mean over classes.",
    ),
    MetricSpec(
        key="recall",
        label="recall",
        unit="percent",
        better="low",
        group="leak",
        description="Share of training images that lie among the reconstructions of their class.",
    ),
    MetricSpec(
        key="density",
        label="density",
        unit="plain",
        bounds=AT_LEAST_0,
        better="low",
        group="leak",
        description="How many neighbourhoods of training images a reconstruction lies in, relative to their number.",
    ),
    MetricSpec(
        key="coverage",
        label="coverage",
        unit="percent",
        better="low",
        group="leak",
        description="Share of training images with a reconstruction in their neighbourhood.",
    ),
    MetricSpec(
        key="dist_face_plain",
        label="face distance, not squared",
        unit="plain",
        bounds=AT_LEAST_0,
        better="high",
        group="leak",
        description="The nearest-image distance in the face embedder's features, as a plain L2 distance.",
    ),
    MetricSpec(
        key="embedder_acc1_std",
        label="independent judge, spread over classes",
        unit="percent",
        better=None,
        group="leak",
        description="Standard deviation of the independent judge's hit rate over the classes.",
    ),
    MetricSpec(
        key="attack_conf",
        label="evaluator's confidence",
        unit="percent",
        better=None,
        group="leak",
        description="Mean confidence of the evaluator in the attacked class, over all reconstructions.",
    ),
    MetricSpec(
        key="target_conf",
        label="target's confidence",
        unit="percent",
        better=None,
        group="check",
        description="Mean confidence of the attacked model in the attacked class. The attack maximises it, so a high "
        "value says that the attack converged, not that it found a likeness.",
    ),
    MetricSpec(
        key="gradient_cosine",
        label="gradient stability",
        unit="plain",
        bounds=(-1.0, 1.0),
        better=None,
        group="check",
        description="Mean cosine between consecutive attack gradients. Near 1: the attack walks straight; "
        "near 0: it keeps changing its mind, and a low leak may be masked gradients.",
    ),
    MetricSpec(
        key="num_frozen",
        label="frozen candidates",
        unit="plain",
        bounds=AT_LEAST_0,
        better=None,
        group="check",
        description="Attack candidates that could not be optimised any further because their loss was not finite.",
    ),
    MetricSpec(
        key="embedder_real_acc",
        label="independent judge on real images",
        unit="percent",
        better=None,
        group="check",
        description="How often the independent judge names real images of the private classes correctly: the ceiling "
        "of its verdict on reconstructions.",
    ),
    MetricSpec(
        key="evaluator_real_acc",
        label="evaluator on real images",
        unit="percent",
        better=None,
        group="check",
        description="How often the evaluator names real test images correctly.",
    ),
    MetricSpec(
        key="train_acc",
        label="training accuracy",
        unit="percent",
        better=None,
        group="check",
        description="Accuracy of the target on its own training images.",
    ),
    MetricSpec(
        key="logit_gap",
        label="logit gap",
        unit="plain",
        better=None,
        group="check",
        description="The true class's logit minus the mean of the others, over the training images: how far apart "
        "training has pushed them. Grows under negative smoothing.",
    ),
)

BY_KEY: dict[str, MetricSpec] = {spec.key: spec for spec in METRICS}

CLASS_METRICS: tuple[str, ...] = ("embedder_acc1", "attack_acc1")
"""Metrics with one value per class, whose intervals resample seeds and classes. The most telling judge first."""

CEILINGS: dict[str, str] = {"embedder_acc1": "embedder_real_acc", "attack_acc1": "evaluator_real_acc"}
"""Judge -> what the same judge reaches on real images."""

KEY_METRICS: tuple[str, ...] = ("test_acc", "embedder_acc1", "attack_acc1", "xi_train", "dist_face")
"""The metrics of the first table; the rest follow in the table of everything measured."""


def spec_of(key: str) -> MetricSpec:
    """The metric named `key`. Raises KeyError listing the valid names."""
    if key not in BY_KEY:
        raise KeyError(f"unknown metric {key!r}; the metrics are {', '.join(BY_KEY)}")
    return BY_KEY[key]
