"""What stages cost: measured in this store, else by shipped rates, else by what others state. Unknown stays unknown.

A shipped rate says how long one unit of a stage's work takes, and the unit is counted from the configuration. What
cannot be counted (images of a folder, a defense with steps of its own, a part of an attack that is not listed) has no
rate, and its cost stays unknown. Such a number is told as what it is, "about, from another machine"; a run asks for
confirmation by it where the store itself has not measured enough.

A stated rate is one that its source states for the same kind of work on GPUs; nothing is added to it. Work without a
stated rate has no number, and the text says which work that is.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from smoothsweep.core.attacks.registry import PARTS
from smoothsweep.core.attacks.shared.base import StatedWork
from smoothsweep.core.checks import present
from smoothsweep.core.data.names import PUBLISHED_NAMES
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

OF_BOTH = {
    *("architecture", "image_size", "size", "identities", "per_identity", "train_per_class", "samples_per_class"),
    *("kind", "components", "network"),
}
COST_DRIVERS = frozenset(
    {
        *("epochs", "batch_size", "workers", "steps", "loss", "selected", "candidates", "selection_repeats"),
        *("precision", "defense"),
        *OF_BOTH,
    }
)
INPUT_DRIVERS = frozenset({"name", "content", "classes", *OF_BOTH})
"""What of an input makes it dearer to read: a target's epochs do not, its architecture does."""
READ_AT_MOST = 200  # manifests per kind of stage; the newest tell enough


class DeviceTime(NamedTuple):
    """Device-seconds of some stages.

    Attributes:
        mean, least, most: What this store knows of such stages.
        unknown: Stages that it has never measured.
        lent: Device-seconds of those by the shipped rates.
        without: How many of them have no rate either.
    """

    mean: float = 0.0
    least: float = 0.0
    most: float = 0.0
    unknown: int = 0
    lent: float = 0.0
    without: int = 0


def total_of(times: Iterable[DeviceTime]) -> DeviceTime:
    """All of them together."""
    return DeviceTime(*map(sum, zip(DeviceTime(), *times, strict=True)))


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
        self._described: dict[tuple[str, frozenset[str]], str] = {}
        self._read: set[str] = set()

    def read(self, kinds: Iterable[str]) -> None:
        """Read the manifests of these kinds of stages, those that were read before left out."""
        for kind in {*kinds} - self._read:
            self._read.add(kind)
            for manifest in () if self._store is None else self._store.newest(kind, READ_AT_MOST):
                with contextlib.suppress(ValueError, KeyError):  # of another version: a measurement less
                    inputs = [self._input_of_manifest(*item) for item in sorted(manifest["inputs"].items())]
                    key = described(kind, manifest["config"], COST_DRIVERS, inputs)
                    self._note(key, kind, float(manifest["seconds"]))
                    if device := manifest.get("device"):
                        self._devices[kind].add(str(device).split(":")[0])

    def add_stage(self, stage: Stage, seconds: float) -> None:
        """Note a stage that has been finished since."""
        self.read([stage.name])
        self._note(self._description(stage, COST_DRIVERS), stage.name, seconds)

    def devices(self, kind: str) -> set[str]:
        """The devices ('cpu', 'cuda') that such stages were measured on."""
        self.read([kind])
        return self._devices.get(kind, set())

    def expected(self, stage: Stage) -> tuple[float, float, float] | None:
        """(mean, least, most) seconds of such stages so far, or None."""
        self.read([stage.name])
        seen = self._seconds.get(self._description(stage, COST_DRIVERS)) if stage.name in self._seconds else None
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
            held, expected = devices_held(stage), self.expected(stage)
            if expected is not None:
                mean, least, most = expected
                times.append(DeviceTime(held * mean, held * least, held * most))
            else:
                rated = reference_s(stage)
                times.append(DeviceTime(unknown=1, lent=held * (rated or 0.0), without=rated is None))
        return total_of(times)

    def _note(self, description: str, kind: str, seconds: float) -> None:
        self._seconds[description].append(seconds)
        self._seconds[kind].append(seconds)

    def _description(self, stage: Stage, drivers: frozenset[str]) -> str:
        key = stage.fingerprint, drivers
        if key not in self._described:
            inputs = [(role, self._description(source, INPUT_DRIVERS)) for role, source in sorted(stage.inputs.items())]
            self._described[key] = described(stage.name, stage.config, drivers, inputs)
        return self._described[key]

    def _input_of_manifest(self, role: str, source: dict[str, str]) -> tuple[str, str]:
        """The description of an input that the store knows; an input that is gone is like no other."""
        fingerprint = source["fingerprint"]
        if fingerprint in self._known:
            return role, self._description(self._known[fingerprint], INPUT_DRIVERS)
        key = fingerprint, INPUT_DRIVERS
        if key not in self._described:
            self._described[key] = fingerprint  # also while it is read: it may name itself
            with contextlib.suppress(OSError, Damage, ValueError, KeyError, RecursionError):
                manifest = present(self._store, "store").manifest_of(source["stage"], fingerprint)
                inputs = [self._input_of_manifest(*item) for item in sorted(manifest["inputs"].items())]
                self._described[key] = described(manifest["stage"], manifest["config"], INPUT_DRIVERS, inputs)
        return role, self._described[key]


