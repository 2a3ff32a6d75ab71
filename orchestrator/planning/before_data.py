"""What a plan can tell before the data are there: counts from a data set's card, GPU-hours by a rate that others state.

A rate is one that its source states for the same kind of work; nothing is added to it. Work without a stated rate has
no number, and the text says which work that is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from smoothsweep.core.attacks.shared.base import StatedWork
from smoothsweep.core.data.names import PUBLISHED_NAMES
from smoothsweep.orchestrator.planning.history import History
from smoothsweep.orchestrator.planning.plan import Plan
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.stages.images import prior_card, prior_is_absent
from smoothsweep.sweeps.schema import InversionSweep, known_classes

GPUS = 4


def before_data(plan: Plan, history: History, absent: Mapping[str, str], price: float | None) -> dict[str, Any]:
    """Keys of a plan's summary: `cards`, counts of data that are not there; `stated_cost`, null where no rate suits.

    Args:
        history: Durations that the plan knows.
        absent: Key of the sweep file -> place where nothing lies.
        price: Dollars per device-hour.
    """
    settings = [trial.settings for trial in plan.trials if isinstance(trial.settings, InversionSweep)]
    kinds = dict.fromkeys(sweep.data.kind for sweep in settings) if "data.path" in absent else {}
    return {
        "cards": [_card(kind) for kind in kinds if kind in PUBLISHED_NAMES],
        "stated_cost": _stated(plan, history, price),
    }


def _card(kind: str) -> dict[str, Any]:
    row = PUBLISHED_NAMES[kind]
    what, (classes, source), (images, recorded) = row.what, row.classes, row.images
    train = None if row.training is None else row.training[0]
    counts = {what: {"count": classes, "source": source}, "images": {"count": images, "source": recorded}}
    return {"data": kind, **counts, "training_images": train}


def _stated(plan: Plan, history: History, price: float | None) -> dict[str, Any] | None:
    """Attacks that must run, that this store has not measured, and that a rate suits, by their size."""
    missing = {stage.fingerprint for stage in plan.missing if history.expected(stage) is None}
    sizes: dict[str, tuple[int, StatedWork]] = {}  # fingerprint of an attack -> its classes and the work of one
    for trial in plan.trials:
        for stage in trial.stages:
            if stage.name == "attack" and stage.fingerprint in missing and (size := _size_of_attack(trial)):
                sizes[stage.fingerprint] = size
    attacks, hours = [], 0.0
    for (classes, work), count in Counter(sizes.values()).items():
        latents, each = classes * work.latents, classes * work.hours
        attacks.append({"attacks": count, "latents": latents, "steps": work.steps, "gpu_hours_each": each})
        hours += count * each
    if not attacks:
        return None
    rates = list(dict.fromkeys(work.rate for _, work in sizes.values()))
    stated = {
        "attacks": attacks,
        "gpu_hours": hours,
        "days": hours / 24 / GPUS,
        "days_on": GPUS,
        "device": ", ".join(dict.fromkeys(rate.device for rate in rates)),
        "rate": ", ".join(f"{rate.hours:g} h for {rate.latents:,} latents on one {rate.device}" for rate in rates),
        "source": "; ".join(rate.source for rate in rates),
    }
    return stated if price is None else {**stated, "dollars": price * hours}


def _size_of_attack(trial: Trial) -> tuple[int, StatedWork] | None:
    """Classes of the trial's attack and the work of one; None where no rate is of such an attack."""
    settings = trial.settings
    if not isinstance(settings, InversionSweep) or settings.attack is None:
        return None
    work = settings.attack.built.stated_work
    classes = known_classes(settings) if settings.classes == "all" else len(settings.classes)
    return None if work is None or classes is None or not _is_as_large(settings, work) else (classes, work)


def _is_as_large(settings: InversionSweep, work: StatedWork) -> bool:
    """Whether the prior draws pictures of the rate's size; of one that is not there the crop of the pool tells."""
    if settings.prior is None or settings.prior.built.files is None:
        return False
    side = work.rate.side
    if not prior_is_absent(settings):
        return prior_card(settings).config.resolution == side
    return work.crop is not None and side // 2 < work.crop <= side
