"""The audit as a sweep file: what it tries by access, controls, judges, and what it trains beside the model."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from smoothsweep.core.attacks.registry import attack_class, make_attack
from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS, Access
from smoothsweep.core.data.sources import TEST, TRAIN, Counted
from smoothsweep.core.defenses.labels import recipe_words
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import KINDS
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.membership.base import check_part
from smoothsweep.core.models.architectures import check_image_size
from smoothsweep.core.priors.kinds import make_settings, network_card
from smoothsweep.core.priors.settings import DESCRIPTION, READ_OUT
from smoothsweep.orchestrator.commands.audit.request import EPOCHS, AuditRequest
from smoothsweep.sweeps.expand import LoadedSweep, check
from smoothsweep.sweeps.imported import TargetCard
from smoothsweep.sweeps.load import as_yaml

STORED_SIZE = 64
"""Side in pixels of stored and reconstructed pictures, unless the model reads smaller ones."""

COMPONENTS = 150

EIGENFACES: Mapping[str, Any] = {"kind": "eigenfaces", "components": COMPONENTS}
"""Settings of the prior that is fitted on the public images."""

LEAST_PUBLIC = 20
"""Fewest public images for an attack: a prior fitted on fewer draws no recognisable face."""

POOL = {"size": 500, "truncation_psi": 1.0, "truncation_cutoff": None}
SELECTED = 4
PLUG_AND_PLAY: dict[str, Any] = {
    "kind": "ppa",
    "pool": POOL,
    **{"candidates": 8, "steps": 40, "lr": 0.03, "batch_size": 8, "selected": SELECTED, "selection_repeats": 24},
}

AUGMENTATION: dict[str, Any] = {
    "crop_scale": [0.85, 1.0],
    **{"brightness": 0.2, "contrast": 0.2, "saturation": 0.1, "hue": 0.0, "flip": 0.5},
}
"""Augmentation in every training of an audit."""

TRAINING: Mapping[str, Any] = {"epochs": EPOCHS, "batch_size": 50, "augmentation": AUGMENTATION}
"""Training of the reference, of the other recipes and of shadow models."""

EVALUATOR_TRAINING: dict[str, Any] = {"epochs": 60, "batch_size": 50, "augmentation": AUGMENTATION}
"""Training of the second classifier, which judges where no independent judge is given."""


Reach = Literal["quick", "adapted", "whole"]
"""Which attacks of the portfolio: those of the first answer, also the adaptive ones, or all."""

PORTFOLIO: tuple[tuple[Reach, dict[str, Any]], ...] = (
    ("quick", PLUG_AND_PLAY),
    ("quick", {**PLUG_AND_PLAY, "loss": "cross_entropy"}),
    # Built to survive gradient masking, as comparing recipes needs.
    ("adapted", {**PLUG_AND_PLAY, "loss": "logit", "select": {"kind": "augmented_margin"}}),
    # An eighth of RLB-MI's queries, and its pool is that of selection.
    ("quick", {"kind": "cma_es", "pool": POOL, "selected": SELECTED, "max_queries": 1000, "population": 12}),
    ("whole", {"kind": "rlb_mi", "selected": SELECTED, "episodes": 4000, "at_once": 16, "lr": 0.008}),
    ("whole", {"kind": "brep_mi", "selected": 2, "patience": 100, "max_passes": 300, "starts": {"max_batches": 40}}),
    ("quick", {"kind": "selection_only", "selected": SELECTED, "pool": POOL}),
)
"""The least reach that includes an attack, and its settings: the strongest first, last the one that optimises nothing.
Settings of the small sweeps: minutes on 2 cores."""

CONTROL = {"kind": "random_latents", "selected": SELECTED, "truncation_psi": 1.0, "truncation_cutoff": None}


def components_of(images: int | None) -> int:
    """Number of directions of a prior fitted on so many public images; None: the default."""
    return COMPONENTS if images is None else min(COMPONENTS, images - 1)


def level_of(attack: Mapping[str, Any]) -> int:
    """The place in `ACCESS_LEVELS` of what an attack sees."""
    return ACCESS_LEVELS.index(attack_class(attack["kind"]).access)


def portfolio(access: str, reach: Reach = "quick") -> list[dict[str, Any]]:
    """Settings of the attacks and of the control of an attacker with this access."""
    reaches = get_args(Reach)
    reaches = reaches[: reaches.index(reach) + 1]
    seen = [(least, attack) for least, attack in PORTFOLIO if level_of(attack) <= ACCESS_LEVELS.index(access)]
    attacks = [attack for least, attack in seen if least in reaches] or [seen[0][1]]
    return [*attacks, CONTROL]


def spread_classes(classes: int, most: int) -> list[int]:
    """`most` of the classes, evenly spaced; all where there are no more."""
    return sorted({round(place * (classes - 1) / (most - 1)) for place in range(most)})


def evaluator_of(*architectures: str | None) -> str:
    """An architecture for the second classifier that differs from those of all models it judges."""
    return next(name for name in ("vgg_small", "resnet_small", "resnet18") if name not in architectures)


# What is trained beside the model

PLAIN: Mapping[str, Any] = {"kind": "label_smoothing", "alpha": 0.0}

FIXES: tuple[Mapping[str, Any], ...] = (
    {"kind": "label_smoothing", "alpha": -0.05},
    {"kind": "label_smoothing", "alpha": -0.8, "schedule": {"kind": "step", "at": 0.1}},
    {"kind": "random_erasing"},
)
"""Recipes that are said to leak less: the paper's factor and schedule, what a search over schedules found, and a rival
that costs no more than plain training and goes with every architecture (MIDRE's published setting)."""


def audit_trainings(request: AuditRequest, card: TargetCard) -> tuple[dict[str, Any], ...]:
    """The reference and the fixes that were asked for, as a sweep file has them; all from random weights.

    Raises InputError for a network that cannot take the model's images.
    """
    if request.reference is None and not request.fix:
        return ()
    architecture = request.reference or card.architecture
    check_size(architecture, card.image_size)
    common = {"architecture": architecture, "image_size": card.image_size, "pretrained": False, **TRAINING}
    common["epochs"] = request.epochs or EPOCHS
    if card.transform_input and architecture == card.architecture:
        common["transform_input"] = True
    return tuple({**common, "defense": dict(defense)} for defense in (PLAIN, *(FIXES if request.fix else ())))


def label_of(training: Mapping[str, Any]) -> str:
    """The defense of a training in words."""
    return recipe_words(training["defense"]).label


def check_size(architecture: str, image_size: int) -> None:
    """Raise InputError for a reference's architecture that cannot take images of so many pixels."""
    try:
        check_image_size(architecture, image_size)
    except InputError as error:
        raise InputError(f"--reference {error}") from None


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
    for size in sizes:  # the smallest that shows as many pixels as the model sees, else the largest
        prior["resolution"] = size
        settings: Any = make_settings(**prior)
        if network_card(settings, None).config.resolution >= image_size:
            break
    return prior


# The sweep file

SHADOWS = "audit-shadows.yaml"
"""The file of the sweep that attacks by shadow models."""


def untried(asked: Access, card: TargetCard) -> tuple[str, ...]:
    """A sentence on the attacks that need more access than the model gives; empty without any."""
    beyond = range(ACCESS_LEVELS.index(card.access) + 1, ACCESS_LEVELS.index(asked) + 1)
    attacks = [attack_class(settings["kind"]) for _, settings in PORTFOLIO if level_of(settings) in beyond]
    if card.outside is None or not attacks:
        return ()
    told = ", ".join(dict.fromkeys(f"{attack.title} (needs {attack.access})" for attack in attacks))
    return (
        f"Not tried: {told}, because the model is {KINDS[card.architecture].words} that gives {card.access} alone. "
        "An attacker who holds its weights may find more.",
    )


def audit_sweep(
    *,
    model: Path,
    card: TargetCard,
    data: Path,
    public: Path | None,
    independent: Mapping[str, Any],
    attacks: list[dict[str, Any]],
    people: int,
    seeds: list[int],
    has_second: bool,
    trainings: Sequence[Mapping[str, Any]] = (),
    images: int | None = None,
    prior: Mapping[str, Any] | None = None,
    membership: Mapping[str, Any] | None = None,
    bits: int | None = None,
) -> dict[str, Any]:
    """The sweep file of an audit, parsed.

    Args:
        public: The attacker's images, of which there are `images` where that is known; None for rendered faces.
        independent: The user's judge, as `judges` has it; empty without one.
        attacks: Settings of one or more attacks and controls.
        people: The most people to attack.
        trainings: The recipes of the reference and the fixes.
        membership: Settings of its judge.
        bits: How many bits the images use whose files have 16 or 32.
        has_second: Train an evaluator beside an independent judge, too; without one it is trained in any case.
    """
    size = min(STORED_SIZE, card.image_size)
    public_images: dict[str, Any] = {"kind": "synthetic", "size": size}
    deep = {} if bits is None else {"bits": bits}
    if public:
        public_images = {"kind": "unlabelled", "path": str(public), "size": size, "limit": 8000, **deep}
    learns = prior is None or any("public" in make_attack(**attack).reads for attack in attacks)
    judges = verified(independent)
    if not independent or has_second:
        taken = (card.architecture, *(one["architecture"] for one in trainings))
        evaluator = {"architecture": evaluator_of(*taken), "image_size": min(size, 64), "pretrained": False}
        judges["evaluator"] = {**evaluator, **EVALUATOR_TRAINING}
    if membership is not None:
        judges["membership"] = dict(membership)
    recipes = [{"imported": str(model)}, *map(dict, trainings)]
    return {
        "name": "audit",
        "seeds": seeds,
        "data": {"kind": "labelled", "path": str(data), "size": size, **deep},
        **({"public": public_images} if learns or independent else {}),
        "classes": "all" if card.num_classes <= people else spread_classes(card.num_classes, people),
        "recipe": recipes[0],
        "prior": dict(prior) if prior else {"kind": "eigenfaces", "components": components_of(images)},
        "attack": attacks[0],
        "judges": judges,
        **({"cells": [{"recipe": recipe} for recipe in recipes]} if trainings else {}),
        "grid": {"attack": attacks},
        **({"baseline": {"recipe": recipes[1]}} if trainings else {}),
    }


def verified(judges: Mapping[str, Any]) -> dict[str, Any]:
    """Independent judges that also verify faces where there are enough public images."""
    return {key: {**one, "verify": None} for key, one in judges.items()}


def as_file(tree: dict[str, Any]) -> str:
    """The text of a sweep file, with a comment for its reader on top."""
    return (
        "# An audit of one model, as `smoothsweep audit` wrote it: the attacks of its portfolio, and controls that\n"
        "# know nothing of the model. Run it again, change it, or grow it: smoothsweep run FILE --store STORE\n"
        + as_yaml(json.loads(json.dumps(tree)))  # no anchors for what stands twice
    )


def shadow_sweep(
    tree: Mapping[str, Any], recipe: Mapping[str, Any], count: int, *, alone: bool = False
) -> dict[str, Any]:
    """The parsed sweep file that attacks membership by `count` shadow models of a recipe: that of the model, and unless
    it is `alone` that of the recipe's own first training.

    tree: the parsed sweep file of the audit, which measures membership.
    """
    recipes = [tree["recipe"], dict(recipe)]
    compared = {"cells": [{"recipe": one} for one in recipes], "baseline": {"recipe": recipes[1]}}
    return {
        "name": Path(SHADOWS).stem,
        "seeds": tree["seeds"][:1],
        "data": tree["data"],
        "recipe": tree["recipe"],
        "attack": None,
        "judges": {"membership": {**tree["judges"]["membership"], "shadows": count, "shadow_recipe": dict(recipe)}},
        **({} if alone else compared),
    }


def check_halves(people: Counted, where: str = "membership by shadow models") -> None:
    """Raise InputError where a person has too few images for half of them to train a shadow model."""
    counts: Counter[str] = Counter()
    for (label, split), images in people.pictures.items():
        if split in (TRAIN, TEST):
            counts[str(label)] += images
    check_part(tuple(counts[label] for label in sorted(counts)), Membership.share, where)


def as_loaded(tree: dict[str, Any]) -> LoadedSweep:
    """Check a parsed sweep file. Raises InputError."""
    return LoadedSweep(sweep=check(tree, "audit"), raw=tree, intro="", source="audit")
