"""The numbers that a sweep yields: what each is called and means, who measures it, what may be done with it.

The one place that says so: the columns of `results`, the objectives of a search, the report's words, the judges' page.
Loads nothing.
"""

from __future__ import annotations

from smoothsweep.core.metrics.general_columns import GENERAL_JUDGES
from smoothsweep.core.metrics.integrity import INTEGRITY
from smoothsweep.core.metrics.lowres_columns import LOWRES_METRICS
from smoothsweep.core.metrics.metric import AT_LEAST_0, BALANCED, Metric
from smoothsweep.core.metrics.stability import STABILITY

KNN_NULL = "protocol paper counts labels below 300, of which none was attacked"
ALIKE = "all features of the training images are alike"
ALONE = f"{ALIKE}, or each class has one image"
UNKEPT = "the classifier's artifact holds no accuracies by class"
UNSEEN = "the target was brought in; its training was not seen"

# fmt: off
METRICS: tuple[Metric, ...] = (
    Metric(
        key="test_acc", label="test accuracy", unit="percent", better="high", group="utility", measured_by="target",
        searched=True, counted="test images",
        description="Share of held-out images of the private classes that the target classifies correctly.",
    ),
    Metric(
        key="ece", label="calibration error", unit="plain", bounds=(0.0, 1.0), better="low", group="utility",
        measured_by="target", searched=True,
        description="Expected calibration error of the target on the test images: the mean gap between its confidence "
        "and its accuracy, 0 to 1.",
    ),
    Metric(
        key="embedder_acc1", label="independent judge", unit="percent", better="low", group="leak",
        measured_by="embedder", ceiling="embedder_real_acc", searched=True, counted="reconstructions",
        description="Share of reconstructions taken for the attacked class by a judge whose face features were learnt "
        "on other people, with a linear head for the private classes. What fools a classifier trained "
        "like the target does not fool this one: it wants likeness.",
    ),
    Metric(
        key="embedder_acc5", label="independent judge, top 5", unit="percent", better="low", group="leak",
        measured_by="embedder", searched=True, counted="reconstructions",
        description="As the independent judge, counting the attacked class among its five best guesses.",
    ),
    Metric(
        key="attack_acc1", label="evaluator", unit="percent", better="low", group="leak", measured_by="evaluator",
        ceiling="evaluator_real_acc", searched=True, counted="reconstructions",
        description="The paper's Acc@1: share of reconstructions that a second classifier, trained on the same "
        "private images as the target, takes for the attacked class. It may accept what only classifiers "
        "accept.",
    ),
    Metric(
        key="attack_acc5", label="evaluator, top 5", unit="percent", better="low", group="leak",
        measured_by="evaluator", searched=True, counted="reconstructions",
        description="The paper's Acc@5: the attacked class is among the evaluator's five best guesses.",
    ),
    Metric(
        key="attack_acc5_last", label="evaluator, top 5, last image", unit="percent", better=None, group="check",
        measured_by="evaluator",
        description="The evaluator's Acc@5 over the last image of each class alone, LOMMA's published report. Under "
        "protocol paper that is its last draw, elsewhere the one the attack ranks last.",
    ),
    *GENERAL_JUDGES,
    Metric(
        key="attack_acc1_std", label="evaluator, spread over classes", unit="percent", better=None, group="leak",
        measured_by="evaluator", spread=True,
        description="Standard deviation of the evaluator's hit rate over the classes.",
    ),
    Metric(
        key="attack_acc1_std_slots", label="evaluator, spread over slots", unit="percent", better=None, group="leak",
        measured_by="evaluator", spread=True,
        description="Standard deviation over the per-class result slots, the official code's convention.",
    ),
    Metric(
        key="xi_train", label="knowledge extracted, train", unit="percent", better="low", group="leak",
        measured_by="knowledge", searched=True,
        description="A surrogate is trained on the reconstructions alone; its accuracy on the target's training "
        "images says how much class knowledge left the model.",
    ),
    Metric(
        key="xi_test", label="knowledge extracted, test", unit="percent", better="low", group="leak",
        measured_by="knowledge", searched=True, counted="test images",
        description="The same surrogate's accuracy on the target's test images.",
    ),
    Metric(
        key="dist_face", label="face distance", unit="plain", bounds=AT_LEAST_0, better="high", group="leak",
        measured_by="embedder", searched=True,
        description="Squared distance between a reconstruction and the nearest training image of its class, in the "
        "feature space of a face embedder. Smaller means a closer likeness.",
    ),
    Metric(
        key="dist_eval", label="evaluator distance", unit="plain", bounds=AT_LEAST_0, better="high", group="leak",
        measured_by="evaluator", searched=True,
        description="The same nearest-image distance (squared) in the evaluator's penultimate features.",
    ),
    Metric(
        key="dist_eval_plain", label="evaluator distance, not squared", unit="plain", bounds=AT_LEAST_0, better="high",
        group="leak", measured_by="evaluator", searched=True,
        description="The nearest-image distance in the evaluator's penultimate features, as a plain L2 distance.",
    ),
    Metric(
        key="dist_knn", label="k-NN distance", unit="plain", bounds=AT_LEAST_0, better="high", group="leak",
        measured_by="evaluator",
        description="The low-resolution attacks' squared nearest-image distance in the evaluator's features. Protocol "
        "paper sums labels below 300 and divides by all reconstructions, as LOMMA publishes it; of PLG-MI it is the "
        "mean over all of them as pictures stretched to the whole range. Clean is dist_eval.",
        null=KNN_NULL,
    ),
    Metric(
        key="dist_knn_plain", label="k-NN distance, not squared", unit="plain", bounds=AT_LEAST_0, better="high",
        group="leak", measured_by="evaluator", null=KNN_NULL,
        description="The same distance as a plain L2 distance.",
    ),
    Metric(
        key="fid", label="FID", unit="plain", bounds=AT_LEAST_0, better="high", group="leak", measured_by="fidelity",
        searched=True,
        description="Frechet distance between the features of reconstructions and training images. Smaller means a "
        "more similar distribution of images.",
    ),
    Metric(
        key="kid", label="KID", unit="plain", better="high", group="leak", measured_by="fidelity", searched=True,
        description="Kernel distance between the same features, unbiased also for few images: near 0 for sets alike.",
    ),
    Metric(
        key="precision", label="precision", unit="percent", better="low", group="leak", measured_by="fidelity",
        searched=True,
        description="Share of reconstructions that lie among the training images of their class, in the features of "
        "the FID network; mean over classes.",
    ),
    Metric(
        key="recall", label="recall", unit="percent", better="low", group="leak", measured_by="fidelity", searched=True,
        description="Share of training images that lie among the reconstructions of their class.",
    ),
    Metric(
        key="density", label="density", unit="plain", bounds=AT_LEAST_0, better="low", group="leak",
        measured_by="fidelity", searched=True,
        description="How many neighbourhoods of training images a reconstruction lies in, relative to their number.",
    ),
    Metric(
        key="coverage", label="coverage", unit="percent", better="low", group="leak", measured_by="fidelity",
        searched=True,
        description="Share of training images with a reconstruction in their neighbourhood.",
    ),
    Metric(
        key="dist_face_plain", label="face distance, not squared", unit="plain", bounds=AT_LEAST_0, better="high",
        group="leak", measured_by="embedder", searched=True,
        description="The nearest-image distance in the face embedder's features, as a plain L2 distance.",
    ),
    Metric(
        key="embedder_acc1_std", label="independent judge, spread over classes", unit="percent", better=None,
        group="leak", measured_by="embedder", spread=True,
        description="Standard deviation of the independent judge's hit rate over the classes.",
    ),
    Metric(
        key="attack_conf", label="evaluator's confidence", unit="percent", better=None, group="leak",
        measured_by="evaluator", searched=True,
        description="Mean confidence of the evaluator in the attacked class, over all reconstructions.",
    ),
    Metric(
        key="target_conf", label="target's confidence", unit="percent", better=None, group="check",
        measured_by="attack", searched=True,
        description="Mean confidence of the attacked model in the attacked class. The attack maximises it, so a high "
        "value says that the attack converged, not that it found a likeness.",
        null="this attack sees no scores of the target",
    ),
    Metric(
        key="gradient_cosine", label="gradient stability", unit="plain", bounds=(-1.0, 1.0), better=None, group="check",
        measured_by="attack", searched=True,
        description="Mean cosine between consecutive attack gradients. Near 1: the attack walks straight; near 0: it "
        "keeps changing its mind, and a low leak may be masked gradients.",
        null="this attack follows no gradients",
    ),
    Metric(
        key="num_frozen", label="frozen candidates", unit="plain", bounds=AT_LEAST_0, better=None, group="check",
        measured_by="attack",
        description="Attack candidates that could not be optimised any further because their loss was not finite.",
        null="this attack follows no gradients",
    ),
    Metric(
        key="queries", label="queries", unit="plain", bounds=AT_LEAST_0, better=None, group="check",
        measured_by="attack",
        description="Images shown to the target while a class was attacked, parts made for all classes apart; mean "
        "over the classes.",
        null="this attack asks the target nothing",
    ),
    Metric(
        key="queries_selection_target", label="queries, selecting target", unit="plain", bounds=AT_LEAST_0, better=None,
        group="check", measured_by="attack",
        description="Of a trial whose results another target selects: images shown to that one while a class was "
        "attacked; mean over the classes.",
        null="the attacked target selects by itself, or nothing is selected",
    ),
    Metric(
        key="embedder_real_acc", label="independent judge on real images", unit="percent", better=None, group="check",
        measured_by="embedder", counted="test images",
        description="How often the independent judge names real images of the private classes correctly: the ceiling "
        "of its verdict on reconstructions.",
    ),
    Metric(
        key="embedder_real_acc_balanced", label="independent judge on real images, balanced", unit="percent",
        better=None, group="check", measured_by="embedder", counted="test images", description=BALANCED,
    ),
    Metric(
        key="evaluator_real_acc", label="evaluator on real images", unit="percent", better=None, group="check",
        measured_by="evaluator", counted="test images",
        description="How often the evaluator names real test images correctly.",
    ),
    Metric(
        key="evaluator_real_acc_balanced", label="evaluator on real images, balanced", unit="percent", better=None,
        group="check", measured_by="evaluator", counted="test images", description=BALANCED, null=UNKEPT,
    ),
    Metric(
        key="test_acc_balanced", label="test accuracy, balanced", unit="percent", better=None, group="check",
        measured_by="target", counted="test images",
        description="The target's test accuracy as the mean over classes, each counting alike however many test images "
        "it has; the same as the test accuracy where they have equally many.",
        null=UNKEPT,
    ),
    Metric(
        key="train_acc", label="training accuracy", unit="percent", better=None, group="check", measured_by="target",
        searched=True,
        description="Accuracy of the target on its own training images.",
        null=UNSEEN,
    ),
    Metric(
        key="logit_gap", label="logit gap", unit="plain", better=None, group="check", measured_by="target",
        searched=True,
        description="The true class's logit minus the mean of the others, over the training images: how far apart "
        "training has pushed them. Grows under negative smoothing.",
        null=UNSEEN,
    ),
    Metric(
        key="epochs_trained", label="epochs trained", unit="plain", bounds=AT_LEAST_0, better=None, group="check",
        measured_by="target", searched=True,
        description="Passes over the training images until the target was done; fewer than its recipe's where it "
        "stopped at an accuracy.",
        null=UNSEEN,
    ),
    Metric(
        key="test_acc_mean_readout", label="test accuracy, mean readout", unit="percent", better=None, group="check",
        measured_by="target", counted="test images",
        description="The same accuracy where a target with a noisy bottleneck is read at the bottleneck's mean "
        "instead of by a sample.",
        null="only a target with a bottleneck (defense mid) is read in more than one way",
    ),
    Metric(
        key="dp_epsilon", label="privacy loss epsilon", unit="plain", bounds=AT_LEAST_0, better="low", group="check",
        measured_by="target",
        description="Of a differentially private training, at delta one over the number of training images: how much a "
        "single image can change what is learnt, whatever the attack. Of a person with k images about k times as much.",
        null="only a target trained by DP-SGD in batches of 32 or more has one",
    ),
    Metric(
        key="features_intra", label="distance within a class", unit="plain", bounds=(0.0, 1.0), better=None,
        group="check", measured_by="features",
        description="Median over the training images of the mean distance to all others of the same class, in the "
        "target's penultimate features and in units of the largest distance between any two.",
        null=ALONE,
    ),
    Metric(
        key="features_inter", label="distance between classes", unit="plain", bounds=(0.0, 1.0), better=None,
        group="check", measured_by="features",
        description="The same to all training images of other classes.",
        null=ALIKE,
    ),
    Metric(
        key="features_intra_nearest", label="nearest of the same class", unit="plain", bounds=(0.0, 1.0), better=None,
        group="check", measured_by="features",
        description="Median distance of a training image to the nearest other of its class, in the same units.",
        null=ALONE,
    ),
    Metric(
        key="features_inter_nearest", label="nearest of another class", unit="plain", bounds=(0.0, 1.0), better=None,
        group="check", measured_by="features",
        description="Median distance of a training image to the nearest of another class, in the same units.",
        null=ALIKE,
    ),
    *INTEGRITY,
    *LOWRES_METRICS,
    *STABILITY,
)
# fmt: on

BY_KEY: dict[str, Metric] = {metric.key: metric for metric in METRICS}

_FIRST = ("embedder", "general")  # judges whose features learnt nothing of the target's images
CLASS_METRICS = tuple(m.key for m in sorted(METRICS, key=lambda m: m.measured_by not in _FIRST) if m.ceiling)
"""Metrics with one value per class, whose intervals are over seeds and classes. The most telling judge first."""

TOY_COLUMNS = ("steps", "distance", "train_loss", "distance_no_stop")
TIME_COLUMNS = ("seconds_target", "seconds_attack")
"""Columns of `results` that are no metrics of a trial: those of the toy experiment, and durations."""


def metric_of(key: str) -> Metric:
    """The metric named `key`. Raises KeyError listing the valid names."""
    if key not in BY_KEY:
        raise KeyError(f"unknown metric {key!r}; the metrics are {', '.join(BY_KEY)}")
    return BY_KEY[key]
