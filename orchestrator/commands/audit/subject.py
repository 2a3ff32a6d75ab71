"""The model under audit: what was asked, and the model as a folder that a sweep can name."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, cast

from smoothsweep.core import screen
from smoothsweep.core.attacks.shared.access import Access
from smoothsweep.core.audit.portfolio import MOST_SEEDS
from smoothsweep.core.audit.references import EPOCHS, AuditTraining, audit_trainings
from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import ForeignModel
from smoothsweep.core.external.kinds import KINDS, Named, asked_with, is_external, kind_made_of, kind_of, name_of
from smoothsweep.core.external.recogniser import EnrolledEmbedder, read_recogniser
from smoothsweep.core.models.embedder_kinds import KINDS as EMBEDDERS
from smoothsweep.core.models.image_sizes import LEAST, check_image_size
from smoothsweep.core.models.weight_files import file_sha256
from smoothsweep.core.spelling import suggestion
from smoothsweep.core.text import brief
from smoothsweep.orchestrator.commands.audit.judges import judge_of, second_judge
from smoothsweep.orchestrator.commands.audit.sweep_file import imported_prior
from smoothsweep.orchestrator.commands.importing.converting import TargetRequest, import_target_file
from smoothsweep.orchestrator.commands.importing.describing import Reading, as_typed
from smoothsweep.orchestrator.commands.importing.enrolling import Gallery, import_recogniser
from smoothsweep.sweeps.imported import CARD, ImportedClassifier, TargetCard

if TYPE_CHECKING:
    from smoothsweep.core.external.enrolling import Templates
    from smoothsweep.core.external.kinds import Source

NEEDS_PUBLIC = (
    "--public: expected images of the same kind that show none of these people (a folder or a Parquet file), got none: "
    "every attack draws from what such images look like"
)


@dataclass(frozen=True, kw_only=True)
class AuditRequest(Reading):
    """The options given on the command line; None where absent. minutes: until when to refine; people: how many
    to attack at most; seeds: how many before the slow attacks; reference: the architecture to train without defense
    beside the model, "" for the model's own; fix: train other recipes too; epochs: of these trainings. prior: the
    folder of an imported generator; eyes: where they are in the data's images, and the images' side, in pixels.
    gallery: whether the model is an embedder and `data` who is enrolled with it; templates, threshold: how.
    other_judge: the second `--judge`. trained_on_data: whether the training images of `data` are the model's own."""

    model: Source
    data: Path
    public: Path | None
    access: Access
    minutes: float
    out: Path | None
    people: int
    judge: str | None
    redact: bool
    seeds: int = 1
    reference: str | None = None
    fix: bool = False
    epochs: int | None = None
    prior: Path | None = None
    eyes: tuple[float, ...] | None = None
    gallery: bool = False
    templates: str | None = None
    threshold: float | None = None
    other_judge: str | None = None
    trained_on_data: bool = False

    @property
    def people_option(self) -> str:
        """By which the people were named."""
        return "--gallery" if self.gallery else "--data"

    @property
    def folder(self) -> Path:
        """Where everything goes."""
        return self.out or Path("audits") / self.model.stem

    @property
    def imported(self) -> Path | None:
        """The model, where it is a folder that `smoothsweep import target` wrote."""
        return self.model if isinstance(self.model, Path) and (self.model / CARD).is_file() else None

    def foreign(self, architecture: str | None) -> ForeignModel | None:
        """The model with the options given for its kind; None for a network of ours. Raises InputError."""
        return asked_with(architecture if is_external(architecture) else None, self.options, self.model)

    @property
    def _kind(self) -> str | None:
        """The kind of model that it is, where it is no network of ours."""
        if self.imported is not None:
            architecture = ImportedClassifier(imported=str(self.imported.resolve())).checked.architecture
            return architecture if is_external(architecture) else None
        return kind_of(self.model) or kind_made_of(self.architecture)

    @property
    def independent(self) -> dict[str, dict[str, str]]:
        """The independent judge as a sweep file's `judges` have it, empty without one. Raises InputError."""
        return judge_of(self.judge)

    @property
    def second(self) -> dict[str, dict[str, str]]:
        """A second one, unlike it, likewise; where nobody names it, one whose weights lie there. Raises InputError.

        Under `--gallery` none is looked for: it might be the embedder under audit.
        """
        return second_judge(self.independent, self.other_judge, looked_for=not self.gallery)

    def check(self) -> None:
        """Raise InputError for what can be seen to be wrong before anything is read."""
        if isinstance(self.model, Path) and not self.model.exists():
            raise InputError(f"MODEL {self.model}: expected a checkpoint or an imported folder, got nothing there")
        kind = self.foreign(self._kind)
        if kind is not None:
            kind.check(name_of(self.model))
        if not math.isfinite(self.minutes) or self.minutes <= 0:
            raise InputError(f"--minutes: expected more than 0, got {self.minutes:g}")
        if self.people < 2:
            raise InputError(f"--people: expected at least 2, got {self.people}")
        if not 1 <= self.seeds <= MOST_SEEDS:
            raise InputError(f"--seeds: expected between 1 and {MOST_SEEDS}, got {self.seeds}")
        self._check_gallery()
        self._check_trainings()
        if self.prior is not None:
            imported_prior(self.prior, self.eyes, image_size=1)
        elif self.eyes is not None:
            raise InputError("--eyes: expected only with --prior, whose faces they frame")
        rendered = any(EMBEDDERS[judge["name"]].rendered for judge in self.independent.values())
        self.second  # noqa: B018 - what is wrong with it is said before anything is read
        if self.public is None and not rendered:
            raise InputError(NEEDS_PUBLIC)

    def _check_gallery(self) -> None:
        """Raise InputError for what is said of an embedder and is none, and the other way round."""
        if not self.gallery:
            for name, value in (("--templates", self.templates), ("--threshold", self.threshold)):
                if value is not None:
                    raise InputError(f"{name}: expected it with --gallery alone, got {value}")
            return
        refused = {
            "--architecture": self.architecture,
            "--answers": self.answers,
            "--class-names": self.class_names,
            "--test-acc": self.stated_acc,
            "--transform-input": self.transform_input,
            "--reference": self.reference,
            "--fix": self.fix or None,
            "--trained-on-data": self.trained_on_data or None,
        }
        for name, value in refused.items():
            if value is not None:
                raise InputError(f"{name}: expected none with --gallery, whose embedder has no classes of its own")
        if self.threshold is not None and not -1 < self.threshold < 1:
            raise InputError(f"--threshold: expected a cosine between -1 and 1, got {self.threshold:g}")
        if not self.independent:
            raise InputError(
                "--judge: expected another face embedder with the file of its weights, which judges what the one under "
                "audit leaks, got none"
            )

    def check_split(self, own_test: bool) -> None:
        """Raise InputError where membership is asked of data that do not say which images were held out."""
        if self.trained_on_data and not own_test:
            raise InputError(
                f"--trained-on-data: expected --data {self.data} to say which images are for training and which for "
                "testing (folders train and test, or a column split), got no split"
            )

    def _check_trainings(self) -> None:
        """Raise InputError for what can be seen to be wrong of the trainings beside the model."""
        if self.epochs is not None and not (self.reference is not None or self.fix):
            raise InputError(f"--epochs: expected only with --reference or --fix, which train, got {self.epochs}")
        if self.epochs is not None and self.epochs < 1:
            raise InputError(f"--epochs: expected at least 1, got {self.epochs}")
        if self.reference and self.reference not in LEAST:
            got = f"got {brief(self.reference)!r}{suggestion(self.reference, LEAST)}"
            raise InputError(f"--reference: expected one of {', '.join(LEAST)}, {got}")
        if (self.fix or self.reference is not None) and not self.reference and is_external(self._kind):
            command = "--reference" if self.reference is not None else "--fix"
            words = KINDS[present(self._kind, "kind")].words
            raise InputError(
                f"{command}: the model is {words}, which cannot be trained here: expected --reference "
                "ARCHITECTURE, the network to train in its place, e.g. resnet18, got none"
            )
        if self.reference and self.image_size is not None:
            _check_size(self.reference, self.image_size)

    def trainings(self, card: TargetCard) -> tuple[AuditTraining, ...]:
        """What is to be trained beside the model. Raises InputError where the network cannot take its images."""
        if self.reference is None and not self.fix:
            return ()
        architecture = self.reference or card.architecture
        _check_size(architecture, card.image_size)
        return audit_trainings(
            architecture,
            image_size=card.image_size,
            epochs=self.epochs or EPOCHS,
            fix=self.fix,
            transform_input=card.transform_input and architecture == card.architecture,
        )


