"""`smoothsweep store ls | du | gc | verify | export | link | unlink`: their options."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_store_commands(commands: argparse._SubParsersAction, store_help: str) -> None:
    """Add `store` to a parser's commands."""
    text = "what a store holds, what of it may go, and other stores that it reads through"
    store = commands.add_parser("store", help=text, description=text)
    parts = store.add_subparsers(required=True, metavar="PART")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--store", default="store", metavar="STORE", help=store_help)

    def add(name: str, text: str) -> argparse.ArgumentParser:
        parser = parts.add_parser(name, help=text, description=text, parents=[common])
        parser.set_defaults(command=_command, part=name.split()[0])
        return parser

    add("ls", "the sweeps of a store, with the size of what each needs, and the stores that it reads through")
    add("du", "sizes by kind of artifact: used by a sweep, used by none, unfinished, damaged")
    gc = add("gc", "remove artifacts that no sweep of this store needs, and damaged ones")
    gc.add_argument("--yes", action="store_true", help="remove; without it the command only lists")
    add("verify", "read every artifact and compare it with its checksums")
    export = add("export", "copy all that a sweep needs into a new store")
    export.add_argument("sweep", metavar="NAME", help="the sweep's name, as `store ls` lists it")
    export.add_argument("out", type=Path, metavar="DIR", help="the new store; must not exist")
    link = add("link", "read through another store: what it has finished is not made again, and it is never written")
    link.add_argument("other", metavar="OTHER", help="the other store's folder, which all nodes see")
    unlink = add("unlink", "no longer read through another store")
    unlink.add_argument("other", metavar="OTHER", help="the other store's folder")


def _command(options: argparse.Namespace) -> int:
    from smoothsweep.orchestrator.commands.health.storage import commands

    if options.part == "gc":
        return commands.collect_garbage(options.store, remove=options.yes)
    if options.part == "export":
        return commands.export_sweep(options.store, options.sweep, options.out)
    if options.part in ("link", "unlink"):
        return commands.change_links(options.store, options.other, add=options.part == "link")
    return {"ls": commands.list_sweeps, "du": commands.list_sizes, "verify": commands.verify}[options.part](
        options.store
    )
