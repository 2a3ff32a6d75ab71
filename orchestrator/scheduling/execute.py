"""Run one stage where we are: call its task, seal its artifact. No Ray here; workers and tests call the same.

No artifact holds a number that is not finite, but where its stage says that it may: looked at before it is sealed. A
training that diverges late leaves such numbers in statistics that no loss shows (a `running_var`), and stages that read
the artifact would go on with them.
"""

from __future__ import annotations

import math
import platform
import shutil
import time
import uuid
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from smoothsweep.core.errors import ArtifactDamaged, NotFinite
from smoothsweep.core.files import write_file
from smoothsweep.core.readers.tables import open_table
from smoothsweep.core.writers import release_folder
from smoothsweep.orchestrator.stages.stage import Stage, code_version
from smoothsweep.orchestrator.store.base import Store, report_damage
from smoothsweep.orchestrator.store.manifests import RESULT
from smoothsweep.tasks.classes import class_name
from smoothsweep.tasks.context import TaskContext

LIBRARIES = ("torch", "torchvision", "numpy", "ray", "scikit-learn", "pyarrow")


def execute(store: Store, stage: Stage, *, device: str | None = None) -> None:
    """Make the stage's artifact unless it exists. Its inputs must exist. Errors of the task pass through.

    Two drivers may work on one stage at once: the second, which finds the work folder gone, has the artifact.
    device: that the task computes on; None: a GPU where there is one.
    """
    if store.has(stage):
        return
    inputs = _inputs(store, stage)
    draft = store.draft(stage)
    try:
        with store.working(stage) as work:
            context, started = _context(store, work, device), time.monotonic()
            with _name_stage_in_error(stage):
                metrics = stage.task.function()({**stage.config, **stage.hints}, inputs, draft, context)
                refuse_not_finite(draft, metrics, stage.task.not_finite)
            seconds = time.monotonic() - started + _noted_seconds(work)
        store.commit(stage, draft, _manifest(store, stage, metrics, seconds, context.device))
    except BaseException as error:
        release_folder(draft)
        shutil.rmtree(draft, ignore_errors=True)
        if not isinstance(error, Exception):
            raise
        if not _finished_elsewhere(store, stage):
            _refuse_lost_inputs(store, stage)
            raise


def execute_shard(store: Store, stage: Stage, classes: Sequence[int]) -> int:
    """Do these classes of a sharded stage; what they leave in the work folder is collected by `execute`."""
    if not store.has(stage):
        try:
            inputs = _inputs(store, stage)
            with store.working(stage, only=[class_name(target_class) for target_class in classes]) as work:
                context, started = _context(store, work), time.monotonic()
                with _name_stage_in_error(stage):
                    stage.task.shard_function()({**stage.config, **stage.hints}, inputs, classes, context)
                # What a shard has cost is left beside it; the stage's manifest sums it up.
                (work / "seconds").mkdir(exist_ok=True)  # not its parents: the store may have gone
                write_file(work / "seconds" / uuid.uuid4().hex, repr(time.monotonic() - started))
        except Exception:  # whatever it was: another driver's artifact stands, else it is raised
            if not _finished_elsewhere(store, stage):
                _refuse_lost_inputs(store, stage)
                raise
        _finished_elsewhere(store, stage)  # finished meanwhile: what this shard left is not needed any more
    return len(classes)


@contextmanager
def _name_stage_in_error(stage: Stage) -> Generator[None]:
    """Numbers that are not finite are told with their stage and their likely cause."""
    try:
        yield
    except NotFinite as error:
        inputs = ", ".join(source.label for source in stage.inputs.values())
        whose = "" if stage.task.trains or not inputs else f" (of this stage, or of what it reads: {inputs})"
        raise NotFinite(f"{stage.label}: {error}; {LIKELY}{whose}") from error


def _inputs(store: Store, stage: Stage) -> dict[str, Path]:
    """The folders that the stage reads, verified. Raises ArtifactDamaged for one that has to be made again."""
    try:
        return {name: store.path(source) for name, source in stage.inputs.items()}
    except FileNotFoundError:
        _refuse_lost_inputs(store, stage)
        raise


def _refuse_lost_inputs(store: Store, stage: Stage) -> None:
    """Raise ArtifactDamaged if an input was removed, or set aside by another worker, while the stage read it."""
    for source in stage.inputs.values():
        if not store.has(source):
            raise ArtifactDamaged(f"{source.label}: it is not in the store any more; it is made again")


def _finished_elsewhere(store: Store, stage: Stage) -> bool:
    """Whether the artifact is there after all. What we have written beside it since is then swept away."""
    is_finished = store.has(stage)
    if is_finished:
        shutil.rmtree(store.work(stage), ignore_errors=True)
    return is_finished


