"""The request of `smoothsweep audit`: its options, and the checks that need neither an image nor a weight."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from smoothsweep.core.arguments import option
from smoothsweep.core.attacks.shared.base import Access
from smoothsweep.core.checks import present
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.kinds import KINDS, is_external
from smoothsweep.core.models.architectures import LEAST, check_image_size
from smoothsweep.core.models.embedder_kinds import KINDS as EMBEDDERS
from smoothsweep.core.text import shortened, suggestion
from smoothsweep.orchestrator.commands.audit.portfolio import (
    EPOCHS,
    AuditTraining,
    audit_trainings,
    imported_prior,
)
from smoothsweep.orchestrator.commands.requests import Reading
from smoothsweep.orchestrator.reading.audit import MOST_SEEDS

if TYPE_CHECKING:
    from smoothsweep.core.external.enrolling import Templates
    from smoothsweep.core.external.kinds import Source
    from smoothsweep.orchestrator.commands.audit.importing import ModelUnderAudit
    from smoothsweep.sweeps.imported import TargetCard

EFFORTS = ("quick", "standard", "full")
"""How much an audit tries, the least first."""
MINUTES, REFERENCE_MINUTES, FIX_MINUTES = 5.0, 20.0, 60.0

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
class TrainedBeside:
    """What is trained beside the model. reference: the architecture, "" for the model's own."""

    reference: str | None = option(
        "train such a reference; the network is to be named where the model is a program, e.g. resnet18",
        nargs="?",
        const="",
        metavar="ARCHITECTURE",
    )
    fix: bool = option(
        "and three recipes that are said to leak less: what each leaks, at which accuracy",
        default=False,
        action="store_true",
    )
    epochs: int | None = option(f"of each of these trainings (default: {EPOCHS})", type=int, metavar="N")


@dataclass(frozen=True, kw_only=True)
class Enrolled:
    """How the people of a gallery are enrolled with an embedder."""

    templates: str | None = option(
        "one template for a person, the mean of their photographs, or each photograph as one (default: mean)",
        choices=("mean", "each"),
    )
    threshold: float | None = option(
        "from which on a picture is accepted (default: one of a hundred images of --public is, by mistake)",
        type=float,
        metavar="COSINE",
    )


@dataclass(frozen=True, kw_only=True)
class AuditRequest(TrainedBeside, Enrolled, Reading):
    """The options of `smoothsweep audit`; None where an option is absent.

    Attributes:
        model: A file, a folder or the name of the model.
        data: The private images.
        gallery: Whether the model is an embedder, and `data` shows the people enrolled with it.
        out: The folder of the pages.
        judge, other_judge: The values of the first and of the second `--judge`.
    """

    model: Source
    data: Path
    gallery: bool = False
    out: Path | None = None
    judge: str | None = None
    other_judge: str | None = None
    trained_on_data: bool = option(
        "the images of --data marked for training are those that MODEL was trained on, its test images are not: also "
        "measure how well an attacker tells the two apart (membership)",
        default=False,
        action="store_true",
    )
    public: Path | None = option(
        "images of other people, as the attacker has them: a folder or a Parquet file; not needed with --judge "
        "synthetic, which says that all are rendered",
        type=Path,
        metavar="PATH",
    )
    access: Access = option(
        "what the attacker sees of the model; gradients include scores, and scores labels (default: gradients)",
        default="gradients",
        choices=("gradients", "scores", "labels"),
    )
    effort: str | None = option(
        "how much is tried: quick attacks once; three runs of them, whose differences have intervals; or all attacks "
        "five times",
        choices=EFFORTS,
    )
    minutes: float | None = option(
        "instead: the largest effort that is expected to fit into so many minutes; the first answer takes what it "
        f"takes (default: {MINUTES:g}, with --reference {REFERENCE_MINUTES:g}, with --fix {FIX_MINUTES:g})",
        type=float,
        metavar="N",
    )
    seeds: int = option(
        "at least so many runs of every attack, and of every training; one is always inconclusive (default: as the "
        "effort says)",
        default=1,
        type=int,
        metavar="N",
    )
    people: int = option(
        "how many of the people to attack, evenly from all (default: 20)", default=20, type=int, metavar="N"
    )
    prior: Path | None = option(
        "an imported generator to attack with, e.g. of `smoothsweep import prior random-face` (default: eigenfaces of "
        "--public)",
        type=Path,
        metavar="FOLDER",
    )
    eyes: list[float] | None = option(
        "with --prior: where the eyes are in the data's images, left then right in the image, and the images' side, in "
        "pixels: the prior's faces are cropped to that frame (default: all of its image)",
        type=float,
        nargs=5,
        metavar=("LX", "LY", "RX", "RY", "SIDE"),
    )
    redact: bool = option("no pictures of people and no names, for sharing", default=False, action="store_true")

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
        from smoothsweep.orchestrator.commands.audit.importing import EmbedderToEnrol, ImportedModel, ModelToImport
        from smoothsweep.orchestrator.commands.importing.enrolling import Gallery
        from smoothsweep.sweeps.imported import CARD

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
        from smoothsweep.orchestrator.commands.audit.judges import judge_of

        return judge_of(self.judge)

    @property
    def second(self) -> dict[str, dict[str, str]]:
        """The second independent judge as `judges` of a sweep file, empty without one. Raises InputError.

        Where no second `--judge` is given, weights of another face embedder are looked for, except under `--gallery`:
        they might be those of the embedder under audit.
        """
        from smoothsweep.orchestrator.commands.audit.judges import second_judge

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
