"""Shadow models of the reference's recipe, by which the model's membership is attacked: how many there is time for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from smoothsweep.core.attacks.shared.access import Access
from smoothsweep.core.audit.references import AuditTraining
from smoothsweep.core.data.sources import TEST, TRAIN, Counted
from smoothsweep.core.durations import duration
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.membership.base import LEAST_SHADOWS
from smoothsweep.core.membership.halves import check_part
from smoothsweep.orchestrator.commands.audit.forecast import Cost, forecast, has_membership
from smoothsweep.orchestrator.commands.audit.subject import AuditRequest
from smoothsweep.orchestrator.store.opening import open_store

FILE, NAME = "audit-shadows.yaml", "audit-shadows"
COUNTS = (16, 8, LEAST_SHADOWS)
"""Of shadow models, the most that there is time for; a larger number keeps those of a smaller one."""

TITLE = "membership by shadow models"


def reference_of(trainings: Sequence[AuditTraining]) -> AuditTraining | None:
    """The training without any defense, whose recipe shadow models have."""
    return next((one for one in trainings if one.is_reference), None)


def shadow_sweep(
    tree: Mapping[str, Any], reference: AuditTraining, count: int, membership: Mapping[str, Any], *, alone: bool = False
) -> dict[str, Any]:
    """The tree of the sweep that attacks the membership of the model, and of the first training of the reference.

    tree: the audit's; membership: settings of its judge. count: of shadow models. alone: the model without the
    reference.
    """
    recipes = [tree["recipe"], *([] if alone else [dict(reference.settings)])]
    return {
        "name": NAME,
        "seeds": tree["seeds"][:1],
        "data": tree["data"],
        "recipe": tree["recipe"],
        "attack": None,
        "judges": {"membership": {**membership, "shadows": count, "shadow_recipe": dict(reference.settings)}},
        **({} if alone else {"cells": [{"recipe": recipe} for recipe in recipes]}),
        **({} if alone else {"baseline": {"recipe": recipes[-1]}}),
    }


@dataclass(frozen=True, kw_only=True)
class ShadowModels:
    """Shadow models beside one audit.

    Attributes:
        first: The sweep of the audit's first answer.
        reference: What they are trained like.
        settings: Of the judge of membership.
        store: The place of the audit's store.
    """

    first: Mapping[str, Any]
    reference: AuditTraining
    settings: Mapping[str, Any]
    store: str

    def tree(self, count: int, *, alone: bool = False) -> dict[str, Any]:
        """The sweep that attacks by so many of them. alone: the model without the reference."""
        return shadow_sweep(self.first, self.reference, count, self.settings, alone=alone)

    @cached_property
    def finished(self) -> int:
        """The largest number by which the store holds an attack on the model; 0 for none."""
        store = open_store(self.store)
        return next((count for count in COUNTS if has_membership(self.tree(count, alone=True), store)), 0)

    def costs(self) -> dict[int, Cost]:
        """What larger numbers than those that are finished will cost, the most first."""
        store = open_store(self.store)
        return {count: forecast(self.tree(count, alone=True), store) for count in COUNTS if count > self.finished}

    def words(self, count: int, cost: Cost) -> str:
        """What they are, and what training them and attacking by them costs."""
        network = f"{self.reference.settings['architecture']}, {self.reference.settings['epochs']} epochs"
        return (
            f"{TITLE}: {count} of {self.reference.label}, each on a random half of the images ({network}), about "
            f"{duration(cost.training)} of a device to train them and {duration(cost.rest)} to attack"
        )


def without(request: AuditRequest, access: Access) -> str:
    """Why no shadow model can attack this model's membership, a sentence for its pages; empty where one can."""
    if access != "labels" or (request.reference is None and not request.fix):
        return ""
    return "No shadow model was trained: attacks by shadow models compare scores, and this attacker sees labels alone."


def too_few(people: Counted) -> str:
    """Why a person has too few images for a half; empty where everybody has enough."""
    counts: Counter[str] = Counter()
    for (label, split), images in people.pictures.items():
        if split in (TRAIN, TEST):
            counts[str(label)] += images
    try:
        check_part(tuple(counts[label] for label in sorted(counts)), Membership.share, TITLE)
    except InputError as error:
        return f"Not tried: {error}."
    return ""
