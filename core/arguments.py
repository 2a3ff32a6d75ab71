"""What all commands ask of their arguments: a command first, and a place to write that is one."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from smoothsweep.core.errors import InputError
from smoothsweep.core.spelling import suggestion

OWN_FLAGS = ("--help", "--version", "--print-completion")
"""Options that need no command."""


class FolderToWrite(argparse.Action):
    """A folder that is there or can be made. A run of hours must not end at a file that stands in its place."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: Any = None) -> None:
        path = Path(values)
        there = next(place for place in (path, *path.expanduser().absolute().parents) if os.path.lexists(place))
        if not there.is_dir():
            got = "a file" if there == path else f"the file {there} on the way"
            raise InputError(f"{option_string} {path}: expected a folder, got {got}")
        if not os.access(there, os.W_OK):
            raise InputError(f"{option_string} {path}: expected a folder that can be written, got {there}")
        setattr(namespace, self.dest, path)


def add_out(parser: argparse.ArgumentParser, text: str, *, required: bool = False) -> None:
    """Give a command its `--out DIR`. text: the help."""
    parser.add_argument("--out", type=Path, action=FolderToWrite, required=required, metavar="DIR", help=text)


def add_bits(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Give a command that reads images its `--bits N`."""
    parser.add_argument(
        "--bits",
        type=int,
        choices=(8, 10, 12, 14, 16),
        help="how many bits the images use whose files have 16 or 32 for each value (bits of a sweep file's data)",
    )


def refusal(out: Path | None, error: OSError) -> str | None:
    """One line where the system refused to write at `--out` or below; None where the error is about another place."""
    if out is None or not error.filename:
        return None
    refused, parent = Path(str(error.filename)).absolute(), out.absolute().parent
    if not refused.is_relative_to(parent) or not (
        refused.is_relative_to(out.absolute())
        or refused.name.lstrip(".").startswith(f"{out.name}.")
        or refused == parent
    ):
        return None
    return f"--out {out}: expected a place that can be written, got: {error.strerror}"


def refuse_missing(option: str, path: object, expected: str = "a file") -> None:
    """Raise InputError for a path at which nothing lies, before anything is imported; other than paths pass."""
    if isinstance(path, Path) and not path.expanduser().exists():
        raise InputError(f"{option} {path}: expected {expected}, got nothing there")


def refuse_flag_before_command(first: str) -> None:
    """Raise InputError for a flag of a command that stands before the command, which argparse takes its value for."""
    flag = first.partition("=")[0]
    if flag.startswith("--") and not any(known_flag.startswith(flag) for known_flag in OWN_FLAGS):
        hint = suggestion(flag, OWN_FLAGS)
        raise InputError(
            f"{flag}: expected a command before its flags (smoothsweep COMMAND ... {flag} ...), got none{hint}"
        )
