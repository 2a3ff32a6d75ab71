"""A stage: one pure step of a trial, identified by what goes into it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from smoothsweep.tasks.registry import task


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage:
    """Stage name, the part of the configuration it depends on, and the stages whose artifacts it reads.

    Two stages with the same fingerprint are the same work: whoever needs one finds the other's artifact.
    hints: what a worker needs and no result depends on (where a file lies, how often to checkpoint).
    """

    name: str
    config: Mapping[str, Any]
    hints: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Stage] = field(default_factory=dict)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the canonical JSON of name, version, configuration and input fingerprints."""
        return hashlib.sha256(canonical_json(self.identity()).encode()).hexdigest()

    def identity(self) -> dict[str, Any]:
        return {
            "stage": self.name,
            "version": task(self.name).version,
            "config": self.config,
            "inputs": {name: stage.fingerprint for name, stage in self.inputs.items()},
        }

    @property
    def label(self) -> str:
        return f"{self.name} {self.fingerprint[:8]}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stage) and other.fingerprint == self.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces; NaN and infinity are refused, floats are written by repr."""
    return _CANONICAL.encode(value)


def with_ancestors(stages: Iterator[Stage] | list[Stage]) -> list[Stage]:
    """Every stage and all it depends on, inputs before those who read them, each once."""
    ordered: dict[str, Stage] = {}

    def visit(stage: Stage) -> None:
        if stage.fingerprint not in ordered:
            for source in stage.inputs.values():
                visit(source)
            ordered[stage.fingerprint] = stage

    for stage in stages:
        visit(stage)
    return list(ordered.values())
