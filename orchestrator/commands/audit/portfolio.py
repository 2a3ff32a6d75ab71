"""What an audit tries and trains, with settings as in a sweep file: attacks by access, controls, references, priors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS
from smoothsweep.core.defenses.labels import recipe_words
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.kinds import make_settings, network_card
from smoothsweep.core.priors.settings import DESCRIPTION, READ_OUT

STORED_SIZE = 64
"""Side in pixels of stored and reconstructed pictures, unless the model reads smaller ones."""

COMPONENTS = 150
"""Principal components of the prior that is fitted on the public images."""

EIGENFACES: Mapping[str, Any] = {"kind": "eigenfaces", "components": COMPONENTS}
"""Settings of the prior that is fitted on the public images."""

LEAST_PUBLIC = 20
"""Fewest public images for an attack: a prior fitted on fewer draws no recognisable face."""

POOL = {"size": 500, "truncation_psi": 1.0, "truncation_cutoff": None}
SELECTED = 4
PLUG_AND_PLAY: dict[str, Any] = {
    "kind": "ppa",
    "pool": POOL,
    "candidates": 8,
    "steps": 40,
    "lr": 0.03,
    "batch_size": 8,
    "selected": SELECTED,
    "selection_repeats": 24,
}

BY_SCORES: dict[str, Any] = {
    "kind": "cma_es",
    "pool": POOL,
    "selected": SELECTED,
    "max_queries": 1000,
    "population": 12,
}
"""A search on scores that costs an eighth of RLB-MI's queries, and shares its pool with selection."""

AUGMENTATION: dict[str, Any] = {
    "crop_scale": [0.85, 1.0],
    "brightness": 0.2,
    "contrast": 0.2,
    "saturation": 0.1,
    "hue": 0.0,
    "flip": 0.5,
}
"""Augmentation in every training of an audit."""

TRAINING: Mapping[str, Any] = {"epochs": 40, "batch_size": 50, "augmentation": AUGMENTATION}
"""Training of the reference, of the other recipes and of shadow models."""

EVALUATOR_TRAINING: dict[str, Any] = {"epochs": 60, "batch_size": 50, "augmentation": AUGMENTATION}
"""Training of the second classifier, which judges where no independent judge is given."""


Reach = Literal["quick", "adapted", "whole"]
"""Which attacks of the portfolio: those of the first answer, also the adaptive ones, or all."""


@dataclass(frozen=True, kw_only=True)
class PortfolioAttack:
    """One attack of the portfolio.

    Attributes:
        access: What it sees of the model.
        quick: Whether it belongs to the first answer.
        adapted: Whether it is an adaptive attack, built to survive gradient masking, as comparing recipes needs.
    """

    access: str
    quick: bool
    settings: dict[str, Any]
    adapted: bool = False


PORTFOLIO: tuple[PortfolioAttack, ...] = (
    PortfolioAttack(access="gradients", quick=True, settings=PLUG_AND_PLAY),
    PortfolioAttack(access="gradients", quick=True, settings={**PLUG_AND_PLAY, "loss": "cross_entropy"}),
    PortfolioAttack(
        access="gradients",
        quick=False,
        adapted=True,
        settings={**PLUG_AND_PLAY, "loss": "logit", "select": {"kind": "augmented_margin"}},
    ),
    PortfolioAttack(access="scores", quick=True, settings=BY_SCORES),
    PortfolioAttack(
        access="scores",
        quick=False,
        settings={"kind": "rlb_mi", "selected": SELECTED, "episodes": 4000, "at_once": 16, "lr": 0.008},
    ),
    PortfolioAttack(
        access="labels",
        quick=False,
        settings={"kind": "brep_mi", "selected": 2, "patience": 100, "max_passes": 300, "starts": {"max_batches": 40}},
    ),
)
"""Attacks other than `CHEAPEST`, the strongest first. Settings of the small sweeps: minutes on 2 cores."""

CHEAPEST = PortfolioAttack(
    access="scores", quick=True, settings={"kind": "selection_only", "selected": SELECTED, "pool": POOL}
)
"""An attack that optimises nothing, tried wherever scores are given, as a baseline for the other attacks."""

CONTROLS: tuple[PortfolioAttack, ...] = (
    PortfolioAttack(
        access="none",
        quick=True,
        settings={"kind": "random_latents", "selected": SELECTED, "truncation_psi": 1.0, "truncation_cutoff": None},
    ),
)


def components_of(images: int | None) -> int:
    """Number of directions of a prior fitted on so many public images; None: the default."""
    return COMPONENTS if images is None else min(COMPONENTS, images - 1)


