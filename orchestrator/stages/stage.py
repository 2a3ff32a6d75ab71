"""A stage: one pure step of a trial, identified by what goes into it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from smoothsweep.tasks.registry import Task, task
from smoothsweep.tasks.stage_names import stage_label


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Stage:
    """Stage name, the part of the configuration it depends on, and the stages whose artifacts it reads.

    Two stages with the same fingerprint are the same work: a trial that needs one finds the other's artifact.
    hints: what a worker needs and no result depends on (where a file lies, how often to checkpoint).
    """

    name: str
    config: Mapping[str, Any]
    hints: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Stage] = field(default_factory=dict)
    _fingerprint: str | None = field(default=None, init=False, repr=False)

    @property
    def task(self) -> Task:
        """Its row in the table of tasks: what makes such stages, and on what. InputError for a name that has none."""
        return task(self.name)

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the canonical JSON of name, version, configuration and input fingerprints."""
        fingerprint = self._fingerprint
        if fingerprint is None:
            fingerprint = hashlib.sha256(canonical_json(self.identity()).encode()).hexdigest()
            object.__setattr__(self, "_fingerprint", fingerprint)
        return fingerprint

    def identity(self) -> dict[str, Any]:
        return {
            "stage": self.name,
            "version": self.task.version,
            "config": self.config,
            "inputs": {name: stage.fingerprint for name, stage in self.inputs.items()},
        }

    @property
    def label(self) -> str:
        return stage_label(self.name, self.fingerprint)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stage) and other.fingerprint == self.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces; NaN and infinity are refused, floats are written by repr."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def with_ancestors(stages: Iterator[Stage] | list[Stage]) -> list[Stage]:
    """Every stage and all it depends on, inputs before those who read them, each once."""
    ordered: dict[str, Stage] = {}

    def visit(stage: Stage) -> None:
        for source in stage.inputs.values():
            if source.fingerprint not in ordered:
                visit(source)
        ordered[stage.fingerprint] = stage

    for stage in stages:
        if stage.fingerprint not in ordered:
            visit(stage)
    return list(ordered.values())
