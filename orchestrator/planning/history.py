"""What stages have cost so far: the base of every forecast. Unknown stays unknown."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from smoothsweep.core.attacks.registry import PARTS
from smoothsweep.orchestrator.stages.stage import Stage, canonical_json
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.manifests import Damage

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
