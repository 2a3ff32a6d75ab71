"""What stages cost: measured in this store, else by shipped rates, else by what others state. Unknown stays unknown.

A shipped rate says how long one unit of a stage's work takes, and the unit is counted from the configuration. What
cannot be counted (images of a folder, a defense with steps of its own, a part of an attack that is not listed) has no
rate, and its cost stays unknown. Time by these rates is told as what it is, "about, from another machine".

A stated rate is one that its source states for the same kind of work on GPUs; nothing is added to it. Work without a
stated rate has no number, and the text says which work that is.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from smoothsweep.core.attacks.shared.base import StatedWork
from smoothsweep.core.checks import present
from smoothsweep.core.judges.base import RECONSTRUCTIONS
from smoothsweep.core.judges.membership import Membership
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.stages.graph import prior_card, prior_is_absent
from smoothsweep.orchestrator.stages.stage import Stage, canonical_json
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.manifests import Damage
from smoothsweep.sweeps.schema import InversionSweep, known_classes

if TYPE_CHECKING:
    from smoothsweep.orchestrator.planning.plan import Plan

INPUT_DRIVERS = frozenset(
    {
        *("architecture", "image_size", "size", "identities", "per_identity", "train_per_class", "samples_per_class"),
        *("name", "content", "classes", "kind", "components", "network"),
    }
)
"""What of an input makes it dearer to read: a target's epochs do not, its architecture does."""
READ_AT_MOST = 200  # manifests per kind of stage; the newest tell enough

Drivers = Callable[[Mapping[str, Any]], Mapping[str, Any]]  # of a configuration, what decides the cost


class DeviceTime(NamedTuple):
    """Device-seconds of some stages.

    Attributes:
        mean, least, most: By what this store has measured of such stages.
        rated: By the shipped rates, of those that it has not measured.
        unknown: How many of them have no rate either.
    """

    mean: float = 0.0
    least: float = 0.0
    most: float = 0.0
    rated: float = 0.0
    unknown: int = 0


def total_of(times: Iterable[DeviceTime]) -> DeviceTime:
    """All of them together."""
    return DeviceTime(*map(sum, zip(DeviceTime(), *times, strict=True)))


def stored_stage(store: Store, kind: str, fingerprint: str, known: dict[str, Stage]) -> Stage:
    """The stage of a manifest, by what the manifests of its inputs say; one that is gone or damaged is like no other.

    known: fingerprint -> stage, of those read so far. Another version of the code may give the stage another one.
    """
    if fingerprint not in known:
        known[fingerprint] = Stage(
            name=kind, config={"content": fingerprint}
        )  # also while it is read: it may name itself
        with contextlib.suppress(OSError, Damage, ValueError, KeyError, AttributeError, TypeError, RecursionError):
            manifest = store.manifest_of(kind, fingerprint)
            known[fingerprint] = Stage(name=kind, config=manifest["config"], inputs=_inputs(store, manifest, known))
    return known[fingerprint]


def _inputs(store: Store, manifest: Mapping[str, Any], known: dict[str, Stage]) -> dict[str, Stage]:
    told = manifest["inputs"].items()
    return {role: stored_stage(store, source["stage"], source["fingerprint"], known) for role, source in told}


