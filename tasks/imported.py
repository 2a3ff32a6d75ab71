"""A classifier that somebody else trained, adopted as a target or a judge: copied, then tested on our data."""

from __future__ import annotations

from pathlib import Path

from core.errors import InputError
from core.models.inference import evaluate_accuracy
from tasks.context import Config, Inputs, Metrics, TaskContext
from tasks.files import load_images, load_tensors, save_tensors
from tasks.target import measure_utility
from tasks.training import load_classifier

WEIGHTS = "weights.safetensors"


def adopt_classifier(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes weights.safetensors and what `train_target` writes of a test; returns the utility.

    Of inception_v3 the accuracy is taken under both input conventions: which one a file was trained with is no part of
    it (Plug-and-Play-Attacks trains with the mapping to ImageNet statistics and attacks without).
    """
    test = load_images(inputs["data"], "test")
    if test.num_classes != config["num_classes"]:
        raise InputError(
            f"imported {config['path']}: expected a classifier of the data's {test.num_classes} classes, "
            f"got one of {config['num_classes']}"
        )
    save_tensors(out / WEIGHTS, load_tensors(Path(config["path"]).expanduser() / WEIGHTS))
    model = load_classifier(out, config, context.device)
    metrics = measure_utility(model, test, config, out, context)
    if config["architecture"] == "inception_v3":
        other = load_classifier(out, {**config, "transform_input": not config["transform_input"]}, context.device)
        accuracy = evaluate_accuracy(other, test, image_size=config["image_size"], device=context.device)
        metrics["test_acc_other_input"] = accuracy
    return metrics
