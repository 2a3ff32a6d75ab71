"""What a plan can tell before the data are there: counts from a data set's card, GPU-hours by a rate that others state.

A rate is one that its source states for the same kind of work; nothing is added to it. Work without a stated rate has
no number, and the text says which work that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from smoothsweep.core.data.recorded_counts import CLASSES, IMAGES, TRAINING
from smoothsweep.orchestrator.planning.history import History
from smoothsweep.orchestrator.planning.plan import Plan
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.stages.images import prior_card, prior_is_absent
from smoothsweep.sweeps.other_trials import known_classes
from smoothsweep.sweeps.schema import InversionSweep

SIDE = 1024  # pixels of the prior that the rate is of
DEVICES = 4


@dataclass(frozen=True, kw_only=True)
class StatedRate:
    """hours: that one `device` took for `latents` candidates. source: who says so, and where to read it."""

    device: str
    hours: float
    latents: int
    source: str


PLUG_AND_PLAY = StatedRate(
    device="A100",
    hours=14.0,
    latents=25_000,
    source="the authors' issue tracker, see docs/cluster.md; it does not say of how many steps",
)
"""Of Plug & Play with the 1024-pixel prior: 500 classes of 50 candidates each."""


@dataclass(frozen=True, kw_only=True)
class StatedCost:
    """Attacks of one size. attacks: how many; latents: that each attack optimises, in `steps` steps."""

    attacks: int
    latents: int
    steps: int

    @property
    def hours_each(self) -> float:
        """GPU-hours of one attack."""
        return PLUG_AND_PLAY.hours * self.latents / PLUG_AND_PLAY.latents

    @property
    def hours(self) -> float:
        """GPU-hours of all."""
        return self.attacks * self.hours_each


def before_data(plan: Plan, history: History, absent: Mapping[str, str], price: float | None) -> dict[str, Any]:
    """Keys of a plan's summary: `cards`, counts of data that are not there; `stated_cost`, null where no rate suits.

    history: of the plan. absent: key of the sweep file -> place where nothing lies. price: dollars per device-hour.
    """
    settings = [trial.settings for trial in plan.trials if isinstance(trial.settings, InversionSweep)]
    kinds = dict.fromkeys(one.data.kind for one in settings) if "data.path" in absent else {}
    return {"cards": [_card(kind) for kind in kinds if kind in CLASSES], "stated_cost": _stated(plan, history, price)}


def _card(kind: str) -> dict[str, Any]:
    what, classes, source = CLASSES[kind]
    images, recorded = IMAGES[kind]
    train = TRAINING.get(kind, (None, ""))[0]
    counts = {what: {"count": classes, "source": source}, "images": {"count": images, "source": recorded}}
    return {"data": kind, **counts, "training_images": train}


def _stated(plan: Plan, history: History, price: float | None) -> dict[str, Any] | None:
    costs = stated_costs(plan, history)
    if not costs:
        return None
    hours = sum(cost.hours for cost in costs)
    found = {
        "attacks": [
            {"attacks": one.attacks, "latents": one.latents, "steps": one.steps, "gpu_hours_each": one.hours_each}
            for one in costs
        ],
        "gpu_hours": hours,
        "days": hours / 24 / DEVICES,
        "days_on": DEVICES,
        "device": PLUG_AND_PLAY.device,
        "rate": f"{PLUG_AND_PLAY.hours:g} h for {PLUG_AND_PLAY.latents:,} latents",
        "source": PLUG_AND_PLAY.source,
    }
    return found if price is None else {**found, "dollars": price * hours}


def stated_costs(plan: Plan, history: History) -> list[StatedCost]:
    """Attacks that must run, that this store has not measured, and that the rate suits, by their size."""
    missing = {stage.fingerprint for stage in plan.missing if history.expected(stage) is None}
    sizes: dict[str, tuple[int, int]] = {}
    for trial in plan.trials:
        for stage in trial.stages:
            if stage.name == "attack" and stage.fingerprint in missing and (size := _size(trial)):
                sizes[stage.fingerprint] = size
    return [
        StatedCost(attacks=_count(sizes.values(), size), latents=size[0], steps=size[1])
        for size in dict.fromkeys(sizes.values())
    ]


def _count(sizes: Iterable[tuple[int, int]], wanted: tuple[int, int]) -> int:
    return sum(size == wanted for size in sizes)


def _size(trial: Trial) -> tuple[int, int] | None:
    """Latents and steps of the trial's attack; None where the rate is not of such an attack."""
    settings = trial.settings
    if not isinstance(settings, InversionSweep) or settings.attack is None or settings.attack.kind != "ppa":
        return None
    classes = known_classes(settings) if settings.classes == "all" else len(settings.classes)
    if classes is None or not _is_large(settings):
        return None
    return classes * settings.attack.candidates, settings.attack.steps


def _is_large(settings: InversionSweep) -> bool:
    """Whether the prior draws pictures of the rate's size; of one that is not there the crop of the pool tells."""
    if settings.prior is None or settings.prior.kind != "folder":
        return False
    if not prior_is_absent(settings):
        return prior_card(settings).config.resolution == SIDE
    crop = settings.attack.pool.crop if settings.attack is not None else None
    return crop is not None and SIDE // 2 < crop <= SIDE
