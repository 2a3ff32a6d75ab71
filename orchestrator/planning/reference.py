"""What stages of the small shipped sweeps took on a machine of ours: for a plan in a store that has measured nothing.

A rate says how long one unit of a stage's work takes, and the unit is counted from the configuration. What cannot be
counted (images of a folder, a defense with steps of its own, a part of an attack that is not listed) has no rate, and
its cost stays unknown. Such a number is told as what it is, "about, from another machine"; a run asks for
confirmation by it where the store itself has not measured enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from smoothsweep.core.judges.base import RECONSTRUCTIONS
from smoothsweep.core.judges.membership import Membership
from smoothsweep.orchestrator.planning.history import History
from smoothsweep.orchestrator.stages.stage import Stage

MACHINE = "an AMD EPYC, no GPU; on two cores half of it by the clock"
"""Where the rates are from: medians of the manifests of one `make demo`; those of verification, reach and membership
are from one small sweep on a slower machine, divided by what its other stages took longer there (five times)."""

PASSES_OF_A_STEP = 3  # a step of training or descent goes forward and back; the rates are per image and pass forward
PER_IMAGE_TRAINED = {"resnet_small": 7.8e-4, "vgg_small": 6.3e-4}  # seconds per image and epoch, at 32 pixels
PER_PASS = 4.8e-4  # of an image through eigenfaces and resnet_small, at 32 pixels
PER_SIDE = 32.0
STEPS_OF_A_PROJECTION = 150  # of `core.priors.base`, which loads torch

Units = Callable[[Stage], float | None]


def _drawn(stage: Stage) -> float | None:
    """Synthetic images drawn, in those of 64 pixels."""
    config = stage.config
    if config.get("kind") != "synthetic":
        return None
    per_class = config.get("per_identity") or config["train_per_class"] + config["test_per_class"]
    return config["identities"] * per_class * (config["size"] / 64.0) ** 2


def _fitted(stage: Stage) -> float | None:
    return _drawn(stage.inputs["public"]) if stage.config["kind"] == "eigenfaces" else None


def _pooled(stage: Stage) -> float | None:
    """Latents of a pool of the small prior, which a small target looks at."""
    small = (("prior", "kind", "eigenfaces"), ("target", "architecture", "resnet_small"))
    pool = stage.inputs.get("pool", stage)
    made = {**pool.inputs, **stage.inputs}
    if any(name in made and made[name].config.get(key) != value for name, key, value in small):
        return None
    return pool.config["settings"].get("size")


def _people(stage: Stage) -> int | None:
    """Classes of the private images that a target, or what is made from it, knows; None where they are not drawn."""
    data = stage if stage.name == "data" else stage.inputs.get("data")
    if data is None:
        target = stage.inputs.get("target")
        return None if target is None else _people(target)
    if data.config.get("kind") != "synthetic":
        return None
    return min(data.config["identities"], data.config.get("largest_classes") or data.config["identities"])


def _trained(stage: Stage) -> float | None:
    """Seconds of a plain training."""
    people, config = _people(stage), stage.config
    defense = config.get("defense", {}).get("kind", "label_smoothing")
    if people is None or defense != "label_smoothing" or config.get("workers", 1) > 1:
        return None
    data = stage.inputs["data"].config
    per_class = config.get("samples_per_class") or data["train_per_class"]
    if "part" in config:  # of a shadow model, which is trained on a part of all images
        per_class = config["part"]["share"] * (data["train_per_class"] + data["test_per_class"])
    return _epochs(config, people * per_class)


def _epochs(config: Mapping[str, Any], images: float) -> float | None:
    rate = PER_IMAGE_TRAINED.get(config["architecture"])
    return None if rate is None else rate * config["epochs"] * images * (config["image_size"] / PER_SIDE) ** 2


def _inverted(stage: Stage) -> float | None:
    """Passes of candidates of Plug & Play, in those of 32 pixels."""
    classes, config = _attacked(stage), stage.config
    small = all(
        stage.inputs[name].config.get(key) == value
        for name, key, value in (
            ("prior", "kind", "eigenfaces"),
            ("target", "architecture", "resnet_small"),
        )
        if name in stage.inputs
    )
    if classes is None or config["kind"] != "ppa" or not small:
        return None
    passes = PASSES_OF_A_STEP * config["steps"] + config["selection_repeats"]
    return classes * config["candidates"] * passes * (config["image_size"] / PER_SIDE) ** 2


def _attacked(stage: Stage) -> int | None:
    listed = stage.config["classes"]
    if isinstance(listed, int):
        return listed
    return _people(stage) if listed == "all" else len(listed)


def _reconstructed(stage: Stage) -> float | None:
    """Images in the reconstructions that a stage makes or reads."""
    attack = stage.inputs.get("attack") or stage.inputs[RECONSTRUCTIONS].inputs["attack"]
    classes, each = _attacked(attack), attack.config.get("selected")
    return None if classes is None or each is None else classes * each


def _learnt(stage: Stage) -> float | None:
    """Seconds of a surrogate's training on the reconstructions."""
    images = _reconstructed(stage)
    return None if images is None else _epochs(stage.config, images)


