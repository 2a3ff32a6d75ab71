"""What stages have cost so far: the base of every forecast. Unknown stays unknown."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from smoothsweep.core.attacks.registry import PARTS
from smoothsweep.core.attacks.shared.base import StatedWork
from smoothsweep.core.data.names import PUBLISHED_NAMES
from smoothsweep.core.judges.base import RECONSTRUCTIONS
from smoothsweep.core.judges.membership import Membership
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.stages.images import prior_card, prior_is_absent
from smoothsweep.orchestrator.stages.stage import Stage, canonical_json
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.manifests import Damage
from smoothsweep.sweeps.schema import InversionSweep, known_classes

if TYPE_CHECKING:
    from smoothsweep.orchestrator.planning.plan import Plan

COST_DRIVERS = (
    "architecture",
    "image_size",
    "epochs",
    "batch_size",
    "workers",
    "steps",
    "loss",
    "selected",
    "candidates",
    "size",
    "identities",
    "per_identity",
    "train_per_class",
    "kind",
    "components",
    "network",
    "selection_repeats",
    "precision",
    "samples_per_class",
    "defense",
)
INPUT_DRIVERS = (  # what of an input makes it dearer to read: a target's epochs do not, its architecture does
    "architecture",
    "image_size",
    "size",
    "identities",
    "per_identity",
    "train_per_class",
    "samples_per_class",
    "kind",
    "components",
    "network",
    "name",
    "content",
    "classes",
)
READ_AT_MOST = 200  # manifests per kind of stage; the newest tell enough

Key = tuple[object, tuple[tuple[str, int], ...]]  # what drives the cost of the stage itself, and of each input


class History:
    """Seconds that finished stages took which are alike in kind, size and what they read.

    devices: kind of stage -> the devices ('cpu', 'cuda') it was measured on.
    """

    def __init__(self, known: Iterable[Stage] = ()) -> None:
        """known: stages that manifests may name as inputs, whether or not their artifacts are still in the store."""
        self._known = {stage.fingerprint: stage for stage in known}
        self._seen: dict[object, tuple[int, float, float, float]] = {}  # how many, their sum, least, most
        self._kinds: dict[str, tuple[int, float]] = {}  # how many, their sum
        self._numbers: dict[object, int] = {}  # of equal descriptions: a long chain of inputs is one number
        self._keys: dict[str, Key] = {}  # by fingerprint: forecasts ask for the same stages again and again
        self._inputs: dict[str, int] = {}  # by fingerprint
        self.devices: dict[str, set[str]] = {}

    def add(self, stage_name: str, config: dict[str, Any], seconds: float) -> None:
        """Note a stage of which we know the configuration alone; it counts where nothing more alike was measured."""
        self._add(_drivers(stage_name, config, COST_DRIVERS), stage_name, seconds)

    def add_stage(self, stage: Stage, seconds: float) -> None:
        """Note a finished stage."""
        self._add(self._key(stage), stage.name, seconds)

    def add_manifest(self, store: Store, manifest: dict[str, Any]) -> None:
        """Note a finished stage by its manifest and those of its inputs. KeyError where something is missing in it."""
        name, config = manifest["stage"], manifest["config"]
        inputs = tuple(self._input_of_manifest(store, *item) for item in sorted(manifest["inputs"].items()))
        self._add((_drivers(name, config, COST_DRIVERS), inputs), name, float(manifest["seconds"]))
        if device := manifest.get("device"):
            self.devices.setdefault(name, set()).add(str(device).split(":")[0])

    def expected(self, stage: Stage) -> tuple[float, float, float] | None:
        """(mean, least, most) seconds of such stages so far, or None."""
        if stage.name not in self._kinds:
            return None
        key = self._key(stage)
        seen = self._seen.get(key) or self._seen.get(key[0])
        return (seen[1] / seen[0], seen[2], seen[3]) if seen else None

    def usual(self, kind: str) -> float | None:
        """Mean seconds of all such stages so far, however unlike; None where there are none."""
        known, sum_s = self._kinds.get(kind, (0, 0.0))
        return sum_s / known if known else None

    def _add(self, key: object, kind: str, seconds: float) -> None:
        count, total, least, most = self._seen.get(key, (0, 0.0, seconds, seconds))
        self._seen[key] = (count + 1, total + seconds, min(least, seconds), max(most, seconds))
        known, sum_s = self._kinds.get(kind, (0, 0.0))
        self._kinds[kind] = known + 1, sum_s + seconds

    def _key(self, stage: Stage) -> Key:
        key = self._keys.get(stage.fingerprint)
        if key is None:
            inputs = tuple((name, self._input(source)) for name, source in sorted(stage.inputs.items()))
            key = self._keys[stage.fingerprint] = (_drivers(stage.name, stage.config, COST_DRIVERS), inputs)
        return key

    def _input(self, stage: Stage) -> int:
        number = self._inputs.get(stage.fingerprint)
        if number is None:
            inputs = tuple((name, self._input(source)) for name, source in sorted(stage.inputs.items()))
            number = self._number((_drivers(stage.name, stage.config, INPUT_DRIVERS), inputs))
            self._inputs[stage.fingerprint] = number
        return number

    def _input_of_manifest(self, store: Store, name: str, source: dict[str, str]) -> tuple[str, int]:
        """The number of an input that the store knows; an input that is gone is like no other."""
        fingerprint = source["fingerprint"]
        if fingerprint in self._known:
            return name, self._input(self._known[fingerprint])
        if fingerprint not in self._inputs:
            description: object = fingerprint
            self._inputs[fingerprint] = self._number(description)  # also while it is read: it may name itself
            with contextlib.suppress(OSError, Damage, ValueError, KeyError, RecursionError):
                manifest = store.manifest_of(source["stage"], fingerprint)
                inputs = tuple(self._input_of_manifest(store, *item) for item in sorted(manifest["inputs"].items()))
                description = (_drivers(manifest["stage"], manifest["config"], INPUT_DRIVERS), inputs)
            self._inputs[fingerprint] = self._number(description)
        return name, self._inputs[fingerprint]

    def _number(self, description: object) -> int:
        return self._numbers.setdefault(description, len(self._numbers))

    def total(
        self, stages: Iterable[Stage], devices_held: Callable[[Stage], float] = lambda _: 1.0
    ) -> tuple[float, float, float, int]:
        """Summed (mean, least, most) device-seconds over the stages, and how many of them are of unknown cost.

        devices_held: how many devices such a stage occupies while it runs; the default counts plain seconds.
        """
        mean = least = most = 0.0
        unknown = 0
        for stage in stages:
            expected = self.expected(stage)
            if expected is None:
                unknown += 1
                continue
            held = devices_held(stage)
            mean += held * expected[0]
            least += held * expected[1]
            most += held * expected[2]
        return mean, least, most, unknown


def read_history(store: Store, names: Iterable[str], known: Iterable[Stage] = ()) -> History:
    """Read the newest manifests of these kinds of stages. known: the sweep's own stages, some perhaps deleted."""
    history = History(known)
    for name in names:
        for manifest in store.newest(name, READ_AT_MOST):
            with contextlib.suppress(ValueError, KeyError):  # of another version: a measurement less
                history.add_manifest(store, manifest)
    return history


def _drivers(name: str, config: Mapping[str, Any], keys: Iterable[str]) -> tuple[str, str]:
    """What of a configuration decides the cost: of a defense its kind, of a list of classes its length.

    Of an attack and its parts all counts and choices do: an attack that adds one need not say which.
    """
    of_attack = keys is COST_DRIVERS and (name == "attack" or name in PARTS)
    drivers = _counts_and_choices(config) if of_attack else {key: config[key] for key in keys if key in config}
    if isinstance(drivers.get("defense"), Mapping):
        drivers["defense"] = drivers["defense"].get("kind")
    if isinstance(drivers.get("classes"), list | tuple):
        drivers["classes"] = len(drivers["classes"])
    return name, canonical_json(drivers)


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
