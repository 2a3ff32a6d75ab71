"""The target (and, with another architecture and no defense, the evaluator): trained, tested, calibrated."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from torch import nn

from core.data.images import ImageSet
from core.metrics.accuracy import class_means, top1_accuracy, topk_hits
from core.metrics.calibration import expected_calibration_error
from core.models.inference import evaluate_logits
from tasks.context import Config, Inputs, Metrics, TaskContext
from tasks.distributed import train_together
from tasks.files import load_images, save_rows, save_tensors
from tasks.training import save_classifier, train_alone

CALIBRATION_BINS = 10  # the paper's (Appendix C): ten bins, l2 norm


def train_target(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes weights, history (one row per epoch, effective alpha included), test logits; returns the utility."""
    data, test = load_images(inputs["data"], "train"), load_images(inputs["data"], "test")
    if config["workers"] > 1:
        model, records = train_together(config, inputs["data"], context)
    else:
        model, records = train_alone(config, data, test, context)
    save_classifier(out, model, records)
    return {
        **measure_utility(model, test, config["image_size"], out, context),
        "train_acc": records[-1].train_acc,
        "logit_gap": records[-1].extra["top_logit_gap"],
    }


def measure_utility(model: nn.Module, test: ImageSet, image_size: int, out: Path, context: TaskContext) -> Metrics:
    """Accuracy and calibration on the test images; writes test_logits.safetensors and per_class.parquet."""
    logits = evaluate_logits(model, test.images, image_size=image_size, device=context.device)
    save_tensors(out / "test_logits.safetensors", {"logits": logits, "labels": test.labels})
    classes, accuracy = class_means(topk_hits(logits, test.labels, 1), test.labels)
    save_rows(out / "per_class.parquet", pd.DataFrame({"class": classes.numpy(), "test_acc": accuracy.numpy()}))
    return {
        "test_acc": top1_accuracy(logits, test.labels),
        "ece": expected_calibration_error(logits, test.labels, bins=CALIBRATION_BINS, norm="l2"),
    }