def _check_size(reference: str, image_size: int) -> None:
    try:
        check_image_size(reference, image_size)
    except InputError as error:
        raise InputError(f"--reference {error}") from None


def imported_model(request: AuditRequest, people: int) -> tuple[Path, TargetCard]:
    """The model as a folder with a card, converted where it is a checkpoint. A checkpoint that was converted by an
    earlier audit into the same place is not converted again. Raises InputError, also where the card cannot be true."""
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
    """Write the embedder with its gallery, unless this very one was enrolled before. Raises InputError."""
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
    """A folder has a card: nothing that contradicts it is said beside it."""
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
    """The model as `smoothsweep import target` takes it, to be written into a folder."""
    reading = {part.name: getattr(request, part.name) for part in fields(Reading)}
    return TargetRequest(
        file=request.model, out=folder, classes=people, data=str(request.data), data_path=None, alpha=None, **reading
    )


def _is_known(request: AuditRequest, folder: Path) -> bool:
    """Whether this very checkpoint was converted into `folder` already. Raises InputError if another one was."""
    if not folder.exists():
        return False
    source = ImportedClassifier(imported=str(folder)).checked.source
    if isinstance(request.model, Named):
        kind = present(request.foreign(request.model.kind), "kind")
        now = hashlib.sha256(kind.describe(request.model.text, folder).encode()).hexdigest()
    else:
        now = file_sha256(request.model)
    if source is None or source.sha256 != now:
        raise InputError(f"--out {request.folder}: expected a folder of this model's audits, got one of another model")
    screen.out(f"{request.model.name}: converted before, as {folder} says; remove it to state another reading")
    return True
