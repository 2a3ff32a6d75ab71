"""`smoothsweep data check` and `smoothsweep init`: what may be said of a data set on disk."""

from __future__ import annotations

import argparse
from pathlib import Path

from smoothsweep.core.arguments import add_bits
from smoothsweep.core.data.names import PUBLISHED_SETS
from smoothsweep.core.errors import InputError


def add_data_commands(commands: argparse._SubParsersAction) -> None:
    """Adds `data` and `init` to a parser's commands."""
    check = (
        commands.add_parser("data", help="look at your own data, or a published data set, on disk")
        .add_subparsers(required=True, metavar="check")
        .add_parser(
            "check",
            help="what was found, what is missing, broken or there twice; of a published set, whether "
            "counts equal the paper's",
        )
    )
    check.add_argument("path", type=Path, metavar="PATH", help="your own: a folder per person, or a Parquet file")
    check.add_argument(
        "--public",
        type=Path,
        metavar="PATH",
        help="your public images of other people: none of them may be a private one",
    )
    _add_looking(check)
    check.add_argument("--as", choices=PUBLISHED_SETS, dest="kind", help="the published data set it should be")
    check.add_argument("--classes", type=int, help="with --as: how many classes to expect (default: the paper's)")
    check.add_argument("--pictures", help="celeba only: crops, aligned, in_the_wild or in_the_wild_68")
    check.set_defaults(command=_check)
    init = commands.add_parser("init", help="write a first sweep file for your own data")
    init.add_argument(
        "--data",
        type=Path,
        metavar="PATH",
        help="the private images: a folder per person, or a Parquet file (default: a name to fill in)",
    )
    init.add_argument("--public", type=Path, metavar="PATH", help="images of other people, as the attacker has them")
    _add_looking(init)
    init.add_argument(
        "--no-faces",
        action="store_false",
        dest="faces",
        help="the images show no faces: the general judge in place of a face embedder",
    )
    init.add_argument("--out", type=Path, metavar="FILE", help="where to write (default: NAME.yaml, after the data)")
    init.set_defaults(command=_init)


def _add_looking(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--judge",
        metavar="NAME=FILE",
        help="a face embedder with the file of its weights, which looks for the private people on the public images "
        "(default: copies alone are looked for)",
    )
    add_bits(command)


def _check(options: argparse.Namespace) -> int:
    from smoothsweep.orchestrator.commands.data.checking import check_own_data, check_published_data

    if options.kind is not None:
        for name, value in (("--public", options.public), ("--judge", options.judge), ("--bits", options.bits)):
            if value is not None:
                raise InputError(f"{name} {value}: expected none beside --as {options.kind}, not your own data")
        return check_published_data(options.kind, options.path, options.classes, options.pictures)
    for name, value in (("--classes", options.classes), ("--pictures", options.pictures)):
        if value is not None:
            raise InputError(f"{name} {value}: expected --as beside it, got none")
    return check_own_data(options.path, options.public, options.judge, options.bits)


def _init(options: argparse.Namespace) -> int:
    from smoothsweep.orchestrator.commands.data.starting import Looking, write_own_sweep

    looking = Looking(judge=options.judge, bits=options.bits)
    return write_own_sweep(options.data, options.public, options.out, looking, faces=options.faces)
