"""Bring the model under audit in: an imported folder, a file or an endpoint, or an embedder with its gallery."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from smoothsweep.core import screen
from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import ForeignModel
from smoothsweep.core.external.kinds import Named, Source, apply_options, is_external, kind_made_of, kind_of, name_of
from smoothsweep.core.external.recogniser import EnrolledEmbedder, read_recogniser
from smoothsweep.core.models.weight_files import file_sha256
from smoothsweep.orchestrator.commands.importing.enrolling import Gallery, import_recogniser
from smoothsweep.orchestrator.commands.importing.targets import (
    as_typed,
    check_description,
    import_target_file,
    read_checkpoint,
)
from smoothsweep.orchestrator.commands.requests import Reading, TargetRequest
from smoothsweep.sweeps.imported import CARD, ImportedClassifier, TargetCard

ON_CARD = (
    "architecture",
    "image_size",
    "mean",
    "std",
    "input_range",
    "channels",
    "class_names",
    "transform_input",
    "stated_acc",
    "answers",
    "weights",
    "leave_out",
    "random_answers",
)
"""What the card of an imported folder says of a model."""


@dataclass(frozen=True, kw_only=True)
class ModelUnderAudit(ABC):
    """The model under audit, in one of the forms that a user can name.

    Attributes:
        source: Its file, its folder or its name.
        data: The private images.
        reading: What its owner says of it.
        out: The folder of the audit.
    """

    source: Source
    data: Path
    reading: Reading
    out: Path

    @property
    def kind(self) -> str | None:
        """The kind of an external model; None for a network of ours."""
        return kind_of(self.source) or kind_made_of(self.reading.architecture)

    def foreign(self, architecture: str | None) -> ForeignModel | None:
        """The external model with the options of its kind; None for a network of ours. Raises InputError."""
        kind = architecture if is_external(architecture) else None
        return apply_options(kind, self.reading.options, self.source)

    def check_kind(self) -> None:
        """Raise InputError for options of another kind of model."""
        foreign = self.foreign(self.kind)
        if foreign is not None:
            foreign.check(name_of(self.source))

    @abstractmethod
    def check_reading(self, people: int) -> None:
        """Raise InputError for what its owner says wrongly of it, as far as no image shows that.

        people: number of people in the private images.
        """

    @abstractmethod
    def bring_in(self, people: int) -> Path:
        """The folder of the model, which is imported first unless an earlier audit did so. Raises InputError."""

    def read_card(self, folder: Path) -> TargetCard:
        """The card of the imported model, whose queries the user agreed to. Raises InputError."""
        card = ImportedClassifier(imported=str(folder.resolve())).checked
        if (foreign := self.foreign(card.architecture)) is not None:
            foreign.agree(folder)
        return card

    @property
    def _folder(self) -> Path:
        """Where an audit imports to."""
        return self.out / "model"

    def _is_known(self) -> bool:
        """Whether an earlier audit imported the same file. Raises InputError if it was another."""
        folder = self._folder
        if not folder.exists():
            return False
        source = ImportedClassifier(imported=str(folder)).checked.source
        if source is None or source.sha256 != self._digest():
            raise InputError(f"--out {self.out}: expected a folder of this model's audits, got one of another model")
        screen.out(f"{self.source.name}: converted before, as {folder} says; remove it to state another reading")
        return True

    def _digest(self) -> str:
        """SHA-256 of the model's file, or of what describes a model without a file."""
        if not isinstance(self.source, Named):
            return file_sha256(self.source)
        kind = present(self.foreign(self.source.kind), "kind")
        return hashlib.sha256(kind.describe(self.source.text, self._folder).encode()).hexdigest()


class ImportedModel(ModelUnderAudit):
    """A folder that `smoothsweep import target` wrote, whose card says how the model is read."""

    @property
    def kind(self) -> str | None:
        architecture = ImportedClassifier(imported=str(cast("Path", self.source).resolve())).checked.architecture
        return architecture if is_external(architecture) else None

    def check_reading(self, people: int) -> None:
        """Accept all: the card was checked when it was written."""

    def bring_in(self, people: int) -> Path:
        for option, value in self.reading.given(*ON_CARD):
            got = f"got {as_typed(value)}"
            raise InputError(f"{option}: expected none beside an imported folder, whose {CARD} says it, {got}")
        return cast("Path", self.source)


class ModelToImport(ModelUnderAudit):
    """A checkpoint, a program or the name of an endpoint."""

    def check_reading(self, people: int) -> None:
        check_description(self._target(people))
        if self.kind is None and not self._folder.exists():
            read_checkpoint(self._target(people))  # a wrong --architecture is told before pictures are compared

    def bring_in(self, people: int) -> Path:
        if not self._is_known():
            import_target_file(self._target(people))
        return self._folder

    def _target(self, people: int) -> TargetRequest:
        """The request to `smoothsweep import target`."""
        return TargetRequest(
            file=self.source,
            out=self._folder,
            classes=people,
            data=str(self.data),
            data_path=None,
            alpha=None,
            **vars(self.reading),
        )


@dataclass(frozen=True, kw_only=True)
class EmbedderToEnrol(ModelUnderAudit):
    """An embedder, whose classes are the people of a gallery.

    Attributes:
        gallery: Who is enrolled and how.
        judge: Settings of the embedder that judges.
    """

    gallery: Gallery
    judge: Mapping[str, str]

    def check_reading(self, people: int) -> None:
        """Accept all: enrolment tries the embedder on the gallery."""

    def bring_in(self, people: int) -> Path:
        for option, value in self.reading.given("weights"):
            raise InputError(f"{option}: expected none with --gallery, got {as_typed(value)}")
        if people < 2:
            raise InputError(f"--gallery {self.data}: expected at least 2 people, got {people or 'nobody'}")
        if not self._is_known():
            import_recogniser(self.source, self.reading, self.gallery, self._folder, judge=dict(self.judge))
        elif read_recogniser(self._folder / EnrolledEmbedder.file).enrolled != self.gallery.digest:
            raise InputError(f"--out {self.out}: expected audits of this gallery, enrolled alike, got those of another")
        return self._folder
