"""Models that answer and show no layers, brought in as they are: opened, tried, and kept with a card."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from smoothsweep.core import screen
from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import Answers, ForeignModel
from smoothsweep.core.external.kinds import KINDS, Named, Source, agree_to, needs_consent
from smoothsweep.core.files import making_folder, write_file
from smoothsweep.orchestrator.commands.importing.describing import (
    TargetRequest,
    as_typed,
    card_lines,
    make_card,
    program_source,
    refuse_existing,
    test_on_data,
)
from smoothsweep.sweeps.imported import CARD, TargetCard

if TYPE_CHECKING:
    from smoothsweep.core.models.official import ImportFacts

GIVES = {
    "gradients": "gradients come back through it, so that every attack on answers can be tried",
    "scores": "it gives scores and no gradients",
    "labels": "it gives the class alone",
}
SHOWN = {
    "nhwc": "[N, S, S, 3], channels last",
    "grey nchw": "[N, 1, S, S], the luminance 0.299 R + 0.587 G + 0.114 B",
    "grey nhwc": "[N, S, S, 1], the luminance 0.299 R + 0.587 G + 0.114 B",
}


def import_program(request: TargetRequest, kind: str, model: ForeignModel) -> int:
    """As `_import`, with a place for what describes a model that is no file."""
    with tempfile.TemporaryDirectory() as place:
        return _import(request, kind, model, Path(place))


def import_made(request: TargetRequest, kind: str) -> int:
    """As `_import`, of a checkpoint that is turned into a program of this kind first."""
    model = KINDS[kind]()
    for option, value in request.given("answers", "leave_out", "random_answers"):
        raise InputError(f"{option}: expected none with a checkpoint, which gives logits, got {as_typed(value)}")
    refuse_existing(request.out)
    with tempfile.TemporaryDirectory() as place:
        made = Path(place) / model.file
        facts = model.make(
            present(request.architecture, "architecture"),
            cast("Path", request.file),
            num_classes=request.classes,
            image_size=request.image_size,
            out=made,
            weights=request.weights,
        )
        return _import(replace(request, architecture=None), kind, model, Path(place), made=made, facts=facts)


def _import(
    request: TargetRequest,
    kind: str,
    model: ForeignModel,
    place: Path,
    *,
    made: Path | None = None,
    facts: ImportFacts | None = None,
) -> int:
    """Keep a program with a card that says what it gives; tried on real images where the data are given.

    made, facts: the program, where it was made here of the request's file, and what that was.

    Raises InputError, one line, for a description that cannot be true, for a file that does more than compute, and for
    a model that real images contradict; nothing is written then. Returns the exit code.
    """
    import torch

    from smoothsweep.core.external.model import try_external
    from smoothsweep.core.models.inference import Normalisation
    from smoothsweep.core.models.weight_files import file_sha256

    refuse_layers(request, model)
    refuse_existing(request.out)
    answers = cast("Answers", request.answers or "logits")
    stated: dict[str, Any] = {"answers": answers, "access": "labels" if answers == "labels" else "scores"}
    stated |= {"leave_out": request.leave_out, "random_answers": request.random_answers}
    if isinstance(request.file, Named):
        make_card(request, architecture=kind, outside=stated)  # before anything of it is written, run or asked
        model.agree(request.out)
    file = made or _source_file(request.file, request.out, model, place)
    if needs_consent(kind):
        agree_to(file)  # the user who runs this command named it
        if model.computes_alone:
            screen.err(
                f"{request.file}: this system cannot isolate a program, which could therefore do what you can do"
            )
    opened = KINDS[kind].open(file, {"answers": answers}, torch.device("cpu"))
    card = make_card(request, architecture=kind, image_size=opened.side, outside=stated)
    abilities = try_external(
        opened,
        answers=answers,
        num_classes=card.num_classes,
        image_size=card.image_size,
        normalisation=Normalisation(mean=card.mean, std=card.std, channels=card.channels),
        leave_out=request.leave_out or (),
        random=bool(request.random_answers),
        where=str(request.file),
    )
    card = card.found(outside=stated | vars(abilities))
    remarks, name = () if facts is None else facts.remarks, request.file.name
    measured = test_on_data(request, card, partial(_adopt, file), remarks)
    source = program_source(name, kind, card.num_classes, file_sha256(file)) if facts is None else facts.source(name)
    card = card.found(source=source, **measured)
    with making_folder(request.out) as draft:
        shutil.copyfile(file, draft / model.file)
        write_file(draft / CARD, card.text)
    _tell(request, model, card, [opened.remark, *remarks])
    return 0


def _source_file(source: Source, out: Path, model: ForeignModel, place: Path) -> Path:
    """The file that stands for a model: its own, or what describes it, written into `place`. Raises InputError."""
    if not isinstance(source, Named):
        return source
    file = place / model.file
    write_file(file, model.describe(source.text, out))
    return file


def _tell(request: TargetRequest, model: ForeignModel, card: TargetCard, remarks: list[str]) -> None:
    name, found = request.file.name, present(card.outside, "outside")
    screen.out(f"{name}: {model.words} of {card.num_classes} classes; {GIVES[found.access]}")
    said = {
        f"it takes batches of {found.rows}: it is asked so many images at once": found.rows,
        f"it is shown images as {SHOWN.get(str(found.layout))}": found.layout,
        f"it is shown images as numbers of the type {found.dtype}": found.dtype,
        f"outputs left out, as nobody: {', '.join(map(str, found.leave_out or ()))}": found.leave_out,
        "it draws noise on purpose: its answers to one picture vary": found.random_answers,
    }
    for line in [*(line for line, holds in said.items() if holds), *filter(None, remarks)]:
        screen.out(f"{name}: {line}")
    if model.remark:
        screen.out(model.remark.format(name=name))
    for line in card_lines(card):
        screen.out(line)
    screen.out(f"in a sweep file:  recipe: {{imported: {request.out}}}")


def _adopt(file: Path, *options: Any, where: str) -> dict[str, Any]:
    from smoothsweep.tasks.imported import adopt_external

    return adopt_external(file, *options, where=where)


def refuse_layers(request: TargetRequest, model: ForeignModel) -> None:
    """Raise InputError for what is said of a network of ours and says nothing of this kind of model."""
    for option, value in request.given("architecture", "transform_input", "weights"):
        raise InputError(f"{option}: expected none with {model.words}, which brings its own, got {as_typed(value)}")
    for option, value in request.given("mean", "std", "input_range", "channels") if model.sent_pictures else ():
        raise InputError(f"{option}: expected none with {model.words}, which is sent pictures, got {as_typed(value)}")