class History:
    """Seconds that finished stages of a store took which are alike in kind, size and what they read.

    Manifests of a kind are read, the newest of them, when it is first asked for. Without a store nothing is known.
    known: stages that manifests may name as inputs, whether or not their artifacts are still in the store.
    """

    def __init__(self, store: Store | None = None, known: Iterable[Stage] = ()) -> None:
        self._store, self._known = store, {stage.fingerprint: stage for stage in known}
        self._seconds: dict[str, list[float]] = defaultdict(list)  # of alike stages by description, of all by kind
        self._devices: dict[str, set[str]] = defaultdict(set)
        # By fingerprint, forecasts ask for the same stages again and again; and as what: by itself, or as an input.
        self._described: dict[tuple[str, Drivers], str] = {}
        self._read: set[str] = set()

    def read(self, kinds: Iterable[str]) -> None:
        """Read the manifests of these kinds of stages, those that were read before left out."""
        for kind in {*kinds} - self._read:
            self._read.add(kind)
            for manifest in () if self._store is None else self._store.newest(kind, READ_AT_MOST):
                with contextlib.suppress(ValueError, KeyError):  # of another version: a measurement less
                    inputs = _inputs(present(self._store, "store"), manifest, self._known)
                    stage = Stage(name=kind, config=manifest["config"], inputs=inputs)
                    self._note(self._description(stage, _drivers), kind, float(manifest["seconds"]))
                    if device := manifest.get("device"):
                        self._devices[kind].add(str(device).split(":")[0])

    def add_stage(self, stage: Stage, seconds: float) -> None:
        """Note a stage that has been finished since."""
        self.read([stage.name])
        self._note(self._description(stage, _drivers), stage.name, seconds)

    def devices(self, kind: str) -> set[str]:
        """The devices ('cpu', 'cuda') that such stages were measured on."""
        self.read([kind])
        return self._devices.get(kind, set())

    def expected(self, stage: Stage) -> tuple[float, float, float] | None:
        """(mean, least, most) seconds of such stages so far, or None."""
        self.read([stage.name])
        seen = self._seconds.get(self._description(stage, _drivers)) if stage.name in self._seconds else None
        return (sum(seen) / len(seen), min(seen), max(seen)) if seen else None

    def usual(self, kind: str) -> float | None:
        """Mean seconds of all such stages so far, however unlike; None where there are none."""
        self.read([kind])
        seen = self._seconds.get(kind)
        return sum(seen) / len(seen) if seen else None

    def total(self, stages: Iterable[Stage], devices_held: Callable[[Stage], float] = lambda _: 1.0) -> DeviceTime:
        """Device-time of these stages together.

        devices_held: how many devices such a stage occupies while it runs; the default counts plain seconds.
        """
        times = []
        for stage in stages:
            held = devices_held(stage)
            if (expected := self.expected(stage)) is not None:
                mean, least, most = expected
                times.append(DeviceTime(held * mean, held * least, held * most))
            else:
                rated = reference_s(stage)
                times.append(DeviceTime(rated=held * (rated or 0.0), unknown=rated is None))
        return total_of(times)

    def _note(self, description: str, kind: str, seconds: float) -> None:
        self._seconds[description].append(seconds)
        self._seconds[kind].append(seconds)

    def _description(self, stage: Stage, drivers: Drivers) -> str:
        key = stage.fingerprint, drivers
        if key not in self._described:
            inputs = [(role, self._description(source, _of_input)) for role, source in sorted(stage.inputs.items())]
            told = repr(((stage.name, canonical_json(drivers(stage.config))), inputs))
            self._described[key] = sha256(told.encode()).hexdigest()  # a long chain of inputs stays short
        return self._described[key]


def _of_input(config: Mapping[str, Any]) -> dict[str, Any]:
    return _drivers({key: config[key] for key in INPUT_DRIVERS & config.keys()})


def _drivers(config: Mapping[str, Any]) -> dict[str, Any]:
    """Whole numbers, words and switches; not seeds, nor what is measured in fractions, such as a learning rate. Of a
    defense its kind, of a list of classes its length."""
    drivers = {}
    for key, value in config.items():
        if key == "defense" and isinstance(value, Mapping):
            drivers[key] = value.get("kind")
        elif isinstance(value, Mapping):
            drivers[key] = _drivers(value)
        elif key == "classes" and isinstance(value, list | tuple):
            drivers[key] = len(value)
        elif key == "classes" or (key != "seed" and isinstance(value, int | str)):
            drivers[key] = value
    return drivers


MACHINE = "an AMD EPYC, no GPU; on two cores half of it by the clock"
"""Where the rates are from: medians of the manifests of one `make demo`; those of verification, reach and membership
are from one small sweep on a slower machine, divided by what its other stages took longer there (five times)."""

PASSES_OF_A_STEP = 3  # a step of training or descent goes forward and back; the rates are per image and pass forward
PER_IMAGE_TRAINED = {"resnet_small": 7.8e-4, "vgg_small": 6.3e-4}  # seconds per image and epoch, at 32 pixels
PER_PASS = 4.8e-4  # of an image through eigenfaces and resnet_small, at 32 pixels
PER_SIDE = 32.0
STEPS_OF_A_PROJECTION = 150  # of `core.priors.base`, which loads torch

UNKNOWN = math.nan  # units that cannot be counted: what is reckoned with them cannot be either