def execute_with_inputs(store: Store, stage: Stage, *, device: str | None = None) -> None:
    """Make the stage and all it needs, in this process: the whole pipeline without a cluster.

    A finished stage is left as it is, whatever has become of its inputs; a damaged input is made again. device: as of
    `execute`.
    """
    while not store.has(stage):
        for source in stage.inputs.values():
            execute_with_inputs(store, source, device=device)
        try:
            execute(store, stage, device=device)
        except ArtifactDamaged as damaged:
            report_damage(str(damaged))


def commit_made(store: Store, stage: Stage, make: Callable[[Path], dict[str, Any]], *, device: str) -> None:
    """Make the artifact of a stage, whose inputs exist, by `make` instead of its task. Errors pass through."""
    if store.has(stage):
        return
    draft, started = store.draft(stage), time.monotonic()
    try:
        metrics = make(draft)
        store.commit(stage, draft, _manifest(store, stage, metrics, time.monotonic() - started, device))
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _context(store: Store, work: Path, device: str | None = None) -> TaskContext:
    import torch

    on_gpu = torch.cuda.is_available() if device is None else device != "cpu"
    if on_gpu:
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
    else:
        torch.set_num_threads(1)  # sums over threads depend on their number; tasks are the unit of parallel work
    return TaskContext(work=work, device=device or ("cuda" if on_gpu else "cpu"), shared=store.shared_folders)


def _noted_seconds(work: Path) -> float:
    """What shards have left; a note that a power failure has emptied counts nothing."""
    total = 0.0
    for path in (work / "seconds").glob("*"):
        with suppress(ValueError):
            seconds = float(path.read_text())
            total += seconds if math.isfinite(seconds) and seconds > 0 else 0.0
    return total


def _manifest(store: Store, stage: Stage, metrics: dict[str, Any], seconds: float, device: str) -> dict[str, Any]:
    return {
        **stage.identity(),
        "fingerprint": stage.fingerprint,
        "inputs": {
            name: {"stage": s.name, "fingerprint": s.fingerprint, RESULT: store.manifest(s).get(RESULT)}
            for name, s in stage.inputs.items()
        },
        "hints": dict(stage.hints),
        "metrics": metrics,
        "code_version": code_version(),
        "libraries": {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}},
        "device": device,
        "host": platform.node(),
        "seconds": round(seconds, 3),
        "finished_at": round(time.time(), 3),
    }


METRICS = "metrics"  # how a number of the manifest is named, where a file would stand
LIKELY = "a training that diverges leaves such numbers: try a lower learning rate"


def refuse_not_finite(draft: Path, metrics: Mapping[str, Any], allowed: Collection[str]) -> None:
    """Raise NotFinite, one line, for the first number in a finished draft that is NaN, infinite, or missing.

    Every tensor of a safetensors file, every column of floating-point numbers of a Parquet file, where pandas writes
    NaN as null, and the metrics, where None stands for what was not measured.

    allowed: what may hold such numbers: `file`, `file:tensor or column`, `metrics:name`.
    """
    for name, value in metrics.items():
        if isinstance(value, float) and not math.isfinite(value) and f"{METRICS}:{name}" not in allowed:
            raise NotFinite(f"{METRICS}: {name}: expected a finite number, got {value}")
    for path in sorted(draft.iterdir()):
        if path.name in allowed or path.suffix not in _BY_SUFFIX:
            continue
        for name, bad, total in _BY_SUFFIX[path.suffix](path, {a for a in allowed if a.startswith(f"{path.name}:")}):
            raise NotFinite(f"{path.name}: {name}: expected finite numbers, got {bad} of {total} that are not")


def _bad_tensors(path: Path, allowed: Collection[str]) -> Iterator[tuple[str, int, int]]:
    """(name, numbers that are not finite, numbers) of every tensor that has some."""
    from safetensors import safe_open

    with safe_open(str(path), framework="pt") as file:
        for name in file.keys():  # noqa: SIM118 - no mapping
            tensor = None if f"{path.name}:{name}" in allowed else file.get_tensor(name)
            if tensor is None or not tensor.is_floating_point():
                continue
            if bad := tensor.numel() - int(tensor.float().isfinite().sum()):  # eight bits have no `isfinite`
                yield name, bad, tensor.numel()


def _bad_columns(path: Path, allowed: Collection[str]) -> Iterator[tuple[str, int, int]]:
    """As `_bad_tensors`, of the columns of a table; what is missing counts as not finite."""
    with path.open("rb") as opened, open_table(opened) as file:
        for field in file.schema_arrow:
            if not pa.types.is_floating(field.type) or f"{path.name}:{field.name}" in allowed:
                continue
            column = file.read([field.name]).column(0)
            finite = pc.call_function("sum", [pc.call_function("is_finite", [column])]).as_py() or 0  # no null is
            if finite < len(column):
                yield field.name, len(column) - finite, len(column)


_BY_SUFFIX = {".safetensors": _bad_tensors, ".parquet": _bad_columns}
