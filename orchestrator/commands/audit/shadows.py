"""Shadow models that attack the membership of the model under audit: their sweep, their cost, how many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from smoothsweep.core.attacks.shared.base import Access
from smoothsweep.core.data.sources import TEST, TRAIN, Counted
from smoothsweep.core.durations import duration
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.membership.base import LEAST_SHADOWS, check_part
from smoothsweep.orchestrator.commands.audit.forecast import forecast, has_membership
from smoothsweep.orchestrator.commands.audit.portfolio import AuditTraining
from smoothsweep.orchestrator.result.defenses import Cost
from smoothsweep.orchestrator.store.opening import open_store

FILE, NAME = "audit-shadows.yaml", "audit-shadows"
COUNTS = (16, 8, LEAST_SHADOWS)
"""Numbers of shadow models to choose from by time, the largest first; a larger number includes a smaller one's."""

TITLE = "membership by shadow models"


def reference_of(trainings: Sequence[AuditTraining]) -> AuditTraining | None:
    """The training without any defense, whose recipe the shadow models share; None without one."""
    return next((one for one in trainings if one.is_reference), None)


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
    """The shadow models of one audit.

    Attributes:
        first: The parsed sweep file of the audit's first answer.
        reference: The training whose recipe they share.
        settings: Settings of the judge of membership.
        store: Location of the audit's store.
    """

    first: Mapping[str, Any]
    reference: AuditTraining
    settings: Mapping[str, Any]
    store: str

    def tree(self, count: int, *, alone: bool = False) -> dict[str, Any]:
        """The parsed sweep file that attacks with `count` shadow models. alone: without the reference."""
        return shadow_sweep(self.first, self.reference, count, self.settings, alone=alone)

    @cached_property
    def finished(self) -> int:
        """The largest number of shadow models with which the store holds a finished attack; 0 for none."""
        store = open_store(self.store)
        return next((count for count in COUNTS if has_membership(self.tree(count, alone=True), store)), 0)

    def costs(self) -> dict[int, Cost]:
        """Number of shadow models -> its cost, for numbers beyond the finished one, the largest first."""
        store = open_store(self.store)
        return {count: forecast(self.tree(count, alone=True), store) for count in COUNTS if count > self.finished}

    def words(self, count: int, cost: Cost) -> str:
        """A line on so many shadow models: how they are trained, and what training and attacking cost."""
        network = f"{self.reference.settings['architecture']}, {self.reference.settings['epochs']} epochs"
        return (
            f"{TITLE}: {count} of {self.reference.label}, each on a random half of the images ({network}), about "
            f"{duration(cost.training)} of a device to train them and {duration(cost.rest)} to attack"
        )


def without(trainings: Sequence[AuditTraining], access: Access) -> str:
    """A sentence for the pages on why shadow models cannot attack this model; empty where they can."""
    if access != "labels" or not trainings:
        return ""
    return "No shadow model was trained: attacks by shadow models compare scores, and this attacker sees labels alone."


def too_few(people: Counted) -> str:
    """A sentence on a person with too few images for half of them to train a shadow model; empty without one."""
    try:
        check_halves(people, TITLE)
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
