"""The prior stage: fitted on public images, or brought from a file."""

from __future__ import annotations

from pathlib import Path

import torch

from core.errors import InputError
from core.priors.eigenfaces import fit_eigenfaces
from core.priors.registry import (
    load_discriminator,
    load_prior,
    load_shipped_prior,
    save_discriminator,
    save_prior,
)
from tasks.context import Config, Inputs, Metrics, TaskContext
from tasks.files import load_tensors
from tasks.stylegan import train_generator


def fit_prior(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes weights.safetensors and prior.json, whatever the kind of prior."""
    if config["kind"] == "eigenfaces":
        images = load_tensors(inputs["public"] / "images.safetensors")["images"]
        _check_components(config["components"], len(images))
        save_prior(fit_eigenfaces(images, components=config["components"], seed=config["seed"]), out)
    elif config["kind"] == "stylegan2":
        save_prior(train_generator(config, inputs["public"], context), out)
    elif config["kind"] == "shipped":
        save_prior(load_shipped_prior(config["name"]), out)
    else:
        folder = Path(config["path"]).expanduser()
        save_prior(load_prior(folder), out)
        if "discriminator" in config:
            save_discriminator(load_discriminator(folder), out)
    prior = load_prior(out)
    image = prior.synthesize(prior.map(torch.from_numpy(prior.sample_z(1, 0)).float()))
    if not image.isfinite().all():
        raise InputError(f"prior: expected finite images, got others from {config}")
    return {"resolution": prior.resolution, "z_dim": prior.z_dim}


def _check_components(components: int, images: int) -> None:
    if components >= images:
        raise InputError(f"prior.components: expected fewer than the {images} public images, got {components}")
