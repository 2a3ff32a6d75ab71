"""Make an attacker from a caller's arguments: open the model, read the public pictures, build the prior."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from smoothsweep.core.audit.attacking import Attacker
from smoothsweep.core.audit.model import Model
from smoothsweep.core.audit.pictures import Pictures, public_pictures
from smoothsweep.core.audit.portfolio import EIGENFACES, LEAST_PUBLIC, STORED_SIZE, components_of
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.inference import fit_images
from smoothsweep.core.priors.base import Prior
from smoothsweep.core.priors.kinds import PRIORS, make_settings

PriorLike = Prior | Mapping[str, Any]


def check_model(model: object) -> None:
    """Raise InputError for anything but a `Model`, such as a bare network."""
    if not isinstance(model, Model):
        raise InputError(
            "model: expected smoothsweep.Model(network, image_size=..., input_range=...), which says how it reads "
            f"images, got {type(model).__name__}"
        )


def usual_size(model: Model) -> int:
    """Default side in pixels at which pictures are read."""
    return min(STORED_SIZE, model.image_size)


def attacker_of(
    model: Model, public: Pictures, prior: PriorLike, *, size: int | None, device: torch.device | str
) -> Attacker:
    """The attacker of a model. size: side in pixels at which public pictures are read. Raises InputError."""
    check_model(model)
    pictures = public_pictures(public, size=size or usual_size(model))
    if len(pictures) < LEAST_PUBLIC:
        raise InputError(f"public: expected at least {LEAST_PUBLIC} images, got {len(pictures)}")
    opened = model.open(fit_images(pictures[:2], model.image_size), device=device)
    if not isinstance(prior, Mapping):
        return Attacker(opened, pictures, prior, prior_kind="given")
    kind: Any = prior.get("kind")  # make_settings refuses an unknown kind
    prior_settings = {name: value for name, value in prior.items() if name != "kind"}
    if prior is EIGENFACES:  # the default number of directions, unless there are too few images for it
        prior_settings["components"] = components_of(len(pictures))
    settings = make_settings(kind, **prior_settings)
    made = PRIORS[kind].function()(settings, pictures if PRIORS[kind].needs_public else None)
    return Attacker(opened, pictures, made, prior_kind=kind)
