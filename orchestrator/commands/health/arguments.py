"""`smoothsweep doctor`, `plugins` and `store`: their options, and what the first two print."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from smoothsweep.core import screen
from smoothsweep.core.plugins import FAMILIES, are_broken, plugins
from smoothsweep.core.text import printable


def add_doctor_command(commands: argparse._SubParsersAction) -> None:
    """Add `doctor` to a parser's commands."""
    doctor = commands.add_parser("doctor", help="what this machine can run; with --store: check a store")
    doctor.add_argument("--store", metavar="STORE", help="read this whole store, and say what in it is damaged")
    doctor.set_defaults(command=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    """0 where all that is needed is there, 1 where something is missing or damaged."""
    from smoothsweep.orchestrator.commands.health.doctor import examine, examine_artifacts

    findings = examine(options.store or "store", only_read=bool(options.store))
    findings += examine_artifacts(options.store) if options.store else []
    for finding in findings:
        screen.out(f"{'ok  ' if finding.fine else 'MISS' if finding.needed else 'note'}  {printable(finding.text)}")
    return 0 if all(f.fine or not f.needed for f in findings) else 1


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
    from smoothsweep.orchestrator.commands.health import storage

    if options.part == "gc":
        return storage.collect_garbage(options.store, remove=options.yes)
    if options.part == "export":
        return storage.export_sweep(options.store, options.sweep, options.out)
    if options.part in ("link", "unlink"):
        return storage.change_links(options.store, options.other, add=options.part == "link")
    return {"ls": storage.list_sweeps, "du": storage.list_sizes, "verify": storage.verify}[options.part](options.store)
