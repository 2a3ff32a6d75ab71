"""What a plan can tell before the data are there: counts from a data set's card, GPU-hours by a rate that others state.

A rate is one that its source states for the same kind of work; nothing is added to it. Work without a stated rate has
no number, and the text says which work that is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smoothsweep.core.attacks.shared.stated_work import StatedWork
from smoothsweep.core.data.names import PUBLISHED_NAMES
from smoothsweep.orchestrator.planning.history import History
from smoothsweep.orchestrator.planning.plan import Plan
from smoothsweep.orchestrator.planning.rates.devices import derived, speed
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.stages.images import prior_card, prior_is_absent
from smoothsweep.sweeps.other_trials import known_classes
from smoothsweep.sweeps.schema import InversionSweep

GPUS = 4


@dataclass(frozen=True, kw_only=True)
class StatedCost:
    """Attacks of one size.

    Attributes:
        attacks: How many attacks.
        classes: Classes that each attack inverts.
        work: The work of one class.
        device: The device that it runs on.
    """

    attacks: int
    classes: int
    work: StatedWork
    device: str

    @property
    def hours_each(self) -> float:
        """GPU-hours of one attack."""
        return self.classes * self.work.hours / speed(self.work.rate, self.device)

    @property
    def hours(self) -> float:
        """GPU-hours of all."""
        return self.attacks * self.hours_each


def before_data(
    plan: Plan, history: History, absent: Mapping[str, str], price: float | None, device: str | None = None
) -> dict[str, Any]:
    """Keys of a plan's summary: `cards`, counts of data that are not there; `stated_cost`, null where no rate suits.

    Args:
        history: Durations that the plan knows.
        absent: Key of the sweep file -> place where nothing lies.
        price: Dollars per device-hour.
        device: One of `DEVICES` that the cost is told for; None for the one that the rate is of.
    """
    settings = [trial.settings for trial in plan.trials if isinstance(trial.settings, InversionSweep)]
    kinds = dict.fromkeys(sweep.data.kind for sweep in settings) if "data.path" in absent else {}
    return {
        "cards": [_card(kind) for kind in kinds if kind in PUBLISHED_NAMES],
        "stated_cost": _stated(plan, history, price, device),
    }


def _card(kind: str) -> dict[str, Any]:
    row = PUBLISHED_NAMES[kind]
    what, (classes, source), (images, recorded) = row.what, row.classes, row.images
    train = None if row.training is None else row.training[0]
    counts = {what: {"count": classes, "source": source}, "images": {"count": images, "source": recorded}}
    return {"data": kind, **counts, "training_images": train}


def _stated(plan: Plan, history: History, price: float | None, device: str | None) -> dict[str, Any] | None:
    costs = stated_costs(plan, history, device)
    if not costs:
        return None
    hours = sum(cost.hours for cost in costs)
    rates = list(dict.fromkeys(cost.work.rate for cost in costs))
    stated = {
        "attacks": [
            {
                "attacks": cost.attacks,
                "latents": cost.classes * cost.work.latents,
                "steps": cost.work.steps,
                "gpu_hours_each": cost.hours_each,
            }
            for cost in costs
        ],
        "gpu_hours": hours,
        "days": hours / 24 / GPUS,
        "days_on": GPUS,
        "device": ", ".join(dict.fromkeys(cost.device for cost in costs)),
        "rate": ", ".join(f"{rate.hours:g} h for {rate.latents:,} latents on one {rate.device}" for rate in rates),
        "source": "; ".join(rate.source + derived(rate, device or rate.device) for rate in rates),
    }
    return stated if price is None else {**stated, "dollars": price * hours}


def stated_costs(plan: Plan, history: History, device: str | None = None) -> list[StatedCost]:
    """Attacks that must run, that this store has not measured, and that the rate suits, by their size."""
    missing = {stage.fingerprint for stage in plan.missing if history.expected(stage) is None}
    counted = Counter(size for attack, size in sizes_of_attacks(plan).items() if attack in missing)
    return [
        StatedCost(attacks=count, classes=classes, work=work, device=device or work.rate.device)
        for (classes, work), count in counted.items()
    ]


def sizes_of_attacks(plan: Plan) -> dict[str, tuple[int, StatedWork]]:
    """Fingerprint of an attack -> its classes and the work of one; without those that no rate is of."""
    sizes: dict[str, tuple[int, StatedWork]] = {}
    for trial in plan.trials:
        for stage in trial.stages:
            if stage.name == "attack" and stage.fingerprint not in sizes and (size := _size_of_attack(trial)):
                sizes[stage.fingerprint] = size
    return sizes


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
