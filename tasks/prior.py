"""The prior stage: fitted on public images, or brought from a file."""

from __future__ import annotations

from pathlib import Path

import torch

from core.errors import InputError
from core.priors.kinds import PRIORS
from core.priors.registry import load_discriminator, load_prior, save_discriminator, save_prior
from tasks.context import Config, Inputs, Metrics, TaskContext
from tasks.files import load_tensors
from tasks.settings import prior_settings
from tasks.stylegan import train_generator


def fit_prior(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes weights.safetensors and prior.json, whatever the kind of prior."""
    row, settings = PRIORS[config["kind"]], prior_settings(config)
    if row.make is None:
        made = train_generator(settings, inputs["public"], context)
    else:
        public = load_tensors(inputs["public"] / "images.safetensors")["images"] if row.needs_public else None
        made = row.function()(settings, public)
    save_prior(made, out)
    if "discriminator" in config:
        save_discriminator(load_discriminator(settings.files.discriminator.parent), out)
    prior = load_prior(out)
    image = prior.synthesize(prior.map(torch.from_numpy(prior.sample_z(1, 0)).float()))
    if not image.isfinite().all():
        raise InputError(f"prior: expected finite images, got others from {config}")
    return {"resolution": prior.resolution, "z_dim": prior.z_dim}
