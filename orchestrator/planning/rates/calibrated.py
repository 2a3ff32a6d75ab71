"""Device-hours of a plan by the rates of a calibration: what of it can be counted before the data are there.

Counted are attacks with a prior of the calibration's size, the pools that they start from, and what classifiers do
with known numbers of images. A training on images that are not counted is told per 10,000 of them. Everything else
(reading data, priors, face embedders, FID, defenses with steps of their own) has no number and is named.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from smoothsweep.core.attacks.shared.stated_work import StatedWork
from smoothsweep.core.data.names import PUBLISHED_NAMES
from smoothsweep.orchestrator.planning.history import History
from smoothsweep.orchestrator.planning.plan import Plan
from smoothsweep.orchestrator.planning.rates.before_data import sizes_of_attacks
from smoothsweep.orchestrator.planning.rates.calibration import Calibration, NetworkRate
from smoothsweep.orchestrator.stages.stage import Stage

UNCOUNTED = 10_000  # images that a training is told for where their number is not known
HOUR = 3600.0
SINGLE = "fp32"

Sizes = Mapping[str, tuple[int, StatedWork]]
"""Fingerprint of an attack -> its classes and the work of one."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """Seconds that a stage takes; per_images: of so many images where their number is not known."""

    seconds: float
    per_images: int | None = None


def calibrated_cost(plan: Plan, history: History, rates: Calibration, price: float | None) -> dict[str, Any]:
    """A plan's key `calibrated_cost`. history: of the plan; what the store has measured is left to it."""
    sizes = sizes_of_attacks(plan)
    hours: dict[str, float] = defaultdict(float)
    counts: Counter[str] = Counter()
    per_images: Counter[tuple[str, float]] = Counter()
    without: Counter[str] = Counter()
    for stage in plan.missing:
        if history.expected(stage) is not None:
            continue
        work = _work(stage, sizes, rates)
        if work is None:
            without[stage.name] += 1
        elif work.per_images is None:
            hours[stage.name] += work.seconds / HOUR
            counts[stage.name] += 1
        else:
            per_images[stage.name, work.seconds / HOUR] += 1
    total = sum(hours.values())
    return {
        "device": rates.device,
        "date": rates.date,
        "torch": rates.torch,
        "stages": {name: {"stages": counts[name], "hours": spent} for name, spent in hours.items()},
        "hours": total,
        "per_images": [
            {"stage": name, "stages": many, "hours_each": each, "images": UNCOUNTED}
            for (name, each), many in per_images.items()
        ],
        "without_rate": dict(without),
        **({} if price is None else {"dollars": price * total}),
    }


def _work(stage: Stage, sizes: Sizes, rates: Calibration) -> Work | None:
    if stage.name == "attack":
        seconds = _attacked(stage, sizes, rates)
    elif stage.name in ("pool", "candidates"):
        seconds = _pooled(stage, rates)
    elif stage.name == "judge_evaluator":
        seconds = _judged(stage, sizes, rates)
    elif stage.name == "target":
        return _trained(stage, rates)
    elif stage.name == "knowledge":
        seconds = _learnt(stage, sizes, rates)
    else:
        return None
    return None if seconds is None else Work(seconds=seconds)


def _attacked(stage: Stage, sizes: Sizes, rates: Calibration) -> float | None:
    """Candidates through the steps of the descent, then through the views by which some of them are kept."""
    network = _network(stage.inputs.get("target"), rates, stage.config.get("image_size"))
    size = sizes.get(stage.fingerprint)
    if network is None or size is None or stage.config.get("precision", SINGLE) != SINGLE:
        return None
    classes, work = size
    if work.crop != rates.prior.crop or work.rate.side != rates.prior.side:
        return None
    views = stage.config.get("selection_repeats", 0)
    step = rates.prior.step_s + network.gradient_s
    return classes * work.latents * (work.steps * step + rates.prior.image_s + views * network.forward_s)


def _pooled(stage: Stage, rates: Calibration) -> float | None:
    """Images of a pool drawn once, and looked at by every target."""
    pool = stage.inputs.get("pool", stage).config["settings"]
    if pool.get("crop") != rates.prior.crop:
        return None
    if stage.name == "pool":
        return pool["size"] * rates.prior.image_s
    network = _network(stage.inputs.get("target"), rates)
    return None if network is None else pool["size"] * network.forward_s


def _reconstructed(stage: Stage, sizes: Sizes) -> int | None:
    """Images in the reconstructions that a stage reads."""
    for attack in _above(stage):
        if attack.name == "attack" and attack.fingerprint in sizes and "selected" in attack.config:
            return sizes[attack.fingerprint][0] * attack.config["selected"]
    return None


def _above(stage: Stage) -> Iterator[Stage]:
    for source in stage.inputs.values():
        yield source
        yield from _above(source)


def _judged(stage: Stage, sizes: Sizes, rates: Calibration) -> float | None:
    images, network = _reconstructed(stage, sizes), _network(stage.inputs.get("evaluator"), rates)
    return None if images is None or network is None else images * network.forward_s


def _learnt(stage: Stage, sizes: Sizes, rates: Calibration) -> float | None:
    images, network = _reconstructed(stage, sizes), _network(stage, rates)
    return None if images is None or network is None else stage.config["epochs"] * images * network.train_s


def _trained(stage: Stage, rates: Calibration) -> Work | None:
    """A plain training; one with a defense has steps that are not timed."""
    network, config = _network(stage, rates), stage.config
    defense = config.get("defense", {}).get("kind", "label_smoothing")
    if network is None or defense != "label_smoothing" or config.get("precision", SINGLE) != SINGLE:
        return None
    row = PUBLISHED_NAMES.get(stage.inputs["data"].config.get("kind", ""))
    images = None if row is None or row.training is None else row.training[0]
    seconds = config["epochs"] * (images or UNCOUNTED) * network.train_s
    return Work(seconds=seconds, per_images=UNCOUNTED if images is None else None)


def _network(stage: Stage | None, rates: Calibration, image_size: int | None = None) -> NetworkRate | None:
    """The rate of the classifier that a stage trains; None for another architecture, and for other images."""
    config = {} if stage is None else stage.config
    rate = rates.networks.get(config.get("architecture", ""))
    return rate if rate is not None and rate.image_size == (image_size or config.get("image_size")) else None
