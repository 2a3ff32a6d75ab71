"""What stages have cost so far: the base of every forecast. Unknown stays unknown."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from statistics import mean
from typing import Any

from orchestrator.stage import Stage, canonical_json
from orchestrator.store import MANIFEST, Store

COST_DRIVERS = (
    "architecture", "image_size", "epochs", "batch_size", "workers", "steps", "loss", "selected", "candidates",
    "size", "identities", "per_identity", "train_per_class", "kind", "components", "kimg", "network",
)  # fmt: skip
READ_AT_MOST = 200  # manifests per kind of stage; the newest tell enough


class History:
    """Seconds that finished stages of the same kind and size took in this store."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, stage_name: str, config: dict[str, Any], seconds: float) -> None:
        self._seconds[_key(stage_name, config)].append(seconds)

    def expected(self, stage: Stage) -> tuple[float, float, float] | None:
        """(mean, least, most) seconds of such stages so far, or None."""
        seen = self._seconds.get(_key(stage.name, dict(stage.config)))
        return (mean(seen), min(seen), max(seen)) if seen else None

    def total(self, stages: Iterable[Stage]) -> tuple[float, float, float, int]:
        """Summed (mean, least, most) seconds over the stages, and how many of them are of unknown cost."""
        known = [(stage, self.expected(stage)) for stage in stages]
        sums = [sum(e[i] for _, e in known if e) for i in range(3)]
        return sums[0], sums[1], sums[2], sum(e is None for _, e in known)


def read_history(store: Store, names: Iterable[str]) -> History:
    """Read the newest manifests of these kinds of stages."""
    history = History()
    for name in names:
        folders = store.root.joinpath(name).glob(f"*/{MANIFEST}")
        newest = sorted(folders, key=lambda path: path.stat().st_mtime, reverse=True)[:READ_AT_MOST]
        for path in newest:
            manifest = json.loads(path.read_text())
            history.add(name, manifest["config"], manifest["seconds"])
    return history


def _key(name: str, config: dict[str, Any]) -> tuple[str, str]:
    return name, canonical_json({key: config[key] for key in COST_DRIVERS if key in config})