def _drawn(stage: Stage, most: float = math.inf) -> float:
    """Synthetic images drawn, or so many of them, in those of 64 pixels."""
    config = stage.config
    if config.get("kind") != "synthetic":
        return UNKNOWN
    per_class = config.get("per_identity") or config["train_per_class"] + config["test_per_class"]
    return min(most, config["identities"] * per_class) * (config["size"] / 64.0) ** 2


def _if_small(read: Mapping[str, Stage]) -> float:
    """1 where what the rates are of was read: images of eigenfaces, a target of the small network; else unknown."""
    small = {"prior": ("kind", "eigenfaces"), "target": ("architecture", "resnet_small")}
    known = ((read[name].config.get(key), value) for name, (key, value) in small.items() if name in read)
    return 1.0 if all(found == value for found, value in known) else UNKNOWN


def _pooled(stage: Stage) -> float:
    """Latents of a pool of the small prior, which a small target looks at."""
    pool = stage.inputs.get("pool", stage)
    return _if_small({**pool.inputs, **stage.inputs}) * (pool.config["settings"].get("size") or UNKNOWN)


def _people(stage: Stage) -> float:
    """Classes of the private images that a target, or what is made from it, knows; unknown where they are not drawn."""
    data = stage if stage.name == "data" else stage.inputs.get("data")
    if data is None:
        return _people(stage.inputs["target"]) if "target" in stage.inputs else UNKNOWN
    if data.config.get("kind") != "synthetic":
        return UNKNOWN
    return min(data.config["identities"], data.config.get("largest_classes") or math.inf)


def _trained(stage: Stage) -> float:
    """Seconds of a plain training."""
    people, config, data = _people(stage), stage.config, stage.inputs["data"].config
    defense = config.get("defense", {}).get("kind", "label_smoothing")
    if math.isnan(people) or defense != "label_smoothing" or config.get("workers", 1) > 1:
        return UNKNOWN
    per_class = config.get("samples_per_class") or data["train_per_class"]
    if "part" in config:  # of a shadow model, which is trained on a part of all images
        per_class = config["part"]["share"] * (data["train_per_class"] + data["test_per_class"])
    return _epochs(config, people * per_class)


def _epochs(config: Mapping[str, Any], images: float) -> float:
    rate = PER_IMAGE_TRAINED.get(config["architecture"], UNKNOWN)
    return rate * config["epochs"] * images * (config["image_size"] / PER_SIDE) ** 2


def _inverted(stage: Stage) -> float:
    """Passes of candidates of Plug & Play, in those of 32 pixels."""
    config, classes = stage.config, _if_small(stage.inputs) * _attacked(stage)
    if config["kind"] != "ppa" or math.isnan(classes):
        return UNKNOWN
    passes = PASSES_OF_A_STEP * config["steps"] + config["selection_repeats"]
    return classes * config["candidates"] * passes * (config["image_size"] / PER_SIDE) ** 2


def _attacked(stage: Stage) -> float:
    listed = stage.config["classes"]
    return listed if isinstance(listed, int) else _people(stage) if listed == "all" else len(listed)


def _reconstructed(stage: Stage) -> float:
    """Images in the reconstructions that a stage makes or reads."""
    attack = stage.inputs.get("attack") or stage.inputs[RECONSTRUCTIONS].inputs["attack"]
    return _attacked(attack) * (attack.config.get("selected") or UNKNOWN)


def _photographs(stage: Stage) -> float:
    """Private photographs that are projected, or were."""
    projected = stage.inputs.get("projected", stage)
    data = projected.inputs["data"].config
    if data.get("kind") != "synthetic":
        return UNKNOWN
    return min(projected.config["images"], data["identities"] * data["test_per_class"])


def _projected(stage: Stage) -> float:
    """Passes of a projection into the small prior: one of an image in closed form, a descent's of a crop."""
    crop = stage.config.get("crop")
    passes = 1.0 if crop is None else PASSES_OF_A_STEP * STEPS_OF_A_PROJECTION * (crop / PER_SIDE) ** 2
    return _if_small(stage.inputs) * _photographs(stage) * passes


def _asked_about(stage: Stage) -> float:
    """Passes of images that attacks on membership ask about, in those of 32 pixels."""
    people, target, data = _people(stage), stage.inputs["target"].config, stage.inputs["data"].config
    if math.isnan(people) or target.get("architecture") not in PER_IMAGE_TRAINED:
        return UNKNOWN
    settings = Membership(**stage.config["settings"])
    members, others = people * data["train_per_class"], people * data["test_per_class"]
    by_labels = sum(min(each, settings.images or each) for each in (members, others))
    by_scores = 2 * (members + others) * (1 + settings.shadows)  # an image and its mirror image, of each model
    passes = by_scores + by_labels * (settings.copies + settings.levels)
    return passes * (target["image_size"] / PER_SIDE) ** 2


