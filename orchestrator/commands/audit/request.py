"""The options of `smoothsweep audit MODEL`, which are its request."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, cast

from smoothsweep.core.arguments import OUT, option
from smoothsweep.core.attacks.shared.base import Access
from smoothsweep.core.external.kinds import KINDS, Source, as_source
from smoothsweep.core.models.embedder_kinds import FACES, GENERAL
from smoothsweep.core.models.embedder_kinds import KINDS as EMBEDDERS
from smoothsweep.orchestrator.commands.requests import Reading

EFFORTS = ("quick", "standard", "full")
"""How much an audit tries, the least first."""
MINUTES, REFERENCE_MINUTES, FIX_MINUTES = 5.0, 20.0, 60.0
EPOCHS = 40
"""Default epochs of every training beside the model."""

_NAMED = ", ".join(kind.form for kind in KINDS.values() if kind.form)
_PROGRAMS = ", ".join(kind.short for kind in KINDS.values() if kind.short)
_RENDERED = ", ".join(name for name in FACES if EMBEDDERS[name].rendered)
_BROUGHT = ", ".join(name for name in FACES if EMBEDDERS[name].shipped is None)


@dataclass(frozen=True, kw_only=True)
class TrainedBeside:
    """What is trained beside the model. reference: the architecture, "" for the model's own."""

    group: ClassVar = (
        "what is trained beside the model",
        "A model of the same architecture and input on the same images, without any defense, attacked alike: what the "
        "data would leak anyway. With --trained-on-data its shadow models attack membership, too.",
    )

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

    group: ClassVar = (
        "an embedder under audit",
        "Of --gallery alone: the people's templates are the classes, the cosines to them the scores. A picture is "
        "accepted as the nearest person from a threshold on, else as nobody.",
    )

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
    """How much does one model leak? Attacks it, judges the reconstructions, names the people exposed most.

    Attributes:
        model: A file, a folder or a name.
        data, gallery: One of the two.
    """

    model: Source = option(
        f"a checkpoint (.pth, .pt, .tar, .safetensors), a program ({_PROGRAMS}), {_NAMED}, or the folder of an "
        "imported one",
        "model",
        type=as_source,
        metavar="MODEL",
    )
    data: Path | None = option(
        "the private images it was trained on: a folder with one folder per person, or a Parquet file",
        type=Path,
        metavar="PATH",
    )
    gallery: Path | None = option(
        "instead, where MODEL is a face embedder: the people who are enrolled with it, in the same form",
        type=Path,
        metavar="PATH",
    )
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
    judge: list[str] | None = option(
        f"an independent judge: {_BROUGHT} with its weights, {_RENDERED} for rendered faces, or {', '.join(GENERAL)} "
        "for pictures of anything; said twice, a second embedder of faces judges too, as does one whose weights lie "
        "beside the first's",
        action="append",
        metavar="NAME=FILE",
    )
    out: Path | None = option("where everything goes (default: audits/NAME)", **OUT)
    architecture: str | None = option(
        "needed for a checkpoint, e.g. resnet18 or timm:vit_tiny_patch16_224", metavar="NAME"
    )

    @property
    def patience(self) -> float:
        """How many minutes refining the answer may take."""
        usual = FIX_MINUTES if self.fix else REFERENCE_MINUTES if self.reference is not None else MINUTES
        return usual if self.minutes is None else self.minutes

    @property
    def private(self) -> Path:
        """The images of the people whom the model knows."""
        return cast("Path", self.gallery or self.data)

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
