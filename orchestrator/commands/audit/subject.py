"""What an audit is of, and who judges it: checks of the options, the model under audit, embedders by `--judge`."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple, cast

from smoothsweep.core import screen
from smoothsweep.core.arguments import refuse_missing
from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import ForeignModel
from smoothsweep.core.external.enrolling import Templates
from smoothsweep.core.external.kinds import KINDS, Named, apply_options, is_external, kind_made_of, kind_of, name_of
from smoothsweep.core.external.recogniser import EnrolledEmbedder, read_recogniser
from smoothsweep.core.judges.table import judge_of_network
from smoothsweep.core.models.architectures import LEAST
from smoothsweep.core.models.embedder_kinds import FACES
from smoothsweep.core.models.embedder_kinds import KINDS as EMBEDDERS
from smoothsweep.core.models.weight_files import file_sha256, find_weight_file, weight_folders
from smoothsweep.core.text import shortened, suggestion
from smoothsweep.orchestrator.commands.audit.request import AuditRequest
from smoothsweep.orchestrator.commands.audit.sweep_file import check_size, imported_prior
from smoothsweep.orchestrator.commands.importing.enrolling import Gallery, import_recogniser
from smoothsweep.orchestrator.commands.importing.targets import check_description, import_target_file, read_checkpoint
from smoothsweep.orchestrator.commands.requests import Reading, TargetRequest, as_typed
from smoothsweep.orchestrator.result.audit import MOST_SEEDS
from smoothsweep.sweeps.imported import CARD, ImportedClassifier, TargetCard

NEEDS_PUBLIC = (
    "--public: expected images of the same kind that show none of these people (a folder or a Parquet file), got none: "
    "every attack draws from what such images look like"
)
NOT_OF_EMBEDDERS = (
    *("architecture", "answers", "leave_out", "random_answers", "class_names", "stated_acc", "transform_input"),
    *("reference", "fix", "trained_on_data"),
)
"""Options that say nothing of an embedder."""
ON_CARD = (
    *("architecture", "image_size", "mean", "std", "input_range", "channels", "class_names", "transform_input"),
    *("stated_acc", "answers", "weights", "leave_out", "random_answers"),
)
"""What the card of an imported folder says of a model."""


# Checks of the options


def check_request(request: AuditRequest) -> None:
    """Raise InputError for options that are wrong, before any image or weight is read."""
    refuse_missing("MODEL", request.model, "a checkpoint or an imported folder")
    for name in ("data", "gallery", "public"):
        refuse_missing(f"--{name}", getattr(request, name), "a Parquet file or a folder")
    if (request.data is None) == (request.gallery is None):
        raise InputError(f"--data, --gallery: expected one of them, got {'both' if request.data else 'neither'}")
    kind = model_kind(request)
    if (foreign := foreign_model(request, kind)) is not None:
        foreign.check(name_of(request.model))
    minutes, epochs, threshold = request.minutes, request.epochs, request.threshold
    trains = request.fix or request.reference is not None
    for option, is_right, expected, got in (
        ("--minutes", minutes is None or request.effort is None, "none with --effort, which says how much", minutes),
        ("--minutes", 0 < request.patience < math.inf, "more than 0", request.patience),
        ("--people", request.people >= 2, "at least 2", request.people),
        ("--seeds", 1 <= request.seeds <= MOST_SEEDS, f"between 1 and {MOST_SEEDS}", request.seeds),
        ("--epochs", epochs is None or trains, "only with --reference or --fix, which train", epochs),
        ("--epochs", epochs is None or epochs >= 1, "at least 1", epochs),
        ("--templates", not request.templates or request.gallery, "it with --gallery alone", request.templates),
        ("--threshold", threshold is None or request.gallery, "it with --gallery alone", threshold),
        ("--threshold", threshold is None or -1 < threshold < 1, "a cosine between -1 and 1", threshold),
        ("--eyes", not request.eyes or request.prior, "only with --prior, whose faces they frame", request.eyes),
    ):
        if not is_right:
            raise InputError(f"{option}: expected {expected}, got {as_typed(got)}")
    judge, _ = judges_of(request)
    if request.gallery:
        for option, value in request.given(*NOT_OF_EMBEDDERS):
            if value != "False":  # as of a switch that was not given
                raise InputError(f"{option}: expected none with --gallery, whose embedder has no classes of its own")
        if not judge:
            raise InputError(
                "--judge: expected another face embedder with the file of its weights, which judges what the one under "
                "audit leaks, got none"
            )
    if trains:
        _check_reference(request, kind)
    if request.prior is not None:
        imported_prior(request.prior, request.eyes, image_size=1)
    if request.public is None and not any(EMBEDDERS[one["name"]].rendered for one in judge.values()):
        raise InputError(NEEDS_PUBLIC)


def _check_reference(request: AuditRequest, kind: str | None) -> None:
    """Raise InputError for a network that cannot be trained. kind: of the model, if it is external."""
    reference = request.reference
    if reference and reference not in LEAST:
        got = f"got {shortened(reference)!r}{suggestion(reference, LEAST)}"
        raise InputError(f"--reference: expected one of {', '.join(LEAST)}, {got}")
    if not reference and is_external(kind):
        raise InputError(
            f"{'--fix' if reference is None else '--reference'}: the model is {KINDS[present(kind, 'kind')].words}, "
            "which cannot be trained here: expected --reference ARCHITECTURE, the network to train in its place, e.g. "
            "resnet18, got none"
        )
    if reference and request.image_size is not None:
        check_size(reference, request.image_size)


# The model: an imported folder, a file or an endpoint, or an embedder with its gallery


def is_imported(request: AuditRequest) -> bool:
    """Whether the model is a folder that `smoothsweep import target` wrote, whose card says how it is read."""
    return isinstance(request.model, Path) and (request.model / CARD).is_file()


def model_kind(request: AuditRequest) -> str | None:
    """The kind of an external model; None for a network of ours."""
    if not is_imported(request):
        return kind_of(request.model) or kind_made_of(request.architecture)
    architecture = card_of(cast("Path", request.model)).architecture
    return architecture if is_external(architecture) else None


def card_of(folder: Path) -> TargetCard:
    """The card of an imported model. Raises InputError."""
    return ImportedClassifier(imported=str(folder.resolve())).checked


def foreign_model(request: AuditRequest, architecture: str | None) -> ForeignModel | None:
    """The external model with the options of its kind; None for a network of ours. Raises InputError."""
    return apply_options(architecture if is_external(architecture) else None, request.options, request.model)


def check_reading(request: AuditRequest, people: int) -> None:
    """Raise InputError for what its owner says wrongly of a model to import, as far as no image shows that.

    people: number of people in the private images.
    """
    if is_imported(request) or request.gallery:  # its card was checked; enrolment tries an embedder on the gallery
        return
    target = _target(request, people)
    check_description(target)
    if model_kind(request) is None and not present(target.out, "folder").exists():
        read_checkpoint(target)  # a wrong --architecture is told before pictures are compared


def bring_in(request: AuditRequest, people: int) -> tuple[Path, TargetCard]:
    """The folder of the model, which is imported first unless an earlier audit did so, and its card. Raises
    InputError."""
    if is_imported(request):
        for option, value in request.given(*ON_CARD):
            expected = f"none beside an imported folder, whose {CARD} says it"
            raise InputError(f"{option}: expected {expected}, got {value}")
        folder = cast("Path", request.model)
    else:
        target = _target(request, people)
        folder = present(target.out, "folder")
        if request.gallery:
            _enrol(request, people, folder)
        elif not _is_known(request, folder):
            import_target_file(target)
    card = card_of(folder)
    if (foreign := foreign_model(request, card.architecture)) is not None:
        foreign.agree(folder)
    return folder.resolve(), card


def _target(request: AuditRequest, people: int) -> TargetRequest:
    """The request to `smoothsweep import target`."""
    reading = {part.name: getattr(request, part.name) for part in fields(Reading)}
    out, data = request.folder / "model", str(request.private)
    return TargetRequest(file=request.model, out=out, classes=people, data=data, **reading)


def _enrol(request: AuditRequest, people: int, folder: Path) -> None:
    """Enrol the people of --gallery with the embedder, unless an earlier audit did so. Raises InputError."""
    for option, value in request.given("weights"):
        raise InputError(f"{option}: expected none with --gallery, got {value}")
    if people < 2:
        raise InputError(f"--gallery {request.gallery}: expected at least 2 people, got {people or 'nobody'}")
    gallery = Gallery(
        people=request.private,
        templates=cast("Templates", request.templates or "mean"),
        threshold=request.threshold,
        strangers=request.public,
    )
    if not _is_known(request, folder):
        judge, _ = judges_of(request)
        import_recogniser(request.model, request, gallery, folder, judge=judge.get("embedder", {}))
    elif read_recogniser(folder / EnrolledEmbedder.file).enrolled != gallery.digest:
        wanted = "audits of this gallery, enrolled alike"
        raise InputError(f"--out {request.folder}: expected {wanted}, got those of another")


def _is_known(request: AuditRequest, folder: Path) -> bool:
    """Whether an earlier audit imported the same file. Raises InputError if it was another."""
    if not folder.exists():
        return False
    source, model = card_of(folder).source, request.model
    if isinstance(model, Named):  # what describes a model without a file stands for one
        described = present(foreign_model(request, model.kind), "kind").describe(model.text, folder)
        digest = hashlib.sha256(described.encode()).hexdigest()
    else:
        digest = file_sha256(model)
    if source is None or source.sha256 != digest:
        raise InputError(f"--out {request.folder}: expected a folder of this model's audits, got one of another model")
    screen.out(f"{model.name}: converted before, as {folder} says; remove it to state another reading")
    return True


# The judges

Judges = dict[str, dict[str, str]]
"""Judges as in the section `judges` of a sweep file: name -> settings."""

FACE = judge_of_network(next(iter(FACES)))
ENDINGS = (".safetensors", ".pth", ".pt", ".ckpt")


def judge_of(option: str | None) -> Judges:
    """The judge that `NAME=FILE` names, empty for None. Raises InputError."""
    if option is None:
        return {}
    name, _, weights = option.partition("=")
    if name not in EMBEDDERS:
        raise InputError(f"--judge: expected one of {', '.join(EMBEDDERS)}, got {shortened(name)!r}")
    kind, judge = EMBEDDERS[name], judge_of_network(name)
    if kind.shipped is not None:
        if weights:
            raise InputError(f"--judge: expected no file with {name}, whose weights are shipped")
        return {judge: {"name": name}}
    if kind.is_staged and not weights and (staged := find_weight_file(name, weight_folders())) is not None:
        weights = str(staged)
    if not weights or not Path(weights).is_file():
        where = ", or staged by smoothsweep weights stage" if kind.is_staged else ""
        raise InputError(
            f"--judge: expected {name}=FILE with the file of its weights{where}, got {shortened(option)!r}"
        )
    return {judge: {"name": name, "weights": str(Path(weights).resolve())}}


def judges_of(request: AuditRequest) -> tuple[Judges, Judges]:
    """The independent judge, and a second embedder of faces; each empty without one.

    Where no second is named, one is taken whose weights lie next to the first's or are staged; not with `--gallery`:
    they might be those of the embedder under audit. Raises InputError for a second that equals the first or embeds no
    faces.
    """
    named = request.judge or []
    if len(named) > 2:
        raise InputError(f"--judge: expected it once or twice, got it {len(named)} times")
    first = judge_of(named[0] if named else None)
    one = first.get(FACE)
    if len(named) == 2:
        second = judge_of(named[1])
        if one is None or FACE not in second:
            raise InputError(
                f"--judge: expected two embedders of faces where it is said twice, got {shortened(named[1])!r}"
            )
        if second[FACE]["name"] == one["name"]:
            raise InputError(f"--judge: expected two different embedders, got {one['name']} twice")
        return first, second
    if one is None or "weights" not in one or request.gallery:
        return first, {}
    for name in FACES:
        if name != one["name"] and EMBEDDERS[name].shipped is None:
            places = [Path(one["weights"]).with_name(f"{name}{ending}") for ending in ENDINGS]
            staged = find_weight_file(name, weight_folders()) if EMBEDDERS[name].is_staged else None
            for place in (*places, *([staged] if staged else [])):
                if place.is_file():
                    return first, {FACE: {"name": name, "weights": str(place.resolve())}}
    return first, {}


class Found(NamedTuple):
    """Whom public images show, in sentences: warnings with names and without, and notes where nothing is to warn of."""

    warnings: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


COPIES_ALONE = (
    "public images were compared for copies alone: with --judge NAME=FILE, a face embedder looks for the same people "
    "in other photographs, too"
)


def look_for_people(
    private: Path, public: Path, judges: Judges, *, bits: int | None, tell: Callable[[str], None] = screen.out
) -> Found:
    """Compare the people of two sets by the embedder of faces among the judges. Raises InputError."""
    if (judge := judges.get(FACE)) is None:
        return Found(notes=(COPIES_ALONE,))
    from smoothsweep.core.analysis.shown_people import find_shown_people

    shown = find_shown_people(private, public, judge, bits=bits, tell=tell)
    lines = shown.lines(judge["name"])
    if not shown.is_surprising:
        return Found(notes=lines)
    return Found(warnings=lines, unnamed=shown.lines(judge["name"], named=False))
