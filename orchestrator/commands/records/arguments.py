"""`smoothsweep diff`, `lineage` and `rejudge`: what may be said to those who begin with what is in the store."""

from __future__ import annotations

import argparse

from smoothsweep.core.arguments import add_out

NAMES = "a sweep's name, SWEEP:RECIPE with the report's name of it, or a trial's id"


def add_record_commands(
    commands: argparse._SubParsersAction, store_help: str, sweep_options: argparse.ArgumentParser
) -> None:
    """Adds them to a parser's commands. store_help: of --store; sweep_options: what every command of a sweep takes."""
    diff = commands.add_parser("diff", help="how two trials, recipes or runs differ: settings, inputs, numbers")
    diff.add_argument("a", metavar="A", help=NAMES)
    diff.add_argument("b", metavar="B", help="likewise")
    diff.add_argument("--store", default="store", metavar="STORE", help=store_help)
    diff.add_argument("--other-store", metavar="STORE", help="where B lies, if not in the same store")
    diff.set_defaults(command=_diff)
    lineage = commands.add_parser("lineage", help="every manifest that a trial, a report or a file rests on")
    lineage.add_argument(
        "name",
        metavar="TRIAL|FILE",
        help="a trial's id, SWEEP:TRIAL as `status` names it, a report.html, or an artifact's file",
    )
    lineage.add_argument("--number", metavar="COLUMN", help="of a trial: only what this number stands on")
    lineage.add_argument("--store", default="store", metavar="STORE", help=store_help)
    lineage.set_defaults(command=_lineage)
    _add_rejudge(commands, sweep_options)
    for command in (diff, lineage):
        command.add_argument("--json", action="store_true", help="as JSON")


def _add_rejudge(commands: argparse._SubParsersAction, sweep_options: argparse.ArgumentParser) -> None:
    rejudge = commands.add_parser(
        "rejudge", parents=[sweep_options], help="other judges for the images in the store; nothing is attacked anew"
    )
    rejudge.add_argument(
        "--judges",
        nargs="+",
        action="extend",
        required=True,
        metavar="KEY=VALUE",
        help="set a key below judges, e.g. embedder.name=facenet, or fidelity={} for a judge more",
    )
    rejudge.add_argument("--name", metavar="NAME", help="of the new table, beside the old one (default: NAME-rejudged)")
    add_out(rejudge, "where the report goes (default: STORE/sweeps/NAME)")
    rejudge.add_argument("--yes", action="store_true", help="the answer where it would ask, as `run` does")
    rejudge.set_defaults(command=_rejudge)


def _diff(options: argparse.Namespace) -> int:
    from smoothsweep.orchestrator.commands.records.diff import print_differences

    return print_differences(options.a, options.b, options.store, options.other_store, as_json=options.json)


def _lineage(options: argparse.Namespace) -> int:
    from smoothsweep.orchestrator.commands.records.lineage import print_lineage

    return print_lineage(options.name, options.store, options.number, as_json=options.json)


def _rejudge(options: argparse.Namespace) -> int:
    from smoothsweep.orchestrator.cluster import interrupts
    from smoothsweep.orchestrator.commands.run import rejudge

    interrupts.listen()
    asked = options.sweep, options.overrides, options.judges, options.store, options.name, options.out
    return rejudge(*asked, yes=options.yes)