RATES: dict[str, tuple[float, Callable[[Stage], float]]] = {
    "data": (1.0e-3, _drawn),
    "public": (7.6e-4, _drawn),
    "prior": (
        5.5e-4,
        lambda stage: _drawn(stage.inputs["public"]) if stage.config["kind"] == "eigenfaces" else UNKNOWN,
    ),
    "pool": (1.2e-4, _pooled),
    "candidates": (4.0e-4, _pooled),
    "target": (1.0, _trained),
    "shadow": (1.0, _trained),
    "attack": (PER_PASS, _inverted),
    RECONSTRUCTIONS: (2.1e-4, _reconstructed),
    "embeddings": (4.5e-4, lambda stage: _drawn(stage.inputs["data"])),
    "judge_evaluator": (4.0e-4, _reconstructed),
    "judge_embedder": (1.1e-3, _reconstructed),
    "strangers": (4.5e-4, lambda stage: _drawn(stage.inputs["public"], stage.config["most"])),
    "projected": (1.2e-4, _projected),
    "judge_verification": (4.0e-4, _reconstructed),
    "judge_prior_reach": (1.8e-3, _photographs),
    "judge_membership": (6.0e-5, _asked_about),
    "knowledge": (1.2, lambda stage: _epochs(stage.config, _reconstructed(stage))),  # the training of a surrogate
    "toy": (10.0, lambda stage: 1.0),
}
"""Kind of stage -> seconds per unit, and how many units a stage is of."""


def reference_s(stage: Stage) -> float | None:
    """Seconds that such a stage took on `MACHINE`; None where there is no rate for it."""
    rate, units = RATES.get(stage.name, (UNKNOWN, lambda _: UNKNOWN))
    seconds = rate * units(stage)
    return None if math.isnan(seconds) else seconds


GPUS = 4


def stated_cost(plan: Plan, price: float | None) -> dict[str, Any] | None:
    """Attacks that must run, that this store has not measured, and that a rate suits, by their size; None for none.

    price: dollars per device-hour.
    """
    missing = {stage.fingerprint for stage in plan.missing if plan.history.expected(stage) is None}
    attacks = {stage.fingerprint: trial for trial in plan.trials for stage in trial.stages if stage.name == "attack"}
    sizes = Counter(size for name, trial in attacks.items() if name in missing and (size := _size_of_attack(trial)))
    if not sizes:
        return None
    works = [work for _, work in sizes]
    hours = sum(count * (classes * work.hours) for (classes, work), count in sizes.items())
    stated = {
        "attacks": [
            {
                "attacks": count,
                "latents": classes * work.latents,
                "steps": work.steps,
                "gpu_hours_each": classes * work.hours,
            }
            for (classes, work), count in sizes.items()
        ],
        "gpu_hours": hours,
        "days": hours / 24 / GPUS,
        "days_on": GPUS,
        "device": ", ".join(dict.fromkeys(work.device for work in works)),
        "rate": ", ".join(
            dict.fromkeys(f"{one.rate_hours:g} h for {one.rate_latents:,} latents on one {one.device}" for one in works)
        ),
        "source": "; ".join(dict.fromkeys(work.source for work in works)),
    }
    return stated if price is None else {**stated, "dollars": price * hours}


def _size_of_attack(trial: Trial) -> tuple[int, StatedWork] | None:
    """Classes of the trial's attack and the work of one; None where no rate is of such an attack.

    A rate is of priors that draw pictures of its size; of one that is not there the crop of the pool tells.
    """
    settings = trial.settings
    if not isinstance(settings, InversionSweep) or settings.attack is None:
        return None
    work = settings.attack.built.stated_work
    classes = known_classes(settings) if settings.classes == "all" else len(settings.classes)
    if work is None or classes is None or settings.prior is None or settings.prior.built.files is None:
        return None
    side = work.side
    if prior_is_absent(settings):
        fits = work.crop is not None and side // 2 < work.crop <= side
    else:
        fits = prior_card(settings).config.resolution == side
    return (classes, work) if fits else None
