"""`smoothsweep doctor`: its options, and what is printed."""

from __future__ import annotations

import argparse

from smoothsweep.core import screen
from smoothsweep.core.text import printable


def add_doctor_command(commands: argparse._SubParsersAction) -> None:
    """Add `doctor` to a parser's commands."""
    doctor = commands.add_parser("doctor", help="what this machine can run; with --store: check a store")
    doctor.add_argument("--store", metavar="STORE", help="read this whole store, and say what in it is damaged")
    doctor.set_defaults(command=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    """0 where all that is needed is there, 1 where something is missing or damaged."""
    from smoothsweep.orchestrator.commands.health.doctor import examine, examine_artifacts

    findings = examine(options.store or "store", only_read=bool(options.store))
    findings += examine_artifacts(options.store) if options.store else []
    for finding in findings:
        screen.out(f"{'ok  ' if finding.fine else 'MISS' if finding.needed else 'note'}  {printable(finding.text)}")
    return 0 if all(f.fine or not f.needed for f in findings) else 1
