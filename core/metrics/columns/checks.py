"""The columns that say how an attack, a judge and a training went: what a leak is read beside."""

from __future__ import annotations

from smoothsweep.core.metrics.columns.metric import AT_LEAST_0, BALANCED, Metric

ALIKE = "all features of the training images are alike"
ALONE = f"{ALIKE}, or each class has one image"
UNKEPT = "the classifier's artifact holds no accuracies by class"
UNSEEN = "the target was brought in; its training was not seen"

ATTACKS: tuple[Metric, ...] = (
    Metric(
        key="attack_conf",
        label="evaluator's confidence",
        unit="percent",
        better=None,
        group="leak",
        measured_by="evaluator",
        searched=True,
        description="Mean confidence of the evaluator in the attacked class, over all reconstructions.",
    ),
    Metric(
        key="target_conf",
        label="target's confidence",
        unit="percent",
        better=None,
        group="check",
        measured_by="attack",
        searched=True,
        description="Mean confidence of the attacked model in the attacked class. The attack maximises it, so a high "
        "value says that the attack converged, not that it found a likeness.",
        null="this attack sees no scores of the target",
    ),
    Metric(
        key="gradient_cosine",
        label="gradient stability",
        unit="plain",
        bounds=(-1.0, 1.0),
        better=None,
        group="check",
        measured_by="attack",
        searched=True,
        description="Mean cosine between consecutive attack gradients. Near 1: the attack walks straight; near 0: it "
        "keeps changing its mind, and a low leak may be masked gradients.",
        null="this attack follows no gradients",
    ),
    Metric(
        key="num_frozen",
        label="frozen candidates",
        unit="plain",
        bounds=AT_LEAST_0,
        better=None,
        group="check",
        measured_by="attack",
        description="Attack candidates that could not be optimised any further because their loss was not finite.",
        null="this attack follows no gradients",
    ),
    Metric(
        key="queries",
        label="queries",
        unit="plain",
        bounds=AT_LEAST_0,
        better=None,
        group="check",
        measured_by="attack",
        description="Images shown to the target while a class was attacked, parts made for all classes apart; mean "
        "over the classes.",
        null="this attack asks the target nothing",
    ),
    Metric(
        key="queries_selection_target",
        label="queries, selecting target",
        unit="plain",
        bounds=AT_LEAST_0,
        better=None,
        group="check",
        measured_by="attack",
        description="Of a trial whose results another target selects: images shown to that one while a class was "
        "attacked; mean over the classes.",
        null="the attacked target selects by itself, or nothing is selected",
    ),
)
"""How an attack went."""

JUDGES: tuple[Metric, ...] = (
    Metric(
        key="embedder_real_acc",
        label="independent judge on real images",
        unit="percent",
        better=None,
        group="check",
        measured_by="embedder",
        counted="test images",
        description="How often the independent judge names real images of the private classes correctly: the ceiling "
        "of its verdict on reconstructions.",
    ),
    Metric(
        key="embedder_real_acc_balanced",
        label="independent judge on real images, balanced",
        unit="percent",
        better=None,
        group="check",
        measured_by="embedder",
        counted="test images",
        description=BALANCED,
    ),
    Metric(
        key="evaluator_real_acc",
        label="evaluator on real images",
        unit="percent",
        better=None,
        group="check",
        measured_by="evaluator",
        counted="test images",
        description="How often the evaluator names real test images correctly.",
    ),
    Metric(
        key="evaluator_real_acc_balanced",
        label="evaluator on real images, balanced",
        unit="percent",
        better=None,
        group="check",
        measured_by="evaluator",
        counted="test images",
        description=BALANCED,
        null=UNKEPT,
    ),
    Metric(
        key="test_acc_balanced",
        label="test accuracy, balanced",
        unit="percent",
        better=None,
        group="check",
        measured_by="target",
        counted="test images",
        description="The target's test accuracy as the mean over classes, each counting alike however many test images "
        "it has; the same as the test accuracy where they have equally many.",
        null=UNKEPT,
    ),
)
"""What judges say of real images."""

TRAININGS: tuple[Metric, ...] = (
    Metric(
        key="train_acc",
        label="training accuracy",
        unit="percent",
        better=None,
        group="check",
        measured_by="target",
        searched=True,
        description="Accuracy of the target on its own training images.",
        null=UNSEEN,
    ),
    Metric(
        key="logit_gap",
        label="logit gap",
        unit="plain",
        better=None,
        group="check",
        measured_by="target",
        searched=True,
        description="The true class's logit minus the mean of the others, over the training images: how far apart "
        "training has pushed them. Grows under negative smoothing.",
        null=UNSEEN,
    ),
    Metric(
        key="epochs_trained",
        label="epochs trained",
        unit="plain",
        bounds=AT_LEAST_0,
        better=None,
        group="check",
        measured_by="target",
        searched=True,
        description="Passes over the training images until the target was done; fewer than its recipe's where it "
        "stopped at an accuracy.",
        null=UNSEEN,
    ),
    Metric(
        key="test_acc_mean_readout",
        label="test accuracy, mean readout",
        unit="percent",
        better=None,
        group="check",
        measured_by="target",
        counted="test images",
        description="The same accuracy where a target with a noisy bottleneck is read at the bottleneck's mean "
        "instead of by a sample.",
        null="only a target with a bottleneck (defense mid) is read in more than one way",
    ),
    Metric(
        key="dp_epsilon",
        label="privacy loss epsilon",
        unit="plain",
        bounds=AT_LEAST_0,
        better="low",
        group="check",
        measured_by="target",
        description="Of a differentially private training, at delta one over the number of training images: how much a "
        "single image can change what is learnt, whatever the attack. Of a person with k images about k times as much.",
        null="only a target trained by DP-SGD in batches of 32 or more has one",
    ),
)
"""How the training of the target went."""

FEATURES: tuple[Metric, ...] = (
    Metric(
        key="features_intra",
        label="distance within a class",
        unit="plain",
        bounds=(0.0, 1.0),
        better=None,
        group="check",
        measured_by="features",
        description="Median over the training images of the mean distance to all others of the same class, in the "
        "target's penultimate features and in units of the largest distance between any two.",
        null=ALONE,
    ),
    Metric(
        key="features_inter",
        label="distance between classes",
        unit="plain",
        bounds=(0.0, 1.0),
        better=None,
        group="check",
        measured_by="features",
        description="The same to all training images of other classes.",
        null=ALIKE,
    ),
    Metric(
        key="features_intra_nearest",
        label="nearest of the same class",
        unit="plain",
        bounds=(0.0, 1.0),
        better=None,
        group="check",
        measured_by="features",
        description="Median distance of a training image to the nearest other of its class, in the same units.",
        null=ALONE,
    ),
    Metric(
        key="features_inter_nearest",
        label="nearest of another class",
        unit="plain",
        bounds=(0.0, 1.0),
        better=None,
        group="check",
        measured_by="features",
        description="Median distance of a training image to the nearest of another class, in the same units.",
        null=ALIKE,
    ),
)
"""How far the target's features lie apart."""
