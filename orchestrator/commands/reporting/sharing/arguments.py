"""`smoothsweep export` and `bundle`: what may be said to them."""

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
    bundle.add_argument(
        "--with-artifacts", action="store_true", help="all finished stages too: models, training images, attacks"
    )
    bundle.set_defaults(command=_bundle)


def _bundle(options: argparse.Namespace) -> int:
    from smoothsweep.orchestrator.commands.reporting.sharing.bundle import BundleRequest, bundle

    return bundle(
        BundleRequest(
            sweep_file=options.sweep,
            overrides=options.overrides,
            store=options.store,
            out=options.out,
            images=options.with_images,
            artifacts=options.with_artifacts,
        )
    )


def _export(options: argparse.Namespace) -> int:
    from smoothsweep.orchestrator.commands.reporting.sharing.export import ExportRequest, export

    return export(
        ExportRequest(
            sweep_file=options.sweep,
            overrides=options.overrides,
            store=options.store,
            out=options.out,
            tables=options.tables,
            figures=options.figures,
            images=options.images,
            redact=options.redact,
        )
    )