def portfolio(access: str, *, whole: bool, adapted: bool = False) -> list[dict[str, Any]]:
    """Settings of the attacks and controls of an attacker with this access.

    By default those of the first answer; `adapted` adds the adaptive attacks; `whole` selects all.
    """
    level = ACCESS_LEVELS.index(access)
    always = (CHEAPEST, *CONTROLS)
    reachable = [tried for tried in (*PORTFOLIO, *always) if ACCESS_LEVELS.index(tried.access) <= level]
    attacks = [tried for tried in reachable if tried not in always]
    first = [tried for tried in attacks if tried.quick] or attacks[:1]
    chosen = [tried for tried in reachable if whole or tried in first or tried in always or (adapted and tried.adapted)]
    return [tried.settings for tried in chosen]


def spread_classes(classes: int, most: int) -> list[int]:
    """The classes to attack: all, or `most` of them, evenly spaced."""
    if classes <= most:
        return list(range(classes))
    return sorted({round(place * (classes - 1) / (most - 1)) for place in range(most)})


def evaluator_of(*architectures: str | None) -> str:
    """An architecture for the second classifier that differs from those of all models it judges."""
    return next(name for name in ("vgg_small", "resnet_small", "resnet18") if name not in architectures)


# What is trained beside the model

EPOCHS: int = TRAINING["epochs"]
"""Default epochs of every training."""

PLAIN: Mapping[str, Any] = {"kind": "label_smoothing", "alpha": 0.0}

FIXES: tuple[Mapping[str, Any], ...] = (
    {"kind": "label_smoothing", "alpha": -0.05},
    {"kind": "label_smoothing", "alpha": -0.8, "schedule": {"kind": "step", "at": 0.1}},
    {"kind": "random_erasing"},
)
"""Recipes that are said to leak less: the paper's factor and schedule, what a search over schedules found, and a rival
that costs no more than plain training and goes with every architecture (MIDRE's published setting)."""


@dataclass(frozen=True, kw_only=True)
class AuditTraining:
    """A recipe that an audit trains: the reference, or one that may lower the leak.

    Attributes:
        label: The defense in words.
        settings: The recipe, as in a sweep file.
        is_reference: Whether it has no defense.
    """

    label: str
    settings: Mapping[str, Any]
    is_reference: bool


def audit_trainings(
    architecture: str, *, image_size: int, transform_input: bool, epochs: int = EPOCHS, fix: bool
) -> tuple[AuditTraining, ...]:
    """The reference, and with `fix` the other recipes after it.

    architecture, image_size (side in pixels), transform_input: those of the model. All start from random weights.
    """
    common = {
        "architecture": architecture,
        "image_size": image_size,
        "pretrained": False,
        **TRAINING,
        "epochs": epochs,
    }
    if transform_input:
        common["transform_input"] = True
    return tuple(
        AuditTraining(
            label=recipe_words(defense).label,
            settings={**common, "defense": dict(defense)},
            is_reference=defense is PLAIN,
        )
        for defense in (PLAIN, *(FIXES if fix else ()))
    )


# The generator that an attacker draws with

WHOLE = 1024
"""Side in pixels of the pictures that the released generator of faces draws."""


def imported_prior(folder: Path, eyes: Sequence[float] | None, image_size: int) -> dict[str, Any]:
    """The `prior` of a sweep file for a folder that `smoothsweep import prior` wrote.

    eyes: x and y of the left and of the right eye and the side of the data's images, in pixels; None: use the prior's
    whole image. image_size: side of the model's input, in pixels. Raises InputError.
    """
    if (folder / DESCRIPTION).is_file():
        if eyes is not None:
            raise InputError(f"--eyes: expected none with {folder}, whose images are shown as they are")
        return {"kind": "folder", "path": str(folder.resolve())}
    sizes = [size for size in (*READ_OUT, WHOLE) if (folder / str(size) / DESCRIPTION).is_file()]
    if not sizes:
        raise InputError(f"--prior {folder}: expected a folder that `smoothsweep import prior` wrote, got no such one")
    prior: dict[str, Any] = {"kind": "random_face", "path": str(folder.resolve())}
    if eyes is not None:
        *places, side = eyes
        if side != int(side):
            raise InputError(f"--eyes: expected the side of the images in whole pixels, got {side:g}")
        prior["crop"] = {"left_eye": places[:2], "right_eye": places[2:], "side": int(side)}
    prior["resolution"] = _resolution(prior, sizes, image_size)
    return prior


def _resolution(prior: dict[str, Any], sizes: list[int], image_size: int) -> int:
    """The smallest resolution that shows as many pixels as the model sees, else the largest. Raises InputError."""
    for size in sizes:
        settings: Any = make_settings(**prior, resolution=size)
        if network_card(settings, None).config.resolution >= image_size:
            return size
    return sizes[-1]
