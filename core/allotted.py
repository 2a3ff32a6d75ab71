"""How many CPUs and how much memory this process may use: under a scheduler or in a container, less than there are.

A scheduler pins processes to CPUs (affinity) or only says how many are theirs (Slurm). A container has a quota of CPU
time and a limit of memory (cgroups, of version 1 or 2, where every group above one's own counts as well).
`os.cpu_count` knows none of it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

ROOT = Path("/")
SLURM_CPUS = "SLURM_CPUS_ON_NODE"
_ESCAPED = re.compile(r"\\([0-7]{3})")  # how mountinfo writes a space


def allotted_cpus(root: Path = ROOT) -> int:
    """CPUs that this process may keep busy at once, at least 1. root: where /proc and the cgroups' mounts lie."""
    # Linux alone knows an affinity. Elsewhere no scheduler pins a process, so all CPUs are its own: no guess.
    affinity = getattr(os, "sched_getaffinity", None)
    pinned = len(affinity(0)) if affinity else os.cpu_count() or 1  # the latter only where there is no affinity
    return max(1, min([pinned, *_granted(), *(int(quota) for quota in _limits("cpu", _cpu_quota, root))]))


def _granted() -> Iterator[int]:
    """The CPUs that Slurm gave this job on this node: not every cluster holds jobs to them by affinity or cgroup."""
    granted = os.environ.get(SLURM_CPUS, "")
    if granted.isascii() and granted.isdigit():
        yield int(granted)


def available_memory(root: Path = ROOT) -> int:
    """Bytes that this process may still take before the machine, or the limit of a cgroup, is reached."""
    free = psutil.virtual_memory().available
    return int(max(0, min(free, *_limits("memory", _memory_left, root), free)))


def _limits(controller: str, limit: Callable[[Path], float | None], root: Path) -> Iterator[float]:
    """The limits of this process's groups, from its own to the outermost that can be seen."""
    for mount, group in _groups(controller, root):
        for folder in (group, *group.parents):
            with contextlib.suppress(OSError, ValueError, ZeroDivisionError):  # no such file in an outermost group
                if (value := limit(folder)) is not None:
                    yield value
            if folder == mount:
                break


def _groups(controller: str, root: Path) -> Iterator[tuple[Path, Path]]:
    """(where a hierarchy of cgroups is mounted, this process's group in it), of version 1 and of version 2."""
    try:
        groups = [line.split(":", 2) for line in (root / "proc/self/cgroup").read_text().splitlines()]
        mounts = [line.split() for line in (root / "proc/self/mountinfo").read_text().splitlines()]
    except OSError:  # no Linux
        return
    for number, controllers, path in (group for group in groups if len(group) == 3):
        for fields in (mount for mount in mounts if "-" in mount[5:]):
            kind, _, options = fields[fields.index("-", 5) + 1 :][:3]
            if kind == "cgroup2":
                belongs = number == "0" and not controllers
            else:
                belongs = kind == "cgroup" and controller in controllers.split(",") and controller in options.split(",")
            if belongs:
                place = root / _plain(fields[4]).lstrip("/")
                yield place, place / _below(path, _plain(fields[3]))


def _below(path: str, mounted: str) -> str:
    """The group's path within a mount of the group `mounted`; the mount itself where the group lies elsewhere."""
    if ".." in path.split("/") or not f"{path}/".startswith(f"{mounted.rstrip('/')}/"):
        return ""
    return path[len(mounted.rstrip("/")) :].strip("/")


def _plain(field: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), field)


def _cpu_quota(folder: Path) -> float | None:
    """CPUs' worth of time per period, None for no limit."""
    if (folder / "cpu.max").is_file():
        quota, period = (folder / "cpu.max").read_text().split()
    else:
        quota, period = ((folder / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
    return None if quota in ("max", "-1") else int(quota) / int(period)


def _memory_left(folder: Path) -> float | None:
    """Bytes up to the group's limit, None for no limit. What the kernel would give back at once counts as free."""
    second = (folder / "memory.max").is_file()
    limit, used, cached = (
        ("memory.max", "memory.current", "inactive_file")
        if second
        else ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    )
    allowed = (folder / limit).read_text().strip()
    if allowed == "max":
        return None
    stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    return int(allowed) - int((folder / used).read_text()) + int(stat.get(cached, 0))
