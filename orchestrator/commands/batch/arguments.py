"""`smoothsweep slurm`: its options."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

GRACE = "300"


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
        "--sbatch",
        action="append",
        default=[],
        metavar="OPTION",
        help="a further sbatch option, as in --sbatch=--exclusive (repeatable)",
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