def described(kind: str, config: Mapping[str, Any], keys: frozenset[str], inputs: list[tuple[str, str]]) -> str:
    """A digest of what decides the cost of a stage, and of what it reads: a long chain of inputs stays short.

    Of a defense its kind decides, of a list of classes its length. Of an attack and its parts all counts and choices
    do: an attack that adds one need not say which.
    """
    of_attack = keys is COST_DRIVERS and (kind == "attack" or kind in PARTS)
    drivers = _counts_and_choices(config) if of_attack else {key: config[key] for key in keys & config.keys()}
    if isinstance(drivers.get("defense"), Mapping):
        drivers["defense"] = drivers["defense"].get("kind")
    if isinstance(drivers.get("classes"), list | tuple):
        drivers["classes"] = len(drivers["classes"])
    return sha256(repr(((kind, canonical_json(drivers)), inputs)).encode()).hexdigest()


def _counts_and_choices(config: Mapping[str, Any]) -> dict[str, Any]:
    """Whole numbers, words and switches; not seeds, nor what is measured in fractions, such as a learning rate."""
    drivers = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            drivers[key] = _counts_and_choices(value)
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

Units = Callable[[Stage], float | None]


def _drawn(stage: Stage) -> float | None:
    """Synthetic images drawn, in those of 64 pixels."""
    config = stage.config
    if config.get("kind") != "synthetic":
        return None
    per_class = config.get("per_identity") or config["train_per_class"] + config["test_per_class"]
    return config["identities"] * per_class * (config["size"] / 64.0) ** 2


def _is_small(*made: Mapping[str, Stage]) -> bool:
    """Whether what the rates are of was read: images of eigenfaces, a target of the small network."""
    small = {"prior": ("kind", "eigenfaces"), "target": ("architecture", "resnet_small")}
    known = ((stage.config, *small[name]) for inputs in made for name, stage in inputs.items() if name in small)
    return all(config.get(key) == value for config, key, value in known)


def _pooled(stage: Stage) -> float | None:
    """Latents of a pool of the small prior, which a small target looks at."""
    pool = stage.inputs.get("pool", stage)
    return pool.config["settings"].get("size") if _is_small(pool.inputs, stage.inputs) else None


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


def _epochs(config: Mapping[str, Any], images: float | None) -> float | None:
    rate = PER_IMAGE_TRAINED.get(config["architecture"])
    if rate is None or images is None:
        return None
    return rate * config["epochs"] * images * (config["image_size"] / PER_SIDE) ** 2


def _inverted(stage: Stage) -> float | None:
    """Passes of candidates of Plug & Play, in those of 32 pixels."""
    classes, config = _attacked(stage), stage.config
    if classes is None or config["kind"] != "ppa" or not _is_small(stage.inputs):
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
    "prior": (5.5e-4, lambda stage: _drawn(stage.inputs["public"]) if _is_small({"prior": stage}) else None),
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
    "knowledge": (1.2, lambda stage: _epochs(stage.config, _reconstructed(stage))),  # the training of a surrogate
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


GPUS = 4


def before_data(plan: Plan, absent: Mapping[str, str], price: float | None) -> dict[str, Any]:
    """Keys of a plan's summary: `cards`, counts of data that are not there; `stated_cost`, null where no rate suits.

    Args:
        absent: Key of the sweep file -> place where nothing lies.
        price: Dollars per device-hour.
    """
    settings = [trial.settings for trial in plan.trials if isinstance(trial.settings, InversionSweep)]
    kinds = dict.fromkeys(sweep.data.kind for sweep in settings) if "data.path" in absent else {}
    return {
        "cards": [_card(kind) for kind in kinds if kind in PUBLISHED_NAMES],
        "stated_cost": _stated(plan, price),
    }


def _card(kind: str) -> dict[str, Any]:
    row = PUBLISHED_NAMES[kind]
    what, (classes, source), (images, recorded) = row.what, row.classes, row.images
    train = None if row.training is None else row.training[0]
    counts = {what: {"count": classes, "source": source}, "images": {"count": images, "source": recorded}}
    return {"data": kind, **counts, "training_images": train}


def _stated(plan: Plan, price: float | None) -> dict[str, Any] | None:
    """Attacks that must run, that this store has not measured, and that a rate suits, by their size."""
    missing = {stage.fingerprint for stage in plan.missing if plan.history.expected(stage) is None}
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
    side = work.rate.side
    if prior_is_absent(settings):
        fits = work.crop is not None and side // 2 < work.crop <= side
    else:
        fits = prior_card(settings).config.resolution == side
    return (classes, work) if fits else None
