"""A stage: one pure step of a trial, identified by what goes into it; and which code made an artifact."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import tomllib
from collections.abc import Collection, Generator, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from smoothsweep.core.errors import InputError
from smoothsweep.core.same_code import TREE, code_digest
from smoothsweep.tasks.planned_files import content_at
from smoothsweep.tasks.registry import Task, stage_label, task


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


READ_LATER = ("data.path", "public.path", "prior.path")
"""Keys whose files a plan may be made without."""

NOTHING_AT = "nothing at "
"""How the content begins of files that a plan is made without."""

_ABSENT: ContextVar[dict[str, str] | None] = ContextVar("files that are not there", default=None)


@contextlib.contextmanager
def files_may_be_absent() -> Generator[dict[str, str]]:
    """Within it data and priors that lie nowhere have a content that is not known: enough for a plan.

    Gives a mapping, filled as stages are looked at: key of the sweep file -> the place where nothing is.
    """
    absent: dict[str, str] = {}
    token = _ABSENT.set(absent)
    try:
        yield absent
    finally:
        _ABSENT.reset(token)


def normalised(settings: BaseModel, *, without: Collection[str] = ()) -> dict[str, Any]:
    """The settings as JSON values: null fields left out, so that a new optional key keeps old fingerprints."""
    return settings.model_dump(mode="json", exclude_none=True, exclude=set(without))


def is_absent(path: str | Path, key: str) -> bool:
    """Whether nothing lies there, and what is being planned may do without it."""
    return _ABSENT.get() is not None and key in READ_LATER and not Path(path).expanduser().exists()


def content_of(path: str | Path | None, key: str, *, any_files: bool = False) -> dict[str, str]:
    """{'content': SHA-256 of the file or folder} for a path, {} for none. InputError naming `key` if it is not there.

    A folder of pictures may hold nothing else, unless `any_files`: published data sets come with lists.
    """
    if path is None:
        return {}
    place = Path(path).expanduser().resolve()
    if (absent := _ABSENT.get()) is not None and is_absent(place, key):
        absent[key] = str(place)
        return {"content": f"{NOTHING_AT}{place}"}
    if not place.exists():
        raise InputError(f"{key}: expected a file or folder, got nothing at {place}")
    return {"content": _digest(str(place), any_files)}


def lacks_files(config: Mapping[str, Any]) -> bool:
    """Whether this stage's own files are nowhere: what they hold cannot be checked yet."""
    return str(config.get("content", "")).startswith(NOTHING_AT)


@lru_cache(maxsize=256)
def _digest(path: str, any_files: bool) -> str:
    """The content's digest as this process saw it first: all stages of one command are planned on the same."""
    return content_at(Path(path), any_files=any_files)


CODE_VERSION_VARIABLE = "SMOOTHSWEEP_CODE_VERSION"


def released_version() -> str:
    """The version of the package: of the sources beside us where they say it, else of what is installed."""
    project = TREE / "pyproject.toml"
    if project.is_file():
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
    return version("smoothsweep")


def code_version() -> str:
    """The commit of this source tree (with + when changed), or a digest of the sources where there is no git."""
    return os.environ.get(CODE_VERSION_VARIABLE) or version_of_tree(TREE)


@lru_cache(maxsize=1)
def version_of_tree(tree: Path) -> str:
    """As `code_version`, of any tree."""
    if (tree / ".git").exists() and shutil.which("git"):
        command = ["git", "-C", str(tree), "describe", "--always", "--dirty=+", "--abbrev=12"]
        described = subprocess.run(command, capture_output=True, text=True, check=False)
        if described.returncode == 0:
            return described.stdout.strip()
    return f"source-{code_digest(tree)[:12]}"
