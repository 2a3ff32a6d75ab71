"""Completion for shells: a script made from the parser itself, so that it knows what the commands know."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import shtab

from smoothsweep.sweeps.load import shipped_sweeps

SHELLS = ("bash", "zsh")
PLACES = ("DIR", "FILE", "MODEL", "PATH", "STORE")
_SWEEPS = "_smoothsweep_sweeps"


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The text that `eval` or a file of completions takes. parser: of the whole command; shell: one of `SHELLS`."""
    _say_what_is_a_path(parser)
    preamble: Any = {name: _sweep_function(name) for name in SHELLS}  # shtab takes one for each shell, too
    return shtab.complete(parser, shell=shell, preamble=preamble)


def _say_what_is_a_path(parser: argparse.ArgumentParser) -> None:
    actions: list[Any] = list(parser._actions)  # to which shtab adds `complete`
    for action in actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _say_what_is_a_path(command)
        elif action.dest in ("sweep", "sweeps"):
            action.complete = dict.fromkeys(SHELLS, _SWEEPS)
        elif action.type is Path or action.metavar in PLACES:
            action.complete = shtab.FILE


def _sweep_function(shell: str) -> str:
    """Shipped sweeps by name, and files that may be some."""
    names = " ".join(shipped_sweeps())
    if shell == "bash":
        return f'{_SWEEPS}() {{ compgen -W "{names}" -- "$1"; compgen -f -X "!*.yaml" -- "$1"; compgen -d -- "$1"; }}'
    files = '_files -g "*.yaml"'
    return f"{_SWEEPS}() {{ _alternative 'shipped:shipped sweep:({names})' 'files:sweep file:{files}' }}"
