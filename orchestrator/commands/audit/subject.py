"""The options of an audit, and the checks that need neither an image nor a weight."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from smoothsweep.core.attacks.shared.base import Access
from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import KINDS, is_external
from smoothsweep.core.models.architectures import LEAST, check_image_size
from smoothsweep.core.models.embedder_kinds import KINDS as EMBEDDERS
from smoothsweep.core.spelling import suggestion
from smoothsweep.core.text import shortened
from smoothsweep.orchestrator.commands.audit.arguments import FIX_MINUTES, MINUTES, REFERENCE_MINUTES
from smoothsweep.orchestrator.commands.audit.importing import (
    EmbedderToEnrol,
    ImportedModel,
    ModelToImport,
    ModelUnderAudit,
)
from smoothsweep.orchestrator.commands.audit.judges import judge_of, second_judge
from smoothsweep.orchestrator.commands.audit.portfolio import EPOCHS, AuditTraining, audit_trainings, imported_prior
from smoothsweep.orchestrator.commands.importing.enrolling import Gallery
from smoothsweep.orchestrator.commands.importing.requests import Reading
from smoothsweep.orchestrator.reading.audit.sentences import MOST_SEEDS
from smoothsweep.sweeps.imported import CARD, TargetCard

if TYPE_CHECKING:
    from smoothsweep.core.external.enrolling import Templates
    from smoothsweep.core.external.kinds import Source

NEEDS_PUBLIC = (
    "--public: expected images of the same kind that show none of these people (a folder or a Parquet file), got none: "
    "every attack draws from what such images look like"
)


OF_CLASSES = (
    "architecture",
    "answers",
    "leave_out",
    "random_answers",
    "class_names",
    "stated_acc",
    "transform_input",
    "reference",
    "fix",
    "trained_on_data",
)
"""Options that say nothing of an embedder."""


@dataclass(frozen=True, kw_only=True)
class AuditRequest(Reading):
    """The options of `smoothsweep audit`; None where an option is absent.

    Attributes:
        model: A file, a folder or the name of the model.
        data: The private images.
        public: The attacker's images of other people.
        access: What the attacker sees of the model.
        effort: How much is tried; None: as much as fits into `minutes`.
        minutes: How long to refine the answer; None: as usual for what is trained.
        out: The folder of the pages.
        people: The most people to attack.
        judge: The first `--judge`, as typed.
        redact: Write no pictures of people and no names.
        seeds: How many runs of every attack before the slow attacks begin.
        reference: The architecture to train without any defense, "" for the model's own.
        fix: Also train recipes that are meant to leak less.
        epochs: Epochs of each of these trainings.
        prior: The folder of an imported generator.
        eyes: x and y of the left and of the right eye in the data's images, and the images' side, in pixels.
        gallery: Whether the model is an embedder, and `data` shows the people enrolled with it.
        templates: How a person is enrolled: "mean" or "each".
        threshold: The cosine from which on the embedder accepts a picture.
        other_judge: The second `--judge`, as typed.
        trained_on_data: Whether the model was trained on the training images of `data`.
    """

    model: Source
    data: Path
    public: Path | None
    access: Access
    minutes: float | None
    effort: str | None
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
    def patience(self) -> float:
        """How many minutes refining the answer may take."""
        usual = FIX_MINUTES if self.fix else REFERENCE_MINUTES if self.reference is not None else MINUTES
        return usual if self.minutes is None else self.minutes

    @property
    def people_option(self) -> str:
        """The option that names the people, for messages."""
        return "--gallery" if self.gallery else "--data"

    @property
    def folder(self) -> Path:
        """The folder of the store and the pages."""
        return self.out or Path("audits") / self.model.stem

    @property
    def title(self) -> str:
        """What pages call the model: its file without the ending, or its whole name where it is no file."""
        return self.model.stem if isinstance(self.model, Path) else self.model.name

    @cached_property
    def form(self) -> ModelUnderAudit:
        """The model, in the form in which it is named. Raises InputError."""
        reading = Reading(**{part.name: getattr(self, part.name) for part in fields(Reading)})
        common: dict[str, Any] = {"source": self.model, "data": self.data, "reading": reading, "out": self.folder}
        if isinstance(self.model, Path) and (self.model / CARD).is_file():
            return ImportedModel(**common)
        if not self.gallery:
            return ModelToImport(**common)
        templates = cast("Templates", self.templates or "mean")
        gallery = Gallery(people=self.data, templates=templates, threshold=self.threshold, strangers=self.public)
        return EmbedderToEnrol(**common, gallery=gallery, judge=self.independent.get("embedder", {}))

    @property
    def independent(self) -> dict[str, dict[str, str]]:
        """The independent judge as `judges` of a sweep file, empty without one. Raises InputError."""
        return judge_of(self.judge)

    @property
    def second(self) -> dict[str, dict[str, str]]:
        """The second independent judge as `judges` of a sweep file, empty without one. Raises InputError.

        Where no second `--judge` is given, weights of another face embedder are looked for, except under `--gallery`:
        they might be those of the embedder under audit.
        """
        return second_judge(self.independent, self.other_judge, looked_for=not self.gallery)

    def check(self) -> None:
        """Raise InputError for options that are wrong, before any image or weight is read."""
        self.form.check_kind()
        if self.minutes is not None and self.effort is not None:
            raise InputError(
                f"--minutes: expected none with --effort, which says how much is tried, got {self.minutes:g}"
            )
        if not math.isfinite(self.patience) or self.patience <= 0:
            raise InputError(f"--minutes: expected more than 0, got {self.patience:g}")
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
        self.second  # noqa: B018 - read here so that a wrong --judge is refused before any work
        if self.public is None and not rendered:
            raise InputError(NEEDS_PUBLIC)

    def _check_gallery(self) -> None:
        """Raise InputError for an embedder's options without --gallery, and a classifier's with it."""
        if not self.gallery:
            for name, value in self.given("templates", "threshold"):
                raise InputError(f"{name}: expected it with --gallery alone, got {value}")
            return
        for name, value in self.given(*OF_CLASSES):
            if value is not False:
                raise InputError(f"{name}: expected none with --gallery, whose embedder has no classes of its own")
        if self.threshold is not None and not -1 < self.threshold < 1:
            raise InputError(f"--threshold: expected a cosine between -1 and 1, got {self.threshold:g}")
        if not self.independent:
            raise InputError(
                "--judge: expected another face embedder with the file of its weights, which judges what the one under "
                "audit leaks, got none"
            )

    def _check_trainings(self) -> None:
        """Raise InputError for wrong options of the reference and the fixes."""
        if self.epochs is not None and not (self.reference is not None or self.fix):
            raise InputError(f"--epochs: expected only with --reference or --fix, which train, got {self.epochs}")
        if self.epochs is not None and self.epochs < 1:
            raise InputError(f"--epochs: expected at least 1, got {self.epochs}")
        if self.reference and self.reference not in LEAST:
            got = f"got {shortened(self.reference)!r}{suggestion(self.reference, LEAST)}"
            raise InputError(f"--reference: expected one of {', '.join(LEAST)}, {got}")
        kind = self.form.kind
        if (self.fix or self.reference is not None) and not self.reference and is_external(kind):
            command = "--reference" if self.reference is not None else "--fix"
            words = KINDS[present(kind, "kind")].words
            raise InputError(
                f"{command}: the model is {words}, which cannot be trained here: expected --reference "
                "ARCHITECTURE, the network to train in its place, e.g. resnet18, got none"
            )
        if self.reference and self.image_size is not None:
            _check_size(self.reference, self.image_size)

    def trainings(self, card: TargetCard) -> tuple[AuditTraining, ...]:
        """The reference and the fixes to train, empty where neither is asked for.

        Raises InputError where the network cannot take the model's images.
        """
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
