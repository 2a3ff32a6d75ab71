"""The command line of `smoothsweep audit MODEL`: options of the model, the data and the attacker."""

from __future__ import annotations

import argparse
from pathlib import Path

from smoothsweep.core.arguments import add_options, add_out, refuse_missing
from smoothsweep.core.external.kinds import KINDS, as_source
from smoothsweep.core.models.embedder_kinds import FACES, GENERAL
from smoothsweep.core.models.embedder_kinds import KINDS as EMBEDDERS
from smoothsweep.orchestrator.commands.audit.portfolio import EPOCHS
from smoothsweep.orchestrator.commands.importing.requests import Reading, add_kind_options, reading_of

NAMED = ", ".join(kind.form for kind in KINDS.values() if kind.form)
PROGRAMS = ", ".join(kind.short for kind in KINDS.values() if kind.short)
ACCESS = ("gradients", "scores", "labels")
EFFORTS = ("quick", "standard", "full")
"""How much an audit tries, the least first."""
MINUTES, REFERENCE_MINUTES, FIX_MINUTES = 5.0, 20.0, 60.0


def add_audit_command(commands: argparse._SubParsersAction) -> None:
    """Add `audit` to the commands of a parser."""
    audit = commands.add_parser(
        "audit",
        help="how much does one model leak? Attacks it, judges the reconstructions, names the people exposed most",
    )
    audit.add_argument(
        "model",
        type=as_source,
        metavar="MODEL",
        help=f"a checkpoint (.pth, .pt, .tar, .safetensors), a program ({PROGRAMS}), {NAMED}, or the folder of an "
        "imported one",
    )
    _add_images(audit)
    audit.add_argument(
        "--access",
        choices=ACCESS,
        default="gradients",
        help="what the attacker sees of the model; "
        "whoever has gradients has scores and labels too (default: gradients)",
    )
    _add_effort(audit)
    _add_trainings(
        audit.add_argument_group(
            "what is trained beside the model",
            "A model of the same architecture and input on the same images, without any defense, attacked alike: what "
            "the data would leak anyway. With --trained-on-data its shadow models attack membership, too.",
        )
    )
    _add_judging(audit)
    _add_enrolling(
        audit.add_argument_group(
            "an embedder under audit",
            "Of --gallery alone: the people's templates are the classes, the cosines to them the scores. A picture is "
            "accepted as the nearest person from a threshold on, else as nobody.",
        )
    )
    audit.add_argument(
        "--architecture", metavar="NAME", help="needed for a checkpoint, e.g. resnet18 or timm:vit_tiny_patch16_224"
    )
    _add_reading(audit)
    add_kind_options(audit)
    audit.set_defaults(command=_audit)


def _add_images(audit: argparse.ArgumentParser) -> None:
    people = audit.add_mutually_exclusive_group(required=True)
    people.add_argument(
        "--data",
        type=Path,
        metavar="PATH",
        help="the private images it was trained on: a folder with one folder per person, or a Parquet file",
    )
    people.add_argument(
        "--gallery",
        type=Path,
        metavar="PATH",
        help="instead, where MODEL is a face embedder: the people who are enrolled with it, in the same form",
    )
    audit.add_argument(
        "--trained-on-data",
        action="store_true",
        help="the images of --data marked for training are those that MODEL was trained on, its test images are not: "
        "also measure how well an attacker tells the two apart (membership)",
    )
    audit.add_argument(
        "--public",
        type=Path,
        metavar="PATH",
        help="images of other people, as the attacker has them: "
        "a folder or a Parquet file; not needed with --judge synthetic, which says that all are "
        "rendered",
    )


def _add_reading(audit: argparse.ArgumentParser) -> None:
    add_options(
        audit.add_argument_group(
            "how the model reads an image",
            "Its weights do not say. What is said here is tried on the data before anything is attacked; a model that "
            "does not recognise them is refused, with the reading that fits better if there is one.",
        ),
        Reading,
    )


