"""`smoothsweep doctor`: its options, and what is printed."""

from __future__ import annotations

import argparse
from pathlib import Path

from smoothsweep.core import screen
from smoothsweep.core.errors import InputError
from smoothsweep.core.text import printable

RATES_FILE = "rates.json"


def add_doctor_command(commands: argparse._SubParsersAction) -> None:
    """Add `doctor` to a parser's commands."""
    doctor = commands.add_parser("doctor", help="what this machine can run; with --store: check a store")
    doctor.add_argument("--store", metavar="STORE", help="read this whole store, and say what in it is damaged")
    doctor.add_argument(
        "--calibrate",
        type=Path,
        nargs="?",
        const=Path(RATES_FILE),
        metavar="FILE",
        help="time the paper's work on this machine's GPU (on its CPUs if it has none), for `plan --rates FILE` "
        f"(default: {RATES_FILE})",
    )
    doctor.set_defaults(command=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    """0 where all that is needed is there, 1 where something is missing or damaged."""
    from smoothsweep.orchestrator.commands.health.doctor import examine, examine_artifacts

    if options.calibrate is not None:
        return _calibrate(options)
    findings = examine(options.store or "store", only_read=bool(options.store))
    findings += examine_artifacts(options.store) if options.store else []
    for finding in findings:
        screen.out(f"{'ok  ' if finding.fine else 'MISS' if finding.needed else 'note'}  {printable(finding.text)}")
    return 0 if all(f.fine or not f.needed for f in findings) else 1


def _calibrate(options: argparse.Namespace) -> int:
    place: Path = options.calibrate
    if options.store is not None:
        raise InputError(f"--calibrate: expected no --store beside it (it needs no store), got {options.store}")
    if place.is_dir() or not place.absolute().parent.is_dir():
        raise InputError(f"--calibrate: expected a file in a folder that exists, got {place}")
    from smoothsweep.orchestrator.commands.health.calibrating import calibrate

    calibrate(place)
    return 0
