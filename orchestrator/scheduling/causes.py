"""Turn an exception into one line that tells a user why a stage failed."""

from __future__ import annotations

import re

import ray
import ray.exceptions

from smoothsweep.core.errors import SweepStopped
from smoothsweep.orchestrator.scheduling.worker import WORKER_RETRIES

OWN_WORDS = (  # errors whose message says it all
    "InputError",
    "InputChanged",
    "CodeChanged",
    "ArtifactDamaged",
    "TrainingDiverged",
    "AccuracyNotReached",
    "NotFinite",
    "TimeoutError",
)
OUT_OF_MEMORY = re.compile(r"out of memory|running low on memory|due to OOM|OutOfMemory", re.IGNORECASE)
LACK_OF_MEMORY = (
    "out of memory: Ray ended its worker on every attempt, because the machine's memory was nearly used up; run fewer "
    "tasks at once (a larger resources.cpus_per_task or gpus_per_task), or take a machine with more memory"
)


def _is_lack_of_memory(error: BaseException | None) -> bool:
    """Whether Ray ended the worker for lack of memory, by this error or by any error in its chain of causes."""
    for _ in range(10):
        if error is None:
            return False
        if isinstance(error, ray.exceptions.OutOfMemoryError):
            return True
        if isinstance(error, ray.exceptions.RayActorError) and OUT_OF_MEMORY.search(str(error)):
            return True
        cause = getattr(error, "cause", None)
        error = cause if isinstance(cause, BaseException) else error.__cause__ or error.__context__
    return False


def one_line(error: BaseException) -> str:
    """The task's own error in one line, without Ray's wrapping and traceback."""
    cause = getattr(error, "cause", None) or error
    if _is_lack_of_memory(error):
        return LACK_OF_MEMORY
    if isinstance(cause, ray.exceptions.WorkerCrashedError):
        return f"its worker was killed {WORKER_RETRIES + 1} times"
    if isinstance(cause, OSError) and cause.strerror:
        return f"{cause.strerror}: {cause.filename}" if cause.filename else cause.strerror
    text = " ".join(str(cause).split())
    name = type(cause).__name__
    if isinstance(cause, SweepStopped):
        return f"stopped: {text}"
    return text if name in OWN_WORDS else f"{name}: {text}"[:600]


def last_of_traceback(error: BaseException) -> str:
    """An error in one line. Of a message that is a whole traceback: its last line and the last place that it names."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    places = [line for line in lines if line.startswith("File ")]
    if not places:
        return f"{type(error).__name__}: {' '.join(lines)}"[:400]
    return f"{lines[-1]} ({places[-1]})"[:400]
