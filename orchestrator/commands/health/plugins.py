"""`smoothsweep plugins`: what other packages bring, and what of it cannot be used."""

from __future__ import annotations

import argparse
from importlib import import_module

from smoothsweep.core import screen
from smoothsweep.core.plugins import FAMILIES, are_broken, plugins
from smoothsweep.core.text import printable


def add_plugins_command(commands: argparse._SubParsersAction) -> None:
    """Adds `plugins` to a parser's commands."""
    help_text = f"what other packages bring: {', '.join(FAMILIES)}"
    commands.add_parser("plugins", help=help_text).set_defaults(command=_list)


def _list(options: argparse.Namespace) -> int:
    """One line for each, those of every family in turn; 2 where one cannot be used."""
    listed = [plugin for family in FAMILIES for plugin in plugins(family)]
    if not listed:
        screen.out("no package brings anything; docs/plugins.md says how one would")
    width, wide = (
        max((len(text) for text in texts), default=0) for texts in ([plugin.name for plugin in listed], FAMILIES)
    )
    for plugin in listed:
        line = f"{plugin.name:<{width}}  {plugin.family:<{wide}}  {plugin.source}  {plugin.file or plugin.point.value}"
        screen.out(printable(line))
    for family in FAMILIES:
        import_module(FAMILIES[family])  # says on stderr what cannot be used
    return 2 if are_broken() else 0
