"""The target (and, with another architecture and no defense, the evaluator): trained, tested, calibrated."""

from __future__ import annotations

import copy
from pathlib import Path

import pandas as pd

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.accuracy import class_means, expected_calibration_error, top1_accuracy, topk_hits
from smoothsweep.core.models.classifiers import Classifier
from smoothsweep.core.models.inference import Network, evaluate_accuracy, evaluate_logits
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.distributed import train_as_asked
from smoothsweep.tasks.files import load_images, save_rows, save_tensors
from smoothsweep.tasks.manifests import metrics_of
from smoothsweep.tasks.poison import poisoned
from smoothsweep.tasks.training import STOP_KEY, Training, save_classifier

CALIBRATION_BINS = 10  # the paper's (Appendix C): ten bins, l2 norm


def train_target(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes weights, history (one row per epoch, effective alpha included), test logits; returns the utility.

    The training ends early at the test accuracy that the configuration's `stop_at_test_acc` names, or the one that the
    target in the input `reference` has. Raises AccuracyNotReached if it never gets there. With the input `poison` some
    of the training images carry its trigger and the class it leads to; the test images are clean.
    """
    training = Training.of(with_goal(config, inputs))
    data, test, stamp = load_images(inputs["data"], "train"), load_images(inputs["data"], "test"), None
    if "poison" in inputs:
        data, stamp = poisoned(data, inputs["poison"])
    model, records = train_as_asked(training, inputs["data"], data, test, context, stamp)
    save_classifier(out, model, records)
    return {
        **measure_utility(model, test, config, out, context),
        **accuracy_without_noise(model, test, training, context),
        **training.defense.guarantees(training.recipe, images=len(data), epochs=len(records)),
        "train_acc": records[-1].train_acc,
        "logit_gap": records[-1].extra["top_logit_gap"],
        "epochs_trained": len(records),
    }


def with_goal(config: Config, inputs: Inputs) -> Config:
    """The configuration with the test accuracy to stop at, if it comes from another target."""
    if "reference" not in inputs:
        return config
    if STOP_KEY in config:
        raise InputError(f"{STOP_KEY}: expected a number or a reference target, got both")
    goal = metrics_of(inputs["reference"]).get("test_acc")
    if goal is None:
        raise InputError(f"{inputs['reference']}: expected a target with a test accuracy, got none")
    return {**config, STOP_KEY: goal}


def accuracy_without_noise(model: Classifier, test: ImageSet, training: Training, context: TaskContext) -> Metrics:
    """Accuracy of a network with noisy answers if the noise is left out; nothing for other networks."""
    defense = training.defense
    if defense.noiseless is None:
        return {}
    model = copy.deepcopy(model)
    defense.read(model, defense.noiseless, protocol=training.config["protocol"], seed=0)
    accuracy = evaluate_accuracy(model, test, image_size=training.recipe.image_size, device=context.device)
    return {"test_acc_mean_readout": accuracy}


def measure_utility(model: Network, test: ImageSet, config: Config, out: Path, context: TaskContext) -> Metrics:
    """Accuracy, and calibration by the protocol, on the test images; writes test_logits and per_class.parquet."""
    logits = evaluate_logits(model, test.images, image_size=config["image_size"], device=context.device)
    classes, accuracy = class_means(topk_hits(logits, test.labels, 1), test.labels)
    metrics = {
        "test_acc": top1_accuracy(logits, test.labels),
        "ece": expected_calibration_error(logits, test.labels, protocol=config["protocol"], bins=CALIBRATION_BINS),
    }
    save_tensors(out / "test_logits.safetensors", {"logits": logits, "labels": test.labels})
    save_rows(out / "per_class.parquet", pd.DataFrame({"class": classes.numpy(), "test_acc": accuracy.numpy()}))
    return metrics
