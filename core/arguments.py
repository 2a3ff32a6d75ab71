"""What all commands ask of their arguments: a command first, and a place to write that is one."""

from __future__ import annotations

import argparse
import os
from dataclasses import MISSING, field, fields
from pathlib import Path
from typing import Any

from smoothsweep.core.errors import InputError
from smoothsweep.core.text import suggestion

OWN_FLAGS = ("--help", "--version", "--print-completion")
"""Options that need no command."""


_TYPES = {"int": int, "float": float, "Path": Path}


def option(help: str, *flags: str, default: Any = None, **how: Any) -> Any:
    """A field of a command's request that is an option of its command line, `--its-name` unless `flags` say otherwise.

    how: what else argparse's `add_argument` takes.
    """
    made = {"default_factory": list} if isinstance(default, list) else {"default": default}
    return field(**made, metadata={"flags": flags, "help": help, **how})


def add_options(parser: argparse.ArgumentParser | argparse._ArgumentGroup, request: type[Any]) -> None:
    """Give a command the options that the fields are which a request itself declares, of the types that they state."""
    for entry in fields(request):
        if (how := dict(entry.metadata)) and entry.name in request.__annotations__:
            flags = how.pop("flags") or (f"--{entry.name.replace('_', '-')}",)
            default = entry.default if entry.default_factory is MISSING else entry.default_factory()
            stated = str(entry.type).removesuffix(" | None").removeprefix("list[").removesuffix("]")
            if stated in _TYPES and "action" not in how:
                how.setdefault("type", _TYPES[stated])
            if stated == "bool" and not {"action", "choices"} & how.keys():
                how["action"], default = "store_true", default or False
            parser.add_argument(*flags, default=default, **how)


def request_of(request: type[Any], options: argparse.Namespace, /, **more: Any) -> Any:
    """The request that was typed. more: fields that no option is, or that are something else by now."""
    typed = {entry.name: getattr(options, entry.name) for entry in fields(request) if entry.name not in more}
    return request(**typed, **more)


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


OUT: dict[str, Any] = {"type": Path, "action": FolderToWrite, "metavar": "DIR"}
"""What an option `--out` of a folder takes."""

BITS: dict[str, Any] = {
    "help": "how many bits the images use whose files have 16 or 32 for each value (bits of a sweep file's data)",
    "type": int,
    "choices": (8, 10, 12, 14, 16),
}
"""The option `--bits` of a command that reads images."""


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