def _add_effort(audit: argparse.ArgumentParser) -> None:
    audit.add_argument(
        "--effort",
        choices=EFFORTS,
        help="how much is tried: quick attacks once; three runs of them, whose differences have intervals; or all "
        "attacks five times",
    )
    audit.add_argument(
        "--minutes",
        type=float,
        metavar="N",
        help="instead: the largest effort that is expected to fit into so many minutes; the first answer takes what it "
        f"takes (default: {MINUTES:g}, with --reference {REFERENCE_MINUTES:g}, with --fix {FIX_MINUTES:g})",
    )
    audit.add_argument(
        "--seeds",
        type=int,
        default=1,
        metavar="N",
        help="at least so many runs of every attack, and of every training; one is always inconclusive (default: as "
        "the effort says)",
    )


_RENDERED = [name for name in FACES if EMBEDDERS[name].rendered]
_BROUGHT = [name for name in FACES if EMBEDDERS[name].shipped is None]


def _add_judging(audit: argparse.ArgumentParser) -> None:
    add_out(audit, "where everything goes (default: audits/NAME)")
    audit.add_argument(
        "--people",
        type=int,
        default=20,
        metavar="N",
        help="how many of the people to attack, evenly from all (default: 20)",
    )
    audit.add_argument(
        "--judge",
        action="append",
        metavar="NAME=FILE",
        help=f"an independent judge: {', '.join(_BROUGHT)} with its weights, {', '.join(_RENDERED)} for rendered "
        f"faces, or {', '.join(GENERAL)} for pictures of anything; said twice, a second "
        "embedder of faces judges too, as does one whose weights lie beside the first's",
    )
    audit.add_argument(
        "--prior",
        type=Path,
        metavar="FOLDER",
        help="an imported generator to attack with, e.g. of `smoothsweep import prior random-face` (default: "
        "eigenfaces of --public)",
    )
    audit.add_argument(
        "--eyes",
        type=float,
        nargs=5,
        metavar=("LX", "LY", "RX", "RY", "SIDE"),
        help="with --prior: where the eyes are in the data's images, left then right in the image, and the images' "
        "side, in pixels: the prior's faces are cropped to that frame (default: all of its image)",
    )
    audit.add_argument("--redact", action="store_true", help="no pictures of people and no names, for sharing")


def _add_enrolling(enrolling: argparse._ArgumentGroup) -> None:
    enrolling.add_argument(
        "--templates",
        choices=("mean", "each"),
        help="one template for a person, the mean of their photographs, or each photograph as one (default: mean)",
    )
    enrolling.add_argument(
        "--threshold",
        type=float,
        metavar="COSINE",
        help="from which on a picture is accepted (default: one of a hundred images of --public is, by mistake)",
    )


def _add_trainings(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--reference",
        nargs="?",
        const="",
        metavar="ARCHITECTURE",
        help="train such a reference; the network is to be named where the model is a program, e.g. resnet18",
    )
    group.add_argument(
        "--fix",
        action="store_true",
        help="and three recipes that are said to leak less: what each leaks, at which accuracy",
    )
    group.add_argument("--epochs", type=int, metavar="N", help=f"of each of these trainings (default: {EPOCHS})")


def _audit(options: argparse.Namespace) -> int:
    refuse_missing("MODEL", options.model, "a checkpoint or an imported folder")
    for name in ("data", "gallery", "public"):
        refuse_missing(f"--{name}", getattr(options, name), "a Parquet file or a folder")
    from smoothsweep.orchestrator.commands.audit.auditing import run_audit
    from smoothsweep.orchestrator.commands.audit.judges import two_judges
    from smoothsweep.orchestrator.commands.audit.subject import AuditRequest

    judge, other_judge = two_judges(options.judge)
    return run_audit(
        AuditRequest(
            model=options.model,
            data=options.data if options.gallery is None else options.gallery,
            gallery=options.gallery is not None,
            trained_on_data=options.trained_on_data,
            templates=options.templates,
            threshold=options.threshold,
            public=options.public,
            access=options.access,
            minutes=options.minutes,
            effort=options.effort,
            out=options.out,
            people=options.people,
            judge=judge,
            other_judge=other_judge,
            redact=options.redact,
            seeds=options.seeds,
            reference=options.reference,
            fix=options.fix,
            epochs=options.epochs,
            prior=options.prior,
            eyes=None if options.eyes is None else tuple(options.eyes),
            **reading_of(options),
        )
    )
