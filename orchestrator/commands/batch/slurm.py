"""`smoothsweep slurm`: checks a sweep for Slurm, writes its batch scripts, submits them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.text import printable, shortened
from smoothsweep.core.uris import shown_uri
from smoothsweep.orchestrator.commands.requests import SlurmRequest
from smoothsweep.orchestrator.planning.plan import Plan, make_plan, refuse_impossible, refuse_unfit
from smoothsweep.orchestrator.planning.trial import ProposalLog
from smoothsweep.orchestrator.search.agenda import forecast_of
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.schema import Resources
from smoothsweep.tasks.registry import stage_title

START_S = 60  # until the first stage runs: Ray, imports
LEAVING_LEAST_S = 30  # from the signal to the end of the command; the rest of the grace is for the end itself
ENDING_S = 90  # an orderly end of the command takes up to 60 s
SBATCH_PATIENCE_S = 60
DAY, HOUR, MINUTE = 86400, 3600, 60
_TIME = re.compile(r"(?:(?P<d>\d+)-)?(?P<a>\d+)(?::(?P<b>\d+))?(?::(?P<c>\d+))?")
OF_THE_SCRIPT = {
    "--nodes": "--nodes",
    "-N": "--nodes",
    "--gpus-per-node": "--gpus-per-node",
    "--cpus-per-task": "--cpus-per-node",
    "-c": "--cpus-per-node",
    "--mem": "--mem",
    "--time": "--time",
    "-t": "--time",
    "--array": "--array",
    "-a": "--array",
    "--signal": "--grace",
    "--ntasks": "",
    "-n": "",
    "--ntasks-per-node": "",
    "--requeue": "",
    "--no-requeue": "",
    "--wrap": "",
}
"""Options of sbatch that the scripts set -> that of `smoothsweep slurm` for it, empty where there is none."""


def submit_sweep(request: SlurmRequest) -> int:
    """Write and submit the job of a sweep. Returns the exit code.

    Raises InputError, before anything is written, for options or a sweep that no job could run.
    """
    store, loaded = open_store(request.store), load_sweep(request.sweep, request.overrides)
    proposed = ProposalLog(loaded, store)
    plan = make_plan(proposed.trials(), store, forecast_of(proposed))
    refuse_impossible(plan)
    job = job_of(request, loaded.sweep.name)
    _refuse_short(plan, seconds_of_limit(request.time), job["grace_s"])
    _refuse_too_few_gpus(plan, loaded.sweep.resources, job["gpus"], job["workers"] or job["nodes"])
    loader = PackageLoader("smoothsweep.orchestrator.commands.batch", "templates")
    made = Environment(loader=loader, undefined=StrictUndefined, keep_trailing_newline=True)
    made.filters |= {"quote": lambda value: shlex.quote(str(value)), "words": shlex.join}
    folder, names = job["folder"], ["job.sh", *(["workers.sh"] if job["array"] else [])]
    scripts = {folder / name: made.get_template(name).render(job=job) for name in names}
    if request.dry_run:
        screen.out_text("\n".join(scripts.values()))
        return 0
    if shutil.which("sbatch") is None:
        raise InputError("sbatch: expected Slurm's commands on this machine, got none; --dry-run prints the script")
    for text in scripts.values():
        _sbatch(["--test-only"], text)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    (folder / "done").unlink(missing_ok=True)
    for path, text in scripts.items():
        write_file(path, text)
    script, *of_workers = scripts
    number = _sbatch(["--parsable", str(script)])
    lines = [f"submitted job {number}: {script}"]
    for path in of_workers:
        workers = _sbatch(["--parsable", f"--dependency=after:{number}", str(path)])
        lines.append(f"submitted its workers, array {workers}: {path}")
    again = shlex.join(["smoothsweep", "status", str(request.sweep), "--store", str(request.store)])
    lines.append(f"log: slurm-{number}.out   queue: squeue -j {number}   progress: {again}   end it: scancel {number}")
    for line in lines:
        screen.out(printable(line))
    return 0


def job_of(request: SlurmRequest, name: str) -> dict[str, Any]:
    """What the scripts are made of. Raises InputError for options that contradict each other or are none.

    `gpus`: of each node, or of each separate worker, 0 where none are asked for by number. `workers`: how many of them
    there are at once; they have `worker_directives`, and the job that holds the command has no GPUs then.
    `leaving_s`: what work has to leave its checkpoints.
    """
    if request.array and request.nodes != 1:
        got = f"expected --nodes 1 beside it (each worker is one node), got {request.nodes}"
        raise InputError(f"--array {request.array}: {got}")
    stated = {option: getattr(request, option) for option in ("time", "partition", "account", "qos")}
    common = [f"--{option}={value}" for option, value in stated.items() if value is not None]
    common += [further_option(text) for text in request.sbatch]
    of_a_node = {"gpus-per-node": request.gpus_per_node, "cpus-per-task": request.cpus_per_node, "mem": request.mem}
    machine = [f"--{option}={value}" for option, value in of_a_node.items() if value]
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name) or "sweep"
    return {
        "sweep_name": name,
        "job_name": f"smoothsweep-{plain}",
        "run_arguments": _run_arguments(request),
        "store": request.store if "://" in request.store else str(Path(request.store).absolute()),
        "folder": (request.folder or Path("slurm") / plain).absolute(),
        "working_folder": Path.cwd(),
        "nodes": request.nodes,
        "gpus": request.gpus_per_node,
        "directives": common if request.array else [*common, *machine],
        "python": [sys.executable] if request.python is None else _words(request.python),
        "setup": "\n".join(request.setup).strip(),
        "grace_s": request.grace,
        "leaving_s": max(LEAVING_LEAST_S, request.grace - ENDING_S),
        "array": request.array,
        "workers": elements(request.array) if request.array else 0,
        "worker_directives": [*common, *machine],
    }


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"--python: expected words as a shell reads them, got {text!r} ({error})") from None
    if not words:
        raise InputError(f"--python: expected words that start Python, got {text!r}")
    return words


def _run_arguments(request: SlurmRequest) -> list[str]:
    sweep = str(request.sweep.absolute()) if request.sweep.exists() else str(request.sweep)
    words = [sweep, *(word for override in request.overrides for word in ("--set", override))]
    if request.tracking_uri:
        if shown_uri(request.tracking_uri) != request.tracking_uri:
            raise InputError(
                "--tracking-uri: expected no user, password or query (the script would hold them in clear), "
                f"got {shown_uri(request.tracking_uri)}"
            )
        words += ["--tracking-uri", request.tracking_uri]
    return words


def _refuse_short(plan: Plan, limit_s: int, grace_s: int) -> None:
    """Raise InputError where a stage that keeps no checkpoint would not end within one time limit."""
    room = limit_s - grace_s - START_S
    if room <= 0:
        raise InputError(
            f"--time: expected more than the warning before the limit ({grace_s} s) and the start ({START_S} s), "
            f"got {limit_s} s"
        )
    for stage in plan.missing:
        kind, expected = stage.task, plan.history.expected(stage)
        if expected is not None and not kind.trains and kind.shard is None and expected[0] > room:
            raise InputError(
                f"--time: expected at least {round(expected[0]) + grace_s + START_S} s, since stage "
                f"{stage_title(stage.name)} takes about {round(expected[0])} s and keeps no checkpoint, got {limit_s} s"
            )


def _refuse_too_few_gpus(plan: Plan, resources: Resources, gpus: int, nodes: int) -> None:
    """Raise InputError where a stage would wait for ever for GPUs, of a job that names a number for each node.

    One that names none may ask for them in a cluster's own way, such as `--sbatch=--gres=gpu:a100:2`.
    """
    if not gpus:
        return
    from smoothsweep.orchestrator.cluster.connection import ClusterFacts  # which loads Ray

    facts = ClusterFacts(cpus=1, gpus=float(nodes * gpus), trial_slots=1, is_local=False, node_gpus=float(gpus))
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


def seconds_of_limit(text: str) -> int:
    """Seconds of a time limit as sbatch reads it: minutes, minutes:seconds, h:m:s, days-h, days-h:m, days-h:m:s.

    Raises InputError for anything else.
    """
    match = _TIME.fullmatch(text)
    if match is None or len(text) > 20:
        raise InputError(f"--time: expected a time limit as in 12:00:00, 2-00 or 90 (minutes), got {text!r}")
    days, a, b, c = (int(match[name] or 0) for name in ("d", "a", "b", "c"))
    if match["d"] is not None or match["c"] is not None:
        return days * DAY + a * HOUR + b * MINUTE + c
    return a * MINUTE + b


def elements(text: str) -> int:
    """How many workers an array has at once at most. Raises InputError for what is no range."""
    match = re.fullmatch(r"(?P<first>\d{1,9})-(?P<last>\d{1,9})(?:%(?P<at_once>\d{1,9}))?", text)
    count = int(match["last"]) - int(match["first"]) + 1 if match else 0
    if match is None or count < 1 or match["at_once"] == "0":
        raise InputError(f"--array: expected a range of workers as in 0-7 or 0-31%8, got {text!r}")
    return min(count, int(match["at_once"] or count))


def further_option(option: str) -> str:
    """An option of sbatch as it stands in a `#SBATCH` line. Raises InputError for one that the script sets itself."""
    if not option.startswith("-"):
        raise InputError(f"--sbatch {option}: expected an option of sbatch, as in --sbatch=--exclusive, got {option!r}")
    name = option.partition("=")[0]
    if name in OF_THE_SCRIPT:
        ours = OF_THE_SCRIPT[name]
        instead = f"{ours} instead" if ours else "nothing in its place: the script needs its own"
        raise InputError(f"--sbatch {option}: expected {instead}, got {name}")
    return option
