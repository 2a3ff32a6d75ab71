"""`smoothsweep slurm`: its options, and what they are checked for before anything is written or submitted."""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import fields
from pathlib import Path

from smoothsweep.core.errors import InputError

DAY, HOUR, MINUTE = 86400, 3600, 60
_TIME = re.compile(r"(?:(?P<d>\d+)-)?(?P<a>\d+)(?::(?P<b>\d+))?(?::(?P<c>\d+))?")
_ARRAY = re.compile(r"(?P<first>\d+)-(?P<last>\d+)(?:%(?P<at_once>\d+))?")
GRACE = "300"
LEAST_GRACE_S = 120
_ONE_WORD = re.compile(r"[^\s\x00-\x1f]+")


def add_slurm_command(commands: argparse._SubParsersAction, sweep_options: argparse.ArgumentParser) -> None:
    """Add `slurm` to a parser's commands."""
    text = "write a batch script for a Slurm cluster and submit it"
    slurm = commands.add_parser("slurm", help=text, description=text, parents=[sweep_options])
    slurm.add_argument("--nodes", default="1", metavar="N", help="nodes of the job (default: 1)")
    slurm.add_argument("--gpus-per-node", metavar="G", help="GPUs of each node (default: none asked for)")
    slurm.add_argument("--cpus-per-node", metavar="C", help="CPUs of each node (default: the cluster's)")
    slurm.add_argument("--mem", metavar="MEM", help="memory of each node, e.g. 64G (default: the cluster's)")
    slurm.add_argument("--time", required=True, metavar="T", help="time limit, as in sbatch: 12:00:00, 2-00, 90")
    slurm.add_argument("--partition", metavar="P", help="partition (default: the cluster's)")
    slurm.add_argument("--account", metavar="A", help="account that is charged")
    slurm.add_argument("--qos", metavar="Q", help="quality of service")
    slurm.add_argument(
        "--sbatch", action="append", default=[], metavar="OPTION", help="a further sbatch option (repeatable)"
    )
    slurm.add_argument(
        "--array",
        metavar="0-N",
        help="workers as jobs of their own that come and go, e.g. 0-7 or 0-31%%8; the options for GPUs, CPUs and "
        "memory then describe a worker, and the head's job has CPUs alone",
    )
    slurm.add_argument(
        "--setup",
        action="append",
        default=[],
        metavar="LINE",
        help="a shell line to run first: 'module load cuda'",
    )
    slurm.add_argument(
        "--python",
        metavar="WORDS",
        help="how Python is started on the nodes, e.g. 'apptainer exec --nv image.sif python' (default: this one)",
    )
    slurm.add_argument(
        "--grace", default=GRACE, metavar="SECONDS", help=f"warning before the time limit (default: {GRACE})"
    )
    slurm.add_argument(
        "--folder",
        type=Path,
        metavar="DIR",
        help="for script, token, address; all nodes see it (default: ./slurm/NAME)",
    )
    slurm.add_argument("--tracking-uri", metavar="URI", help="MLflow tracking URI (default: SQLite in the store)")
    slurm.add_argument("--dry-run", action="store_true", help="print the script; write and submit nothing")
    slurm.set_defaults(command=_slurm)


def _slurm(options: argparse.Namespace) -> int:
    from smoothsweep.orchestrator.commands.batch.submit import Request, submit_sweep

    return submit_sweep(Request(**{field.name: getattr(options, field.name) for field in fields(Request)}))


def whole(option: str, text: str | None, least: int, default: int = 0) -> int:
    """A whole number of an option. Raises InputError for anything else, and for one below `least`."""
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < least:
        raise InputError(f"{option} {text}: expected a whole number of at least {least}, got {text!r}")
    return int(text)


def seconds_of_limit(text: str) -> int:
    """Seconds of a time limit as sbatch reads it: minutes, minutes:seconds, h:m:s, days-h, days-h:m, days-h:m:s.

    Raises InputError for anything else.
    """
    found = _TIME.fullmatch(text)
    if found is None or len(text) > 20:
        raise InputError(f"--time {text}: expected a time limit as in 12:00:00, 2-00 or 90 (minutes), got {text!r}")
    days, a, b, c = (None if found[name] is None else int(found[name]) for name in ("d", "a", "b", "c"))
    if days is not None:
        return days * DAY + (a or 0) * HOUR + (b or 0) * MINUTE + (c or 0)
    if c is not None:
        return (a or 0) * HOUR + (b or 0) * MINUTE + c
    return (a or 0) * MINUTE + (b or 0)


def elements(text: str) -> int:
    """How many workers an array has at once at most. Raises InputError for what is no range."""
    found = _ARRAY.fullmatch(text)
    if found is None or int(found["last"]) < int(found["first"]) or found["at_once"] == "0":
        raise InputError(f"--array {text}: expected a range of workers as in 0-7 or 0-31%8, got {text!r}")
    count = int(found["last"]) - int(found["first"]) + 1
    return min(count, int(found["at_once"])) if found["at_once"] else count


def one_word(option: str, text: str) -> str:
    """A value that stands in a `#SBATCH` line. Raises InputError for one with blanks or control characters."""
    if not _ONE_WORD.fullmatch(text):
        raise InputError(f"{option}: expected one word, got {text!r}")
    return text


def this_python() -> tuple[str, ...]:
    return (sys.executable,)
