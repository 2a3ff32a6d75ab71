"""Checking a sweep for Slurm, writing its batch script, submitting it."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.text import printable, shortened
from smoothsweep.core.uris import shown_uri
from smoothsweep.orchestrator.commands.batch.script import Job, Workers, job_script, workers_path, workers_script
from smoothsweep.orchestrator.commands.batch.values import (
    LEAST_GRACE_S,
    elements,
    further_option,
    memory,
    one_word,
    seconds_of_limit,
    this_python,
    whole,
)
from smoothsweep.orchestrator.planning.plan import Plan, history_of, make_plan, refuse_impossible, refuse_unfit
from smoothsweep.orchestrator.planning.proposals import ProposalLog
from smoothsweep.orchestrator.search.forecast import forecast_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.schema import Resources
from smoothsweep.tasks.stage_names import stage_title

START_S = 60  # until the first stage runs: Ray, imports
_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
SBATCH_PATIENCE_S = 60


@dataclass(frozen=True, kw_only=True)
class Request:
    """What was typed: numbers are text still. Names are those of the request.

    Attributes:
        sbatch: Further options of sbatch.
        setup: Shell lines that come before everything else.
        array: Elements of separate workers, None without.
    """

    sweep: Path
    overrides: list[str]
    store: str
    tracking_uri: str | None
    nodes: str
    gpus_per_node: str | None
    cpus_per_node: str | None
    mem: str | None
    time: str
    partition: str | None
    account: str | None
    qos: str | None
    sbatch: list[str]
    array: str | None
    setup: list[str]
    python: str | None
    grace: str
    folder: Path | None
    dry_run: bool


def submit_sweep(request: Request) -> int:
    """Write and submit the job of a sweep. Returns the exit code.

    Raises InputError, before anything is written, for options or a sweep that no job could run.
    """
    store, loaded = open_store(request.store), load_sweep(request.sweep, request.overrides)
    proposed = ProposalLog(loaded, store)
    plan = make_plan(proposed.trials(), store, forecast_of(proposed))
    refuse_impossible(plan)
    job = _job(request, loaded.sweep.name)
    _refuse_short(plan, store, seconds_of_limit(request.time), job.grace_s)
    _refuse_too_few_gpus(plan, loaded.sweep.resources, job)
    scripts = {job.script: job_script(job)}
    if job.workers:
        scripts[workers_path(job)] = workers_script(job)
    if request.dry_run:
        screen.out_text("\n".join(scripts.values()))
        return 0
    if shutil.which("sbatch") is None:
        raise InputError("sbatch: expected Slurm's commands on this machine, got none; --dry-run prints the script")
    for text in scripts.values():
        _sbatch(["--test-only"], text)
    job.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    job.folder.chmod(0o700)
    (job.folder / "done").unlink(missing_ok=True)
    for path, text in scripts.items():
        write_file(path, text)
    number = _sbatch(["--parsable", str(job.script)])
    lines = [f"submitted job {number}: {job.script}"]
    if job.workers:
        workers = _sbatch(["--parsable", f"--dependency=after:{number}", str(workers_path(job))])
        lines.append(f"submitted its workers, array {workers}: {workers_path(job)}")
    for line in (*lines, *_where_to_look(request, number)):
        screen.out(printable(line))
    return 0


def _where_to_look(request: Request, number: str) -> list[str]:
    again = shlex.join(["smoothsweep", "status", str(request.sweep), "--store", str(request.store)])
    return [f"log: slurm-{number}.out   queue: squeue -j {number}   progress: {again}   end it: scancel {number}"]


def _job(request: Request, name: str) -> Job:
    plain = _NAME.sub("-", name) or "sweep"
    nodes, gpus = whole("--nodes", request.nodes, 1), whole("--gpus-per-node", request.gpus_per_node, 1)
    grace = whole("--grace", request.grace, LEAST_GRACE_S)
    if request.array and nodes != 1:
        raise InputError(
            f"--array {request.array}: expected --nodes 1 beside it (each worker is one node), got {nodes}"
        )
    common = [f"--time={one_word('--time', request.time)}"]
    for option in ("partition", "account", "qos"):
        if (value := getattr(request, option)) is not None:
            common.append(f"--{option}={one_word(f'--{option}', value)}")
    common += [further_option(text) for text in request.sbatch]
    machine = [f"--gpus-per-node={gpus}"] if gpus else []
    if request.cpus_per_node is not None:
        machine.append(f"--cpus-per-task={whole('--cpus-per-node', request.cpus_per_node, 1)}")
    machine += [f"--mem={memory(request.mem)}"] if request.mem is not None else []
    workers = None
    if request.array:
        workers = Workers(
            array=request.array,
            count=elements(request.array),
            gpus_per_node=gpus,
            directives=(*common, *machine),
        )
    return Job(
        sweep_name=name,
        run_arguments=_run_arguments(request),
        store=request.store if "://" in request.store else str(Path(request.store).absolute()),
        folder=(request.folder or Path("slurm") / plain).absolute(),
        working_folder=Path.cwd(),
        nodes=nodes,
        gpus_per_node=gpus,
        directives=tuple(common if workers else [*common, *machine]),
        python=tuple(_words(request.python)) if request.python is not None else this_python(),
        grace_s=grace,
        job_name=f"smoothsweep-{plain}",
        setup="\n".join(request.setup),
        workers=workers,
    )


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"--python: expected words as a shell reads them, got {text!r} ({error})") from None
    if not words:
        raise InputError(f"--python: expected words that start Python, got {text!r}")
    return words


def _run_arguments(request: Request) -> tuple[str, ...]:
    sweep = str(request.sweep.absolute()) if request.sweep.exists() else str(request.sweep)
    words = [sweep, *(word for override in request.overrides for word in ("--set", override))]
    if request.tracking_uri:
        if shown_uri(request.tracking_uri) != request.tracking_uri:
            raise InputError(
                "--tracking-uri: expected no user, password or query (the script would hold them in clear), "
                f"got {shown_uri(request.tracking_uri)}"
            )
        words += ["--tracking-uri", request.tracking_uri]
    return tuple(words)


def _refuse_short(plan: Plan, store: Store, limit_s: int, grace_s: int) -> None:
    """Raise InputError where a stage that keeps no checkpoint would not end within one time limit."""
    room = limit_s - grace_s - START_S
    if room <= 0:
        raise InputError(
            f"--time: expected more than the warning before the limit ({grace_s} s) and the start ({START_S} s), "
            f"got {limit_s} s"
        )
    history = history_of(plan, store)
    for stage in plan.missing:
        kind, expected = stage.task, history.expected(stage)
        if expected is not None and not kind.trains and kind.shard is None and expected[0] > room:
            raise InputError(
                f"--time: expected at least {round(expected[0]) + grace_s + START_S} s, since stage "
                f"{stage_title(stage.name)} takes about {round(expected[0])} s and keeps no checkpoint, got {limit_s} s"
            )


def _refuse_too_few_gpus(plan: Plan, resources: Resources, job: Job) -> None:
    """Raise InputError where a stage would wait for ever for GPUs, of a job that asks for a number of them.

    One that names none may ask for them in a cluster's own way, such as `--sbatch=--gres=gpu:a100:2`.
    """
    if not job.gpus_per_node:
        return
    from smoothsweep.orchestrator.cluster.connection import ClusterFacts  # which loads Ray

    nodes, each = job.workers.count if job.workers else job.nodes, float(job.gpus_per_node)
    facts = ClusterFacts(cpus=1, gpus=nodes * each, trial_slots=1, is_local=False, node_gpus=each)
    try:
        refuse_unfit(facts, resources, plan.missing)
    except InputError as error:
        raise InputError(f"{error}; --nodes, --gpus-per-node and --array say how many") from None


def _sbatch(options: list[str], script: str | None = None) -> str:
    """What sbatch answers. script: given to it on its standard input. Raises InputError with its own words."""
    try:
        answer = subprocess.run(
            ["sbatch", *options], input=script, capture_output=True, text=True, timeout=SBATCH_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"sbatch: expected an answer from Slurm, got: {shortened(str(error))}") from None
    if answer.returncode:
        message = " ".join(answer.stderr.replace("sbatch: error:", "").replace("allocation failure:", "").split())
        raise InputError(f"sbatch: expected a job that this cluster accepts, got: {shortened(message)}")
    return answer.stdout.strip().split(";")[0]
