"""The audit as a sweep file: one target, the portfolio that its attacker can use, controls, judges."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from smoothsweep.core.attacks.registry import attack_class, make_attack
from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS, Access
from smoothsweep.core.data.sources import TEST, TRAIN, Counted
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import KINDS
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.membership.base import check_part
from smoothsweep.orchestrator.commands.audit.portfolio import (
    CHEAPEST,
    EVALUATOR_TRAINING,
    PORTFOLIO,
    STORED_SIZE,
    AuditTraining,
    components_of,
    evaluator_of,
    spread_classes,
)
from smoothsweep.sweeps.imported import TargetCard
from smoothsweep.sweeps.load import as_yaml

NAME = "audit"
SHADOWS = "audit-shadows.yaml"
"""The file of the sweep that attacks by shadow models."""


def lesser(wanted: Access, given: Access) -> Access:
    """The lower of the access that an attacker wants and the access that the model gives."""
    return min(wanted, given, key=ACCESS_LEVELS.index)


def untried(asked: Access, card: TargetCard) -> tuple[str, ...]:
    """A sentence on the attacks that need more access than the model gives; empty without any."""
    if card.outside is None or lesser(asked, card.access) == asked:
        return ()
    reach = range(ACCESS_LEVELS.index(card.access) + 1, ACCESS_LEVELS.index(asked) + 1)
    beyond = [tried for tried in (*PORTFOLIO, CHEAPEST) if ACCESS_LEVELS.index(tried.access) in reach]
    titles = dict.fromkeys((attack_class(tried.settings["kind"]).title, tried.access) for tried in beyond)
    attacks = ", ".join(f"{title} (needs {access})" for title, access in titles)
    return (
        f"Not tried: {attacks}, because the model is {KINDS[card.architecture].words} that gives {card.access} alone. "
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
    trainings: Sequence[AuditTraining] = (),
    images: int | None = None,
    prior: Mapping[str, Any] | None = None,
    membership: Mapping[str, Any] | None = None,
    bits: int | None = None,
) -> dict[str, Any]:
    """The sweep file of an audit, parsed.

    Args:
        model: Folder of the imported model.
        card: Its card.
        data: The private images.
        public: The attacker's images, None for rendered faces.
        images: Number of public images, None where unknown.
        independent: The user's judge, as `judges` has it.
        attacks: Settings of one or more attacks and controls.
        people: The most people to attack.
        seeds: Seeds of attacks and trainings.
        trainings: The reference and the fixes.
        prior: The attacker's, None for eigenfaces.
        membership: Settings of its judge, None where it is not measured.
        bits: How many bits the images use whose files have 16 or 32, None where there are none.
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
        taken = (card.architecture, *(one.settings["architecture"] for one in trainings))
        judges["evaluator"] = _evaluator(taken, min(size, 64))
    if membership is not None:
        judges["membership"] = dict(membership)
    recipes = [{"imported": str(model)}, *(dict(one.settings) for one in trainings)]
    reference = next((dict(one.settings) for one in trainings if one.is_reference), None)
    return {
        "name": NAME,
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
        **({"baseline": {"recipe": reference}} if reference else {}),
    }


def _evaluator(taken: Sequence[str], side: int) -> dict[str, Any]:
    """The evaluator's settings. taken: architectures that it must not have; side: of its images, in pixels."""
    return {"architecture": evaluator_of(*taken), "image_size": side, "pretrained": False, **EVALUATOR_TRAINING}


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
    tree: Mapping[str, Any], reference: AuditTraining, count: int, membership: Mapping[str, Any], *, alone: bool = False
) -> dict[str, Any]:
    """The sweep file, parsed, that attacks the membership of the model and of the reference's first training.

    Args:
        tree: The parsed sweep file of the audit.
        count: Number of shadow models.
        membership: Settings of its judge.
        alone: Attack the model without the reference.
    """
    recipes = [tree["recipe"], *([] if alone else [dict(reference.settings)])]
    return {
        "name": Path(SHADOWS).stem,
        "seeds": tree["seeds"][:1],
        "data": tree["data"],
        "recipe": tree["recipe"],
        "attack": None,
        "judges": {"membership": {**membership, "shadows": count, "shadow_recipe": dict(reference.settings)}},
        **({} if alone else {"cells": [{"recipe": recipe} for recipe in recipes]}),
        **({} if alone else {"baseline": {"recipe": recipes[-1]}}),
    }


def too_few(people: Counted) -> str:
    """A sentence on a person with too few images for half of them to train a shadow model; empty without one."""
    try:
        check_halves(people, "membership by shadow models")
    except InputError as error:
        return f"Not tried: {error}."
    return ""


def check_halves(people: Counted, where: str) -> None:
    """Raise InputError where a person has too few images for half of them to train a shadow model."""
    counts: Counter[str] = Counter()
    for (label, split), images in people.pictures.items():
        if split in (TRAIN, TEST):
            counts[str(label)] += images
    check_part(tuple(counts[label] for label in sorted(counts)), Membership.share, where)
