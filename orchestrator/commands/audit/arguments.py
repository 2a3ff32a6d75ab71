"""The command line of `smoothsweep audit MODEL`."""

from __future__ import annotations

import argparse
from pathlib import Path

from smoothsweep.core.arguments import OUT, add_options, refuse_missing, request_of
from smoothsweep.core.external.kinds import KINDS, as_source
from smoothsweep.core.models.embedder_kinds import FACES, GENERAL
from smoothsweep.core.models.embedder_kinds import KINDS as EMBEDDERS
from smoothsweep.orchestrator.commands.audit.subject import AuditRequest, Enrolled, TrainedBeside
from smoothsweep.orchestrator.commands.requests import Reading, add_kind_options, reading_of

NAMED = ", ".join(kind.form for kind in KINDS.values() if kind.form)
PROGRAMS = ", ".join(kind.short for kind in KINDS.values() if kind.short)
_RENDERED = [name for name in FACES if EMBEDDERS[name].rendered]
_BROUGHT = [name for name in FACES if EMBEDDERS[name].shipped is None]


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
    add_options(audit, AuditRequest)
    audit.add_argument(
        "--judge",
        action="append",
        metavar="NAME=FILE",
        help=f"an independent judge: {', '.join(_BROUGHT)} with its weights, {', '.join(_RENDERED)} for rendered "
        f"faces, or {', '.join(GENERAL)} for pictures of anything; said twice, a second "
        "embedder of faces judges too, as does one whose weights lie beside the first's",
    )
    audit.add_argument("--out", help="where everything goes (default: audits/NAME)", **OUT)
    trained = audit.add_argument_group(
        "what is trained beside the model",
        "A model of the same architecture and input on the same images, without any defense, attacked alike: what the "
        "data would leak anyway. With --trained-on-data its shadow models attack membership, too.",
    )
    add_options(trained, TrainedBeside)
    enrolled = audit.add_argument_group(
        "an embedder under audit",
        "Of --gallery alone: the people's templates are the classes, the cosines to them the scores. A picture is "
        "accepted as the nearest person from a threshold on, else as nobody.",
    )
    add_options(enrolled, Enrolled)
    audit.add_argument(
        "--architecture", metavar="NAME", help="needed for a checkpoint, e.g. resnet18 or timm:vit_tiny_patch16_224"
    )
    reading = audit.add_argument_group(
        "how the model reads an image",
        "Its weights do not say. What is said here is tried on the data before anything is attacked; a model that does "
        "not recognise them is refused, with the reading that fits better if there is one.",
    )
    add_options(reading, Reading)
    add_kind_options(audit)
    audit.set_defaults(command=_audit)


def _audit(options: argparse.Namespace) -> int:
    refuse_missing("MODEL", options.model, "a checkpoint or an imported folder")
    for name in ("data", "gallery", "public"):
        refuse_missing(f"--{name}", getattr(options, name), "a Parquet file or a folder")
    from smoothsweep.orchestrator.commands.audit.auditing import run_audit
    from smoothsweep.orchestrator.commands.audit.judges import two_judges

    judge, other_judge = two_judges(options.judge)
    gallery = options.gallery is not None
    typed = {
        "data": options.gallery if gallery else options.data,
        "gallery": gallery,
        "judge": judge,
        "other_judge": other_judge,
        **reading_of(options),
    }
    return run_audit(request_of(AuditRequest, options, **typed))
