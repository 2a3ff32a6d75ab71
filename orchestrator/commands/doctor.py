"""Examine what this machine can run, and what it lacks."""

from __future__ import annotations

import os
import shutil
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from smoothsweep.core import screen
from smoothsweep.core.allotted import allotted_cpus, available_memory
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.embedder_kinds import KINDS as EMBEDDERS
from smoothsweep.core.plugins import FAMILIES, are_broken, plugins
from smoothsweep.core.priors.settings import SHIPPED
from smoothsweep.core.same_code import TREE
from smoothsweep.core.text import printable
from smoothsweep.orchestrator.commands.requests import DoctorRequest, PluginsRequest
from smoothsweep.orchestrator.store.opening import open_store

PACKAGES = [
    "torch",
    "torchvision",
    "ray",
    "mlflow",
    "pyarrow",
    "pandas",
    "facenet-pytorch",
    "safetensors",
    "scikit-learn",
]
GIB = 2**30


class Finding(NamedTuple):
    """One line of the examination. needed: without it the demo does not run."""

    fine: bool
    needed: bool
    text: str


def print_findings(request: DoctorRequest) -> int:
    """0 where all that is needed is there, 1 where something is missing."""
    findings = examine(request.store)
    for finding in findings:
        screen.out(f"{'ok  ' if finding.fine else 'MISS' if finding.needed else 'note'}  {printable(finding.text)}")
    return 0 if all(f.fine or not f.needed for f in findings) else 1


def list_plugins(request: PluginsRequest) -> int:
    """One line for each, those of every family in turn; 2 where one cannot be used."""
    listed = [plugin for family in FAMILIES for plugin in plugins(family)]
    if not listed:
        screen.out("no package brings anything; docs/plugins.md says how one would")
    width, wide = (max(map(len, names), default=0) for names in ([plugin.name for plugin in listed], FAMILIES))
    for plugin in listed:
        line = f"{plugin.name:<{width}}  {plugin.family:<{wide}}  {plugin.source}  {plugin.file or plugin.point.value}"
        screen.out(printable(line))
    for family in FAMILIES:
        import_module(FAMILIES[family])  # says on stderr what cannot be used
    return 2 if are_broken() else 0


def examine(store: str) -> list[Finding]:
    """Look at Python, packages, cores, memory, devices, disk, and the files that come with smoothsweep."""
    python, cores, free = ".".join(map(str, sys.version_info[:3])), allotted_cpus(), available_memory() / GIB
    found = [Finding(sys.version_info >= (3, 11), True, f"Python {python} (3.11 or newer)")]
    for name in PACKAGES:
        try:
            found.append(Finding(True, True, f"{name} {version(name)}"))
        except PackageNotFoundError:
            found.append(Finding(False, True, f"{name} is not installed: make env"))
    found.append(Finding(cores >= 2, False, f"{cores} CPU cores to use (the demo is timed for 2)"))
    found.append(Finding(free >= 6, False, f"{free:.1f} GiB of memory free (the demo takes up to 6)"))
    embedders = [kind.shipped_file for kind in EMBEDDERS.values() if kind.shipped_file is not None]
    for path in [*embedders, *(stem.with_suffix(".safetensors") for stem in SHIPPED.values())]:
        size = "missing: the README beside it says how to make it"
        if path.is_file():
            size = f"{path.stat().st_size / 2**20:.1f} MiB"
        found.append(Finding(path.is_file(), True, f"{path.relative_to(TREE).as_posix()} ({size})"))
    return [*found, *_with_torch(), *_store(store)]


def _with_torch() -> list[Finding]:
    """GPUs, and published weights."""
    try:
        import torch

        from smoothsweep.core.models.weight_files import WEIGHT_FILES, find_weight_file, weight_folders
    except ImportError:
        return [Finding(False, False, "no look for GPUs and published weights without torch")]
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    staged = [name for name in WEIGHT_FILES if find_weight_file(name, weight_folders())]
    here = f"{len(staged)} of {len(WEIGHT_FILES)}{': ' if staged else ''}{', '.join(staged)}"
    needed = "the paper's sweeps need some: smoothsweep weights stage"
    return [
        Finding(bool(gpus), False, f"GPUs: {', '.join(gpus) or 'none, CPUs will do the work'}"),
        Finding(bool(staged), False, f"published weights here: {here} ({needed})"),
    ]


def _store(stated: str) -> list[Finding]:
    """Examine whether the store at a location can be written. Raises InputError for a place that is no store."""
    store = open_store(stated)
    path = None if "://" in stated else Path(stated).resolve()
    existing = None if path is None else next(folder for folder in [path, *path.parents] if folder.exists())
    found = []
    if existing is not None:
        free = shutil.disk_usage(existing).free / GIB
        found.append(Finding(free >= 5, False, f"{free:.0f} GiB of disk free at {existing}"))
    try:
        if existing == path:
            store.prove_writable()
        elif existing is not None and not os.access(existing, os.W_OK):
            raise InputError(f"{existing} is closed to this user")
    except InputError as error:
        return [*found, Finding(False, True, f"store {path or stated} cannot be written: {error}")]
    return [*found, Finding(True, True, f"store {path or stated} can be written")]