def _strange(stage: Stage) -> float | None:
    """Public images that are embedded, in those of 64 pixels."""
    public, most = stage.inputs["public"].config, stage.config["most"]
    if public.get("kind") != "synthetic":
        return None
    return min(most, public["identities"] * public["per_identity"]) * (public["size"] / 64.0) ** 2


def _photographs(stage: Stage) -> int | None:
    """Private photographs that are projected, or were."""
    projected = stage.inputs.get("projected", stage)
    data = projected.inputs["data"].config
    if data.get("kind") != "synthetic":
        return None
    return min(projected.config["images"], data["identities"] * data["test_per_class"])


def _projected(stage: Stage) -> float | None:
    """Passes of a projection into the small prior: one of an image in closed form, a descent's of a crop."""
    images = _photographs(stage)
    if images is None or stage.inputs["prior"].config["kind"] != "eigenfaces":
        return None
    crop = stage.config.get("crop")
    return images if crop is None else images * PASSES_OF_A_STEP * STEPS_OF_A_PROJECTION * (crop / PER_SIDE) ** 2


def _asked_about(stage: Stage) -> float | None:
    """Passes of images that attacks on membership ask about, in those of 32 pixels."""
    people, target = _people(stage), stage.inputs["target"].config
    if people is None or target.get("architecture") not in PER_IMAGE_TRAINED:
        return None
    data, settings = stage.inputs["data"].config, Membership(**stage.config["settings"])
    members, others = people * data["train_per_class"], people * data["test_per_class"]
    by_labels = sum(min(each, settings.images or each) for each in (members, others))
    by_scores = 2 * (members + others) * (1 + settings.shadows)  # an image and its mirror image, of each model
    passes = by_scores + by_labels * (settings.copies + settings.levels)
    return passes * (target["image_size"] / PER_SIDE) ** 2


RATES: dict[str, tuple[float, Units]] = {
    "data": (1.0e-3, _drawn),
    "public": (7.6e-4, _drawn),
    "prior": (5.5e-4, _fitted),
    "pool": (1.2e-4, _pooled),
    "candidates": (4.0e-4, _pooled),
    "target": (1.0, _trained),
    "shadow": (1.0, _trained),
    "attack": (PER_PASS, _inverted),
    RECONSTRUCTIONS: (2.1e-4, _reconstructed),
    "embeddings": (4.5e-4, lambda stage: _drawn(stage.inputs["data"])),
    "judge_evaluator": (4.0e-4, _reconstructed),
    "judge_embedder": (1.1e-3, _reconstructed),
    "strangers": (4.5e-4, _strange),
    "projected": (1.2e-4, _projected),
    "judge_verification": (4.0e-4, _reconstructed),
    "judge_prior_reach": (1.8e-3, _photographs),
    "judge_membership": (6.0e-5, _asked_about),
    "knowledge": (1.2, _learnt),
    "toy": (10.0, lambda stage: 1.0),
}
"""Kind of stage -> seconds per unit, and how many units a stage is of."""


def reference_s(stage: Stage) -> float | None:
    """Seconds that such a stage took on `MACHINE`; None where there is no rate for it."""
    if stage.name not in RATES:
        return None
    rate, units = RATES[stage.name]
    count = units(stage)
    return None if count is None else rate * count


def borrowed(
    stages: Iterable[Stage], history: History, held: Callable[[Stage], float] = lambda _: 1.0
) -> tuple[float, int]:
    """(device-seconds by the rates, stages without a rate) of those stages that this store has never measured."""
    seconds, without = 0.0, 0
    for stage in stages:
        if history.expected(stage) is None:
            of_stage = reference_s(stage)
            seconds, without = seconds + held(stage) * (of_stage or 0.0), without + (of_stage is None)
    return seconds, without


def borrowed_forecast(
    shared: Iterable[Stage],
    steps: Iterable[tuple[int, Sequence[Sequence[Stage]]]],
    history: History,
    held: Callable[[Stage], float],
) -> tuple[float, int]:
    """As `borrowed`, of recipes that a search may still propose (`planning.plan.SearchForecast`): each sample of a step
    stands for an equal part of its recipes."""
    seconds, without = borrowed(shared, history, held)
    for count, samples in steps:
        lent = [borrowed(sample, history, held) for sample in samples]
        if lent:
            seconds += count * sum(seconds_lent for seconds_lent, _ in lent) / len(lent)
            without += count * max(stages_without for _, stages_without in lent)
    return seconds, without


def rated(
    total: tuple[float, float, float, int], lent: tuple[float, int], capped: float | None = None
) -> dict[str, Any]:
    """What these rates say of a cost, for a plan.

    `about`: where they tell all that this store has not measured; `partly`: where they tell half of its stages or more,
    since the rest says little of the whole; else null.

    Args:
        total: Device-seconds that this store knows (mean, least, most), and of how many stages it knows nothing.
        lent: What `borrowed` says of those.
        capped: Device-seconds that a budget leaves, None without one.
    """
    (mean, _, _, unknown), (seconds, without) = total, lent
    hours = min(mean + seconds, math.inf if capped is None else capped) / 3600
    forecast = {"hours": hours, "stages": unknown, "machine": MACHINE}
    some = bool(unknown and without and seconds) and 2 * without <= unknown
    return {
        "about": forecast if unknown and not without else None,
        "partly": {**forecast, "without": without} if some else None,
    }
