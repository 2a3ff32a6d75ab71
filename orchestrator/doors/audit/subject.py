"""The model under audit: what was asked, and the model as a folder that a sweep can name."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, fields
from pathlib import Path

from core import screen
from core.data.sources import list_labelled
from core.errors import InputError
from core.outside.kinds import Named, Source, kind_of
from core.words import brief
from orchestrator.doors.bringing.converting import TargetRequest, import_target_file
from orchestrator.doors.bringing.describing import Reading
from orchestrator.doors.bringing.named import described_source, kept_beside
from sweeps.imported import CARD, ImportedClassifier, TargetCard

EMBEDDERS = ("synthetic", "facenet", "mobilefacenet_a", "mobilefacenet_b")
NEEDS_PUBLIC = (
    "--public: expected images of the same kind that show none of these people (a folder or a Parquet file), got none: "
    "every attack draws from what such images look like"
)


@dataclass(frozen=True, kw_only=True)
class AuditRequest(Reading):
    """What whoever opened the door said; None where nothing was said. minutes: until when to refine; people: how many
    to attack at most."""

    model: Source
    data: Path
    public: Path | None
    access: str
    minutes: float
    out: Path | None
    people: int
    judge: str | None
    redact: bool

    @property
    def folder(self) -> Path:
        """Where everything goes."""
        return self.out or Path("audits") / self.model.stem

    @property
    def _kind(self) -> str | None:
        """The kind of model that it is, where it is no network of ours."""
        if isinstance(self.model, Path) and (self.model / CARD).is_file():
            return ImportedClassifier(imported=str(self.model.resolve())).checked.architecture
        return kind_of(self.model)

    @property
    def embedder(self) -> dict[str, str] | None:
        """The independent judge as a sweep file names it. Raises InputError."""
        if self.judge is None:
            return None
        name, _, weights = self.judge.partition("=")
        if name not in EMBEDDERS:
            raise InputError(f"--judge: expected one of {', '.join(EMBEDDERS)}, got {brief(name)!r}")
        if name == "synthetic":
            if weights:
                raise InputError("--judge: expected no file with synthetic, whose weights are shipped")
            return {"name": name}
        if not weights or not Path(weights).is_file():
            raise InputError(f"--judge: expected {name}=FILE with the file of its weights, got {brief(self.judge)!r}")
        return {"name": name, "weights": str(Path(weights).resolve())}

    def check(self) -> None:
        """Raise InputError for what can be seen to be wrong before anything is read."""
        if isinstance(self.model, Path) and not self.model.exists():
            raise InputError(f"MODEL {self.model}: expected a checkpoint or an imported folder, got nothing there")
        self.terms.check(self.model, self._kind)
        if not math.isfinite(self.minutes) or self.minutes <= 0:
            raise InputError(f"--minutes: expected more than 0, got {self.minutes:g}")
        if self.people < 2:
            raise InputError(f"--people: expected at least 2, got {self.people}")
        if self.public is None:
            raise InputError(NEEDS_PUBLIC)
        _ = self.embedder


def people_of(data: Path) -> int:
    """How many people the private images show. Raises InputError for data that cannot be read."""
    entries, folders = list_labelled(data)
    return len({entry.label for entry in entries} | set(folders))


def imported_model(request: AuditRequest, people: int) -> tuple[Path, TargetCard]:
    """The model as a folder with a card, converted where it is a checkpoint. A checkpoint that was converted by an
    earlier audit into the same place is not converted again. Raises InputError, also where the card cannot be true."""
    if isinstance(request.model, Path) and (request.model / CARD).is_file():
        _refuse_reading(request)
        folder = request.model
    else:
        folder = request.folder / "model"
        if not _is_known(request, folder):
            import_target_file(_as_target(request, folder, people))
    card = ImportedClassifier(imported=str(folder.resolve())).checked
    if card.architecture == "endpoint":
        request.terms.agree(kept_beside(folder))
    if card.num_classes != people:
        raise InputError(f"--data {request.data}: expected the model's {card.num_classes} people, got {people}")
    return folder.resolve(), card


def _refuse_reading(request: AuditRequest) -> None:
    """A folder has a card: nothing that contradicts it is said beside it."""
    said = {
        "--architecture": request.architecture, "--image-size": request.image_size, "--mean": request.mean,
        "--std": request.std, "--input-range": request.input_range, "--class-names": request.class_names,
        "--transform-input": request.transform_input, "--test-acc": request.stated_acc,
        "--answers": request.answers,
    }  # fmt: skip
    for name, value in said.items():
        if value is not None:
            raise InputError(f"{name}: expected none beside an imported folder, whose {CARD} says it, got {value}")


def _as_target(request: AuditRequest, folder: Path, people: int) -> TargetRequest:
    said = {part.name: getattr(request, part.name) for part in fields(Reading)}
    return TargetRequest(
        file=request.model, out=folder, classes=people, data=str(request.data), data_path=None, alpha=None, **said
    )


def _is_known(request: AuditRequest, folder: Path) -> bool:
    """Whether this very checkpoint was converted into `folder` already. Raises InputError if another one was."""
    if not folder.exists():
        return False
    source = ImportedClassifier(imported=str(folder)).checked.source
    if isinstance(request.model, Named):
        now = described_source(request.model, folder, request.terms).encode()
    else:
        now = request.model.read_bytes()
    if source is None or source.sha256 != hashlib.sha256(now).hexdigest():
        raise InputError(f"--out {request.folder}: expected a folder of this model's audits, got one of another model")
    screen.out(f"{request.model.name}: converted before, as {folder} says; remove it to state another reading")
    return True
