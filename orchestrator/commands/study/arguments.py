"""`smoothsweep study build|read`: what may be said to it."""

from __future__ import annotations

import argparse
from pathlib import Path

from smoothsweep.core.arguments import add_out


def add_study_commands(commands: argparse._SubParsersAction, sweep_options: argparse.ArgumentParser) -> None:
    """Adds `study` with its two things to a parser's commands. sweep_options: what every command of a sweep takes."""
    things = commands.add_parser("study", help="ask people which reconstructions look least like the person")
    things = things.add_subparsers(required=True, metavar="build|read")
    build = things.add_parser(
        "build", parents=[sweep_options], help="a page of questions, one file, from the pictures in the store"
    )
    add_out(
        build, "where study.html and its key study.json go; the key stays with you (default: STORE/sweeps/NAME/study)"
    )
    build.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="of people, pictures and order, from 0; annotators must "
        "not know it (default: drawn, and kept in study.json)",
    )
    build.add_argument(
        "--people", type=int, metavar="N", help="how many people to ask about (default: 150 as the paper, or all)"
    )
    build.add_argument("--examples", type=int, default=5, metavar="N", help="photographs shown of each (default: 5)")
    build.add_argument(
        "--checks",
        type=int,
        metavar="N",
        help="attention checks: a photograph of the person among the "
        "choices (default: the fewest that tell attention from guessing)",
    )
    build.add_argument(
        "--recipe",
        action="append",
        default=[],
        metavar="NAME",
        dest="recipes",
        help="a recipe to show, by the report's name for it (repeatable; default: all)",
    )
    build.add_argument("--attack", metavar="NAME", help="whose reconstructions, where the sweep has several attacks")
    build.set_defaults(command=_build)
    read = things.add_parser("read", help="shares with intervals and agreement, from the annotators' files")
    read.add_argument("answers", type=Path, nargs="+", metavar="ANSWERS", help="a file from every annotator")
    read.add_argument("--study", type=Path, metavar="FILE", help="the key (default: study.json beside the first file)")
    read.add_argument("--json", action="store_true", help="as JSON")
    read.set_defaults(command=_read)


def _build(options: argparse.Namespace) -> int:
    from smoothsweep.orchestrator.commands.study.build import StudyRequest, build_study

    request = StudyRequest(
        sweep_file=options.sweep,
        overrides=options.overrides,
        store=options.store,
        out=options.out,
        seed=options.seed,
        people=options.people,
        examples=options.examples,
        checks=options.checks,
        recipes=tuple(options.recipes),
        attack=options.attack,
    )
    return build_study(request)


def _read(options: argparse.Namespace) -> int:
    from smoothsweep.orchestrator.commands.study.read import read_study

    return read_study(options.answers, options.study, as_json=options.json)
