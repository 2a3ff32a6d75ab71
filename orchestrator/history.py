"""What stages have cost so far: the base of every forecast. Unknown stays unknown."""

from __future__ import annotations

import heapq
import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from orchestrator.stage import Stage, canonical_json
from orchestrator.store import MANIFEST, Store

COST_DRIVERS = (
    "architecture", "image_size", "epochs", "batch_size", "workers", "steps", "loss", "selected", "candidates",
    "size", "identities", "per_identity", "train_per_class", "kind", "components", "kimg", "network",
)  # fmt: skip
READ_AT_MOST = 200  # manifests per kind of stage; the newest tell enough


class History:
    """Seconds that finished stages of the same kind and size took in this store.

    devices: kind of stage -> the devices ('cpu', 'cuda') it was measured on.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], tuple[int, float, float, float]] = {}  # how many, their sum, least, most
        self._kinds: set[str] = set()
        self._keys: dict[str, tuple[str, str]] = {}  # by fingerprint: forecasts ask for the same stages again and again
        self.devices: dict[str, set[str]] = {}

    def add(self, stage_name: str, config: dict[str, Any], seconds: float) -> None:
        key = _key(stage_name, config)
        count, total, least, most = self._seen.get(key, (0, 0.0, seconds, seconds))
        self._seen[key] = (count + 1, total + seconds, min(least, seconds), max(most, seconds))
        self._kinds.add(stage_name)

    def expected(self, stage: Stage) -> tuple[float, float, float] | None:
        """(mean, least, most) seconds of such stages so far, or None."""
        if stage.name not in self._kinds:
            return None
        key = self._keys.get(stage.fingerprint)
        if key is None:
            key = self._keys[stage.fingerprint] = _key(stage.name, dict(stage.config))
        if key not in self._seen:
            return None
        count, total, least, most = self._seen[key]
        return total / count, least, most

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


def read_history(store: Store, names: Iterable[str]) -> History:
    """Read the newest manifests of these kinds of stages."""
    history = History()
    for name in names:
        for path in _newest_manifests(store, name):
            try:
                with open(path, encoding="utf-8") as file:
                    manifest = json.load(file)
                history.add(name, manifest["config"], float(manifest["seconds"]))
            except (FileNotFoundError, ValueError, KeyError, TypeError):
                continue  # deleted meanwhile, or damaged: a measurement less, and who reads the artifact will say so
            history.devices.setdefault(name, set()).add(str(manifest.get("device", "unknown")).split(":")[0])
    return history


def _newest_manifests(store: Store, name: str) -> list[str]:
    """Paths of the READ_AT_MOST newest manifests of finished stages of this kind."""
    found = []
    try:
        with os.scandir(store.root / name) as entries:
            for entry in entries:
                if len(entry.name) != 64:  # a draft or a work folder
                    continue
                path = os.path.join(entry.path, MANIFEST)
                try:
                    found.append((os.stat(path).st_mtime, path))
                except OSError:
                    continue  # not finished
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [path for _, path in heapq.nlargest(READ_AT_MOST, found)]


def _key(name: str, config: dict[str, Any]) -> tuple[str, str]:
    return name, canonical_json({key: config[key] for key in COST_DRIVERS if key in config})
