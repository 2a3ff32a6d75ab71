"""Import the model under audit into a folder that a sweep can name, unless an earlier audit did."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, cast

from smoothsweep.core import screen
from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import Named
from smoothsweep.core.external.recogniser import EnrolledEmbedder, read_recogniser
from smoothsweep.core.models.weight_files import file_sha256
from smoothsweep.orchestrator.commands.audit.subject import AuditRequest
from smoothsweep.orchestrator.commands.importing.converting import TargetRequest, import_target_file
from smoothsweep.orchestrator.commands.importing.describing import Reading, as_typed
from smoothsweep.orchestrator.commands.importing.enrolling import Gallery, import_recogniser
from smoothsweep.sweeps.imported import CARD, ImportedClassifier, TargetCard

if TYPE_CHECKING:
    from smoothsweep.core.external.enrolling import Templates


def imported_model(request: AuditRequest, people: int) -> tuple[Path, TargetCard]:
    """The folder and the card of the model, which is imported first unless an earlier audit did so.

    people: number of people in the private images. Raises InputError, also where the card contradicts the data.
    """
    if request.imported is not None:
        _refuse_reading(request)
        folder = request.imported
    elif request.gallery:
        folder = request.folder / "model"
        _enrol(request, folder, people)
    else:
        folder = request.folder / "model"
        if not _is_known(request, folder):
            import_target_file(as_target(request, folder, people))
    card = ImportedClassifier(imported=str(folder.resolve())).checked
    if (foreign := request.foreign(card.architecture)) is not None:
        foreign.agree(folder)
    if card.num_classes != people:
        wanted = f"the model's {card.num_classes} people"
        raise InputError(f"{request.people_option} {request.data}: expected {wanted}, got {people}")
    return folder.resolve(), card


def _enrol(request: AuditRequest, folder: Path, people: int) -> None:
    """Import the embedder with its gallery, unless an earlier audit did. Raises InputError."""
    if people < 2:
        raise InputError(f"--gallery {request.data}: expected at least 2 people, got {people or 'nobody'}")
    gallery = Gallery(
        people=request.data,
        templates=cast("Templates", request.templates or "mean"),
        threshold=request.threshold,
        strangers=request.public,
    )
    if folder.exists() and _is_known(request, folder):
        if read_recogniser(folder / EnrolledEmbedder.file).enrolled != gallery.digest:
            raise InputError(
                f"--out {request.folder}: expected audits of this gallery, enrolled alike, got those of another"
            )
        return
    judge = request.independent.get("embedder", {})
    import_recogniser(request.model, request, gallery, folder, judge=judge)


def _refuse_reading(request: AuditRequest) -> None:
    """Raise InputError for options that state what the card of an imported folder says already."""
    contradicting = {
        "--architecture": request.architecture,
        "--image-size": request.image_size,
        "--mean": request.mean,
        "--std": request.std,
        "--input-range": request.input_range,
        "--channels": request.channels,
        "--class-names": request.class_names,
        "--transform-input": request.transform_input,
        "--test-acc": request.stated_acc,
        "--answers": request.answers,
    }
    for name, value in contradicting.items():
        if value is not None:
            raise InputError(
                f"{name}: expected none beside an imported folder, whose {CARD} says it, got {as_typed(value)}"
            )


def as_target(request: AuditRequest, folder: Path, people: int) -> TargetRequest:
    """The request to `smoothsweep import target` that imports the model into `folder`."""
    reading = {part.name: getattr(request, part.name) for part in fields(Reading)}
    return TargetRequest(
        file=request.model, out=folder, classes=people, data=str(request.data), data_path=None, alpha=None, **reading
    )


def _is_known(request: AuditRequest, folder: Path) -> bool:
    """Whether an earlier audit imported the same file into `folder`. Raises InputError if it was another."""
    if not folder.exists():
        return False
    source = ImportedClassifier(imported=str(folder)).checked.source
    if isinstance(request.model, Named):
        kind = present(request.foreign(request.model.kind), "kind")
        digest = hashlib.sha256(kind.describe(request.model.text, folder).encode()).hexdigest()
    else:
        digest = file_sha256(request.model)
    if source is None or source.sha256 != digest:
        raise InputError(f"--out {request.folder}: expected a folder of this model's audits, got one of another model")
    screen.out(f"{request.model.name}: converted before, as {folder} says; remove it to state another reading")
    return True
