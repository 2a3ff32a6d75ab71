"""The options of `smoothsweep export`, `bundle` and `study`."""

from __future__ import annotations

import argparse
from pathlib import Path

from smoothsweep.core.arguments import add_out


def add_sharing_commands(commands: argparse._SubParsersAction, sweep_options: argparse.ArgumentParser) -> None:
    """Adds them to a parser's commands. sweep_options: what every command of a sweep takes."""
    text = "tables, figures, images and references of a sweep, for a paper"
    export = commands.add_parser("export", parents=[sweep_options], help=text, description=text)
    add_out(export, "a new or empty folder", required=True)
    export.add_argument(
        "--tables", default="latex,csv,md", metavar="FORMATS", help="some of latex,csv,md, or none (default: all)"
    )
    export.add_argument(
        "--figures", default="pdf,svg,png", metavar="FORMATS", help="some of pdf,svg,png, or none (default: all)"
    )
    export.add_argument(
        "--images",
        choices=("best", "all", "none"),
        help="reconstructions as PNG: best: of each class the first, by the strongest attack on each recipe, under the "
        "first seed (default; with --redact: none)",
    )
    export.add_argument("--redact", action="store_true", help="no names of classes and no pictures, for sharing")
    export.set_defaults(command=_export)
    text = "report, tables, manifests and settings of a sweep as one file, which `report` opens"
    bundle = commands.add_parser("bundle", parents=[sweep_options], help=text, description=text)
    bundle.add_argument("out", type=Path, metavar="OUT.zip", help="a new file")
    bundle.add_argument("--with-images", action="store_true", help="training images beside reconstructions too")
    bundle.set_defaults(command=_bundle)


def add_study_commands(commands: argparse._SubParsersAction, sweep_options: argparse.ArgumentParser) -> None:
    """Adds `study` with its two things to a parser's commands. sweep_options: what every command of a sweep takes."""
    things = commands.add_parser("study", help="ask people which reconstructions look least like the person")
    things = things.add_subparsers(required=True, metavar="build|read")
    what = "a page of questions, one file, from the pictures in the store"
    build = things.add_parser("build", parents=[sweep_options], help=what)
    add_out(build, "where study.html and its key study.json go; keep the key (default: STORE/sweeps/NAME/study)")
    build.add_argument("--seed", type=int, metavar="N", help="of people, pictures and order (default: drawn, and kept)")
    build.add_argument("--people", type=int, metavar="N", help="how many to ask about (default: 150, or all)")
    build.add_argument("--examples", type=int, default=5, metavar="N", help="photographs shown of each (default: 5)")
    build.add_argument(
        "--checks",
        type=int,
        metavar="N",
        help="attention checks, a photograph among the choices (default: the fewest that tell attention from guessing)",
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
    build.set_defaults(command=_study_build)
    read = things.add_parser("read", help="shares with intervals and agreement, from the annotators' files")
    read.add_argument("answers", type=Path, nargs="+", metavar="ANSWERS", help="a file from every annotator")
    read.add_argument("--study", type=Path, metavar="FILE", help="the key (default: study.json beside the first file)")
    read.add_argument("--json", action="store_true", help="as JSON")
    read.set_defaults(command=_study_read)


def _bundle(options: argparse.Namespace) -> int:
    from smoothsweep.orchestrator.commands.reporting.sharing.bundle import bundle

    return bundle(options)


def _export(options: argparse.Namespace) -> int:
    from smoothsweep.orchestrator.commands.reporting.sharing.export import export

    return export(options)


def _study_build(options: argparse.Namespace) -> int:
    from smoothsweep.orchestrator.commands.study import build_study

    return build_study(options)


def _study_read(options: argparse.Namespace) -> int:
    from smoothsweep.orchestrator.commands.study import read_study

    return read_study(options)
