"""What an isolated process may use, and whether this machine can isolate one at all."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import smoothsweep
from smoothsweep.core.allotted import available_memory
from smoothsweep.core.errors import InputError
from smoothsweep.core.isolation import seccomp

SECONDS, GIBIBYTES = "SMOOTHSWEEP_PROGRAM_SECONDS", "SMOOTHSWEEP_PROGRAM_GIB"
"""Environment variables: other limits than the usual ones, for a program that needs them."""

USUAL_SECONDS = 900.0
MEMORY_FRACTION = 0.8  # of the machine's memory
_PACKAGES = ("torch", "torchvision", "numpy", "sympy", "networkx")
_SYSTEM = (
    "/usr",
    "/lib",
    "/lib64",
    "/opt",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/sys",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys",
    "/proc/devices",
    "/proc/modules",
    "/proc/driver",
    "/dev/null",
    "/dev/zero",
    "/dev/urandom",
    "/dev/random",
)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What an isolated process may use."""

    seconds: float
    """Wall-clock time of loading, and of each answer and each gradient."""
    memory: int
    """Bytes beyond what Python and its libraries take."""


def usual_limits() -> Limits:
    """The limits of this machine, or those of the environment. Raises InputError, one line, for what is no number."""
    memory = _number(GIBIBYTES)
    return Limits(
        seconds=_number(SECONDS) or USUAL_SECONDS,
        memory=int(memory * 2**30) if memory else int(MEMORY_FRACTION * available_memory()),
    )


def _number(name: str) -> float | None:
    text = os.environ.get(name)
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e9:
        raise InputError(f"{name}: expected a number above 0, got {text[:40]!r}")
    return number


def can_isolate() -> bool:
    """Whether this kernel can hold a process to computing. Where it cannot, a program counts as code."""
    return seccomp.available()


def readable_paths(packages: Iterable[str] = ()) -> list[Path]:
    """What an isolated process reads: Python, torch and what it needs, the system's own, and this package.

    packages: other installed packages that it reads, too.
    """
    homes = [_home_of(name) for name in (*_PACKAGES, *packages)]
    python = [
        sys.prefix,
        sys.base_prefix,
        sys.exec_prefix,
        *(sysconfig.get_path(name) for name in ("stdlib", "purelib")),
    ]
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    ours = [Path(__file__).resolve().parents[1], Path(smoothsweep.__file__).resolve()]
    return [*_existing([*python, *_SYSTEM, *libraries]), *(path for path in homes if path is not None), *ours]


def code_paths(loader: str) -> list[Path]:
    """Where the code of a loader, "module:function", lies: the folder of its package, or the file of a lone module.

    What is part of smoothsweep is read anyway; what another package brings may be installed anywhere.
    """
    spec = find_spec(loader.partition(":")[0].partition(".")[0])
    if spec is None or not spec.origin:
        return []
    origin = Path(spec.origin).resolve()
    return [origin.parent if spec.submodule_search_locations else origin]


def device_paths(device: str) -> list[Path]:
    """The files of the GPUs' driver, for a process that computes on one."""
    return sorted(Path("/dev").glob("nvidia*")) if device.startswith("cuda") else []


def _existing(names: Iterable[str]) -> list[Path]:
    return [Path(name) for name in names if name and Path(name).exists()]


def _home_of(package: str) -> Path | None:
    """The folder that holds an installed package, with the libraries beside it."""
    spec = find_spec(package)
    return Path(spec.origin).resolve().parents[1] if spec is not None and spec.origin else None
