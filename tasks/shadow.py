"""A shadow model: the recipe trained on a seeded part of all images, and what it answers to each of them."""

from __future__ import annotations

from pathlib import Path

import torch

from smoothsweep.core.membership.base import inside_part
from smoothsweep.core.membership.candidates import scores_of
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.distributed import train_as_asked
from smoothsweep.tasks.files import save_tensors
from smoothsweep.tasks.parts_of_images import PART, all_images, training_images
from smoothsweep.tasks.training import Training, save_history


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
