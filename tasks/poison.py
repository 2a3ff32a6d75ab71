"""A backdoor for the training set: which images are poisoned, and with what; and what it did to the target."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from smoothsweep.core.analysis.backdoors import (
    POISONED_ROWS,
    Trigger,
    backdoor_metrics,
    make_trigger,
    poisoned_labels,
    poisoned_rows,
)
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.models.inference import evaluate_logits, fit_images
from smoothsweep.core.readers.tables import read_rows
from smoothsweep.core.seeds import generator
from smoothsweep.core.training.batches import Stamp
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.files import config_of, load_images, load_tensors, save_rows, save_tensors
from smoothsweep.tasks.settings import poison_settings
from smoothsweep.tasks.training import load_classifier

CHUNK = 512  # images that get the trigger at once


def choose_poison(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes poisoned.parquet (row of the training set, its true class, the class it is labelled with) and
    trigger.safetensors. config: the poison's settings, image_size of the network, seeds. Raises InputError where the
    target is no class of the data, the trigger larger than the image, or the share no image or all."""
    settings, train = poison_settings(config), load_images(inputs["data"], "train")
    settings.check_classes(train.num_classes)
    rows = poisoned_rows(settings, len(train), generator(*config["seeds"], POISONED_ROWS))
    before = settings.placed == "before_augmentation"
    pixels = min(train.size, config["image_size"]) if before else config["image_size"]
    trigger = make_trigger(settings, pixels, generator(*config["seeds"], "trigger"))
    save_rows(
        out / "poisoned.parquet",
        pd.DataFrame({"row": rows.numpy(), "class": train.labels[rows].numpy(), "labelled": settings.target}),
    )
    save_tensors(out / "trigger.safetensors", {"pattern": trigger.pattern, "opacity": trigger.opacity})
    return {"num_poisoned": len(rows)}


def poisoned(data: ImageSet, poison: Path) -> tuple[ImageSet, Stamp]:
    """The training set with the labels of a `poison` artifact, and what lays its trigger over those images."""
    settings = poison_settings(config_of(poison))
    rows = torch.from_numpy(read_rows(poison / "poisoned.parquet")["row"].to_numpy(copy=True))
    labels = poisoned_labels(data.labels, rows, settings.target)
    chosen = torch.zeros(len(data), dtype=torch.bool)
    chosen[rows] = True
    before = settings.placed == "before_augmentation"
    return dataclasses.replace(data, labels=labels), Stamp(chosen=chosen, lay=trigger_of(poison).on, before=before)


def judge_backdoor(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """How often the trigger decides on test images; writes answers.parquet (class, answer, answer with the trigger)."""
    settings, trained = poison_settings(config_of(inputs["poison"])), config_of(inputs["target"])
    test, trigger = load_images(inputs["data"], "test"), trigger_of(inputs["poison"])
    model = load_classifier(inputs["target"], trained, context.device)
    clean, triggered = [], []
    for images in test.images.split(CHUNK):
        for answers, pictures in ((clean, images), (triggered, _with_trigger(images, trigger))):
            logits = evaluate_logits(model, pictures, image_size=trained["image_size"], device=context.device)
            answers.append(logits.argmax(1))
    answers = {"answer": torch.cat(clean), "answer_triggered": torch.cat(triggered)}
    rows = {"class": test.labels, **answers}
    save_rows(out / "answers.parquet", pd.DataFrame({name: values.numpy() for name, values in rows.items()}))
    return backdoor_metrics(*answers.values(), test.labels, settings.target)


def _with_trigger(images: Tensor, trigger: Trigger) -> Tensor:
    """Images as in `ImageSet` -> float32 in [-1, 1] at the trigger's size, each with it."""
    pictures = fit_images(images, trigger.pattern.shape[-1]).add(1).div(2)
    return trigger.on(pictures).mul(2).sub(1)


def trigger_of(poison: Path) -> Trigger:
    return Trigger(**load_tensors(poison / "trigger.safetensors"))
