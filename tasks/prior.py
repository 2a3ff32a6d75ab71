"""The prior stage: fitted on public images, or brought from a file."""

from __future__ import annotations

from pathlib import Path

import torch

from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputChanged, InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.priors.base import Prior
from smoothsweep.core.priors.kinds import PRIORS
from smoothsweep.core.priors.registry import card_of, load_discriminator, load_prior, save_discriminator, save_prior
from smoothsweep.core.priors.settings import LICENCE, PriorKind, PriorSettings
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.files import load_tensors
from smoothsweep.tasks.planned_files import prior_files
from smoothsweep.tasks.settings import prior_settings


def fit_prior(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes weights.safetensors and prior.json, whatever the kind of prior."""
    row, settings = PRIORS[config["kind"]], prior_settings(config)
    if settings.files is None:
        public = load_tensors(inputs["public"] / "images.safetensors")["images"] if row.needs_public else None
        made = row.function()(settings, public)
    else:
        made = _load_given_prior(config, row, settings, out)
    save_prior(made, out)
    if settings.licence is not None:
        write_file(out / LICENCE, settings.licence + "\n")
    prior = load_prior(out)
    image = prior.synthesize(prior.map(torch.from_numpy(prior.sample_z(1, 0)).float()))
    if not image.isfinite().all():
        raise InputError(f"prior: expected finite images, got others from {config}")
    return {"resolution": prior.resolution, "z_dim": prior.z_dim}


def _load_given_prior(config: Config, row: PriorKind, settings: PriorSettings, out: Path) -> Prior:
    """A prior that is read from files, whose discriminator is kept beside it where it is asked for."""
    files = present(settings.files, "the prior's files")
    weights, *discriminator = prior_files(config, files)
    made = weights.read(lambda _: row.function()(settings, None))
    if "card" in config and (card := card_of(made).plain) != config["card"]:
        raise InputChanged(f"{files.description}: expected {config['card']}, as planned, got {card}")
    for file in discriminator:
        save_discriminator(file.read(lambda path: load_discriminator(path.parent)), out)
    return made
