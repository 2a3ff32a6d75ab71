"""`smoothsweep diff` and `smoothsweep lineage`: what may be said to those who read the store's records."""

from __future__ import annotations

import argparse

NAMES = "a sweep's name, SWEEP:axis=value,... for a recipe, or a trial's id"


def add_record_doors(doors: argparse._SubParsersAction, store_help: str) -> None:
    """Adds them to a parser's doors. store_help: of --store."""
    diff = doors.add_parser("diff", help="what differs between two trials, recipes or runs: settings, inputs, numbers")
    diff.add_argument("a", metavar="A", help=NAMES)
    diff.add_argument("b", metavar="B", help="likewise")
    diff.add_argument("--store", default="store", metavar="STORE", help=store_help)
    diff.add_argument("--other-store", metavar="STORE", help="where B lies, if not in the same store")
    diff.set_defaults(door=_diff)
    lineage = doors.add_parser("lineage", help="from a trial, or a file of the store, to every manifest it stands on")
    lineage.add_argument("name", metavar="TRIAL|FILE", help="a trial's id (results.parquet has it), SWEEP:axis=value,"
                         "seed=value, or a file of an artifact")  # fmt: skip
    lineage.add_argument("--number", metavar="COLUMN", help="of a trial: only what this number stands on")
    lineage.add_argument("--store", default="store", metavar="STORE", help=store_help)
    lineage.set_defaults(door=_lineage)
    for door in (diff, lineage):
        door.add_argument("--json", action="store_true", help="as JSON")


def _diff(options: argparse.Namespace) -> int:
    from orchestrator.doors.records.diff import tell_differences

    return tell_differences(options.a, options.b, options.store, options.other_store, as_json=options.json)


def _lineage(options: argparse.Namespace) -> int:
    from orchestrator.doors.records.lineage import tell_lineage

    return tell_lineage(options.name, options.store, options.number, as_json=options.json)
