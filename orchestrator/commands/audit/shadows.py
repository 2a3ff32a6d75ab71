"""Shadow models of the reference's recipe, by which the model's membership is attacked: how many there is time for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsweep.core import screen
from smoothsweep.core.audit.references import AuditTraining
from smoothsweep.core.data.sources import TEST, TRAIN
from smoothsweep.core.durations import duration
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.membership import Membership
from smoothsweep.core.membership.base import LEAST_SHADOWS
from smoothsweep.core.membership.halves import check_part
from smoothsweep.core.readers.files import read_text
from smoothsweep.orchestrator.commands.audit.forecast import START_S, Cost, forecast, has_membership, wall_seconds
from smoothsweep.orchestrator.store.opening import open_store

if TYPE_CHECKING:
    from smoothsweep.orchestrator.commands.audit.work import Work

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


def finished(work: Work, trainings: Sequence[AuditTraining]) -> int:
    """The largest number of shadow models by which the store holds an attack on the model; 0 for none."""
    if reference_of(trainings) is None or work.allowance.membership.settings is None:
        return 0
    store = open_store(work.store)
    return next((count for count in COUNTS if has_membership(work.shadow_tree(trainings, count), store)), 0)


def planned(work: Work, wanted: Sequence[AuditTraining], *, fit: bool, before: float) -> int:
    """How many shadow models there are, or are to be trained: says what they will cost, or notes why there are none.

    wanted: what is trained beside the model. fit: whether the reference is among what there is time for. before:
    seconds that all else takes which comes before them.
    """
    if reference_of(wanted) is None or work.allowance.membership.settings is None:
        return 0
    done, before = finished(work, wanted), before + START_S
    if done == COUNTS[0] or work.access == "labels" or not _holds(work.request.folder) or _too_few(work):
        return done
    store = open_store(work.store)
    costs = {count: forecast(work.shadow_tree(wanted, count), store) for count in COUNTS if count > done}
    for count, cost in costs.items():
        if fit and work.has_time_for(before + wall_seconds(cost.device_s)):
            screen.out(f"to come: {_words(wanted, count, cost)}")
            return count
    if not done:
        least = costs[LEAST_SHADOWS]
        minutes = (work.spent + before + wall_seconds(least.device_s)) / 60
        work.leave_out(
            f"Not tried: {_words(wanted, LEAST_SHADOWS, least)}. The same command with --minutes "
            f"{max(minutes + 1, work.request.minutes + 1):.0f} or more tries it."
        )
    return done


def _words(wanted: Sequence[AuditTraining], count: int, cost: Cost) -> str:
    reference = reference_of(wanted)
    assert reference is not None
    network = f"{reference.settings['architecture']}, {reference.settings['epochs']} epochs"
    return (
        f"{TITLE}: {count} of {reference.label}, each on a random half of the images ({network}), about "
        f"{duration(cost.training)} of a device to train them and {duration(cost.rest)} to attack"
    )


def without(work: Work) -> str:
    """Why no shadow model can attack this model's membership, a sentence for its pages; empty where one can."""
    if work.request.reference is None and not work.request.fix:
        return ""
    if work.access == "labels":
        return (
            "No shadow model was trained: attacks by shadow models compare scores, and this attacker sees labels alone."
        )
    return ""


def _holds(folder: Path) -> bool:
    """Whether the pages make a claim about membership; they were written after the first round."""
    found = json.loads(read_text(folder / "audit.json")).get("membership")
    return found is not None and found["holds"]


def _too_few(work: Work) -> bool:
    """Whether a person has too few images for a half; says so once."""
    counts: Counter[str] = Counter()
    for (label, split), images in work.people.pictures.items():
        if split in (TRAIN, TEST):
            counts[str(label)] += images
    try:
        check_part(tuple(counts[label] for label in sorted(counts)), Membership.share, TITLE)
    except InputError as error:
        work.leave_out(f"Not tried: {error}.")
        return True
    return False
