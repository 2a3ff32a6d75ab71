"""The batch scripts of a sweep: what `smoothsweep slurm` submits, as text that its owner can read and change."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

LEAVING_LEAST_S = 30  # from the signal to the end of the command; the rest of the grace is for the end itself
ENDING_S = 90  # an orderly end of the command takes up to 60 s


@dataclass(frozen=True, kw_only=True)
class Job:
    """One sweep as a Slurm job. The values have been checked.

    Attributes:
        sweep_name: The sweep's name.
        run_arguments: Arguments of `smoothsweep run`, without store and address.
        store: Absolute path or URL.
        folder: The sweep's own folder for scripts, token and address; all nodes see it.
        nodes: How many nodes the job asks for, at least 1.
        gpus_per_node: GPUs of each, or of each separate worker, 0 where the job names no number.
        directives: Further `#SBATCH` options.
        python: Words that start Python, also within a container.
        setup: Shell lines that come first.
        grace_s: Seconds between the signal and the time limit.
    """

    sweep_name: str
    run_arguments: tuple[str, ...]
    store: str
    folder: Path
    working_folder: Path
    nodes: int
    gpus_per_node: int = 0
    directives: tuple[str, ...]
    python: tuple[str, ...]
    grace_s: int
    job_name: str
    setup: str = ""
    workers: Workers | None = None

    @property
    def script(self) -> Path:
        return self.folder / "job.sh"


@dataclass(frozen=True, kw_only=True)
class Workers:
    """Workers that are Slurm jobs of their own.

    Attributes:
        array: Slurm's list of elements, e.g. `0-7`.
        gpus_per_node: GPUs of each, 0 for none.
        directives: `#SBATCH` options of a worker; the head then has those of the job.
    """

    array: str
    count: int
    gpus_per_node: int
    directives: tuple[str, ...] = field(default=())


def job_script(job: Job) -> str:
    """The script of the job that holds the command (and, without separate workers, all nodes)."""
    return _template("job.sh").render(**_values(job))


def workers_script(job: Job) -> str:
    """The script of the array of workers. Raises ValueError for a job without separate workers."""
    if job.workers is None:
        raise ValueError("expected a job with separate workers")
    return _template("workers.sh").render(**_values(job))


def workers_path(job: Job) -> Path:
    return job.folder / "workers.sh"


def _values(job: Job) -> dict[str, object]:
    workers = job.workers
    return {
        "sweep_name": job.sweep_name,
        "job_name": job.job_name,
        "script": shlex.quote(str(job.script)),
        "workers_script": str(workers_path(job)),
        "nodes": job.nodes,
        "directives": job.directives,
        "grace_s": job.grace_s,
        "leaving_s": max(LEAVING_LEAST_S, job.grace_s - ENDING_S),
        "setup": job.setup.strip(),
        "working_folder": shlex.quote(str(job.working_folder)),
        "python": shlex.join(job.python),
        "store": shlex.quote(job.store),
        "store_is_folder": "://" not in job.store,
        "folder": shlex.quote(str(job.folder)),
        "cluster": job.nodes > 1 or workers is not None,
        "elastic": workers is not None,
        "array": workers.array if workers else "",
        "worker_directives": workers.directives if workers else (),
        "promised_gpus": workers.count * workers.gpus_per_node if workers else 0,
        "node_gpus": workers.gpus_per_node if workers else 0,
        "run_arguments": shlex.join(job.run_arguments),
    }


@cache
def _environment() -> Environment:
    loader = PackageLoader("smoothsweep.orchestrator.commands.batch", "templates")
    return Environment(loader=loader, undefined=StrictUndefined, trim_blocks=False, keep_trailing_newline=True)


def _template(name: str):  # noqa: ANN202 - jinja2 names no public type for it
    return _environment().get_template(name)
