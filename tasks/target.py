"""The target (and, with another architecture and no defense, the evaluator): trained, tested, calibrated; and shadow
models, trained in the same way on a part of all images. One process trains, or several under Ray Train."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.errors import InputError
from smoothsweep.core.membership.base import inside_part
from smoothsweep.core.membership.candidates import scores_of
from smoothsweep.core.metrics.accuracy import class_means, expected_calibration_error, top1_accuracy, topk_hits
from smoothsweep.core.models.classifiers import Classifier
from smoothsweep.core.models.inference import Network, evaluate_accuracy, evaluate_logits
from smoothsweep.core.training.batches import Stamp
from smoothsweep.core.training.classifier import EpochRecord
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext, joined_context
from smoothsweep.tasks.files import load_images, metrics_of, save_rows, save_tensors
from smoothsweep.tasks.poison import poisoned
from smoothsweep.tasks.training import (
    STOP_KEY,
    Training,
    Worker,
    restored_classifier,
    save_classifier,
    save_history,
    train,
    train_alone,
)
from smoothsweep.tasks.unfinished import load_checkpoint, save_checkpoint

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


PART = "part"
"""Key of a shadow model's configuration: its number, share and seed (`core.membership.base.inside_part`)."""


def training_images(config: Config, data: Path) -> tuple[ImageSet, ImageSet]:
    """Images to train on, and images to test on, of a training's configuration and its `data` artifact."""
    if PART not in config:
        return load_images(data, "train"), load_images(data, "test")
    everything = all_images(data)
    inside = torch.from_numpy(inside_part(everything.labels.numpy(), **config[PART]))
    return everything.subset(inside), everything.subset(~inside)


def all_images(data: Path) -> ImageSet:
    """Training images and, behind them, test images."""
    train, test = load_images(data, "train"), load_images(data, "test")
    return ImageSet(
        images=torch.cat([train.images, test.images]), labels=torch.cat([train.labels, test.labels]), names=train.names
    )


FINAL_FILE = "final.pt"


def train_as_asked(
    training: Training, folder: Path, images: ImageSet, test: ImageSet, context: TaskContext, stamp: Stamp | None = None
) -> tuple[Classifier, list[EpochRecord]]:
    """Train on as many workers as the configuration names. Raises AccuracyNotReached where it asks for more than came.

    folder: the `data` artifact that the images are of.
    """
    if training.config["workers"] > 1:
        model, records = train_together(training.config, folder, context)
    else:
        model, records = train_alone(training, images, test, context, stamp)
    training.check_goal(records)
    return model, records


def train_together(config: Config, data: Path, context: TaskContext) -> tuple[Classifier, list[EpochRecord]]:
    """Train on config['workers'] Ray Train workers. A lost worker costs the epochs since the last checkpoint.

    data: a `data` artifact, which every worker maps for itself: ten gigabytes do not travel through an object store.
    Every rank sees its slice of the one global batch that a single process would see; on GPUs BatchNorm is
    synchronised, on CPUs torch has no such layer and each rank keeps its own statistics.
    """
    from smoothsweep.tasks import ray_train  # brings Ray, which one worker does without

    settings = {"config": dict(config), "work": str(context.work), "data": str(data), "shared": context.shared}
    ray_train.fit(_worker_loop, settings, workers=config["workers"], work=context.work, shared=context.shared)
    final = load_checkpoint(context.work / FINAL_FILE)
    if final is None:
        raise RuntimeError("Ray Train ended without leaving the trained weights")
    model = restored_classifier(config, final["model"], where=str(context.work / FINAL_FILE))
    return model.to(context.device), [EpochRecord(**record) for record in final["records"]]


def _worker_loop(settings: dict[str, Any]) -> None:
    """What each rank runs: the common loop, with Ray Train's checkpoints in and out."""
    from smoothsweep.tasks import ray_train

    rank, world_size, device = ray_train.prepare_rank(settings["on_gpu"])
    worker = Worker(rank=rank, world_size=world_size, wrap=ray_train.data_parallel(settings["on_gpu"]))
    data, work, shared = Path(settings["data"]), Path(settings["work"]), settings["shared"]
    with joined_context(data, work, device=device, shared=shared) as (folder, context):
        images, test = training_images(settings["config"], folder)
        model, records = train(
            Training.of(settings["config"]),
            images,
            test,
            context,
            worker=worker,
            resume=ray_train.last_state(),
            checkpoint=lambda state: ray_train.report_state(rank, state, epoch=state["epoch"]),
            hurry=ray_train.machine_leaves,
        )
        if rank == 0:
            weights = {name: tensor.cpu().contiguous() for name, tensor in model.state_dict().items()}
            save_checkpoint(context.work / FINAL_FILE, {"model": weights, "records": [vars(r) for r in records]})


def train_shadow(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Trains as a target does, on the part that `part` says; writes history.parquet and answers.safetensors.

    answers.safetensors: phi float64 [2, n], log odds of the true class for each image and its mirror image, training
    images first, and inside bool [n]. The weights are not kept: they are not read again.
    """
    images, test = training_images(config, inputs["data"])
    training = Training.of(config)
    model, records = train_as_asked(training, inputs["data"], images, test, context)
    save_history(out, records)
    everything = all_images(inputs["data"])
    model.eval()
    training.defense.seed_noise(model, config["seed"])
    phi, margin = scores_of(
        model, everything.images, everything.labels, image_size=config["image_size"], device=context.device
    )
    inside = torch.from_numpy(inside_part(everything.labels.numpy(), **config[PART]))
    save_tensors(out / "answers.safetensors", {"phi": torch.from_numpy(phi), "inside": inside})
    right = torch.from_numpy(margin > 0)
    return {
        "shadow_train_acc": right[inside].double().mean().item(),
        "shadow_test_acc": right[~inside].double().mean().item(),
        "shadow_images": float(inside.sum()),
    }
