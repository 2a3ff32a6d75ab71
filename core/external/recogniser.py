"""Face recognisers without a classification layer: an embedder and the people who are enrolled with it.

A picture's logits are the cosines between its embedding and each person's templates, times `SCALE`. The nearest
person is the class, and below a threshold the picture is accepted as nobody. One safetensors file holds both.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import ForeignModel
from smoothsweep.core.external.programs import ONNX, TorchExport, TorchScript
from smoothsweep.core.files import write_file

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from smoothsweep.core.external.model import OpenedModel

WHAT = "a face embedder with its gallery"
SUFFIX = ".recogniser"
SCALE = 16.0
"""Scale of cosines as logits: with it a softmax prefers the nearest person and still tells two likenesses apart.
Trainings of embedders take 30 to 64, by which the probability of every good likeness would be 1."""
MOST_BYTES, MOST_SAID = 3 * 2**30, 2**16
NETWORK = "network"
"""The inner kind of an embedder of ours, whose name is said beside; any other is a kind of program."""

PROGRAMS: dict[str, type[ForeignModel]] = {"torch_export": TorchExport, "torchscript": TorchScript, "onnx": ONNX}
"""The kinds of program that an embedder may be, as `core.external.kinds` names them: all that can only compute."""


@dataclass(frozen=True, kw_only=True)
class Recogniser:
    """What the file holds.

    Attributes:
        embedder: The content of the embedder's own file.
        kind: The kind of program, or `NETWORK`.
        name: The embedder's, "" for a program.
        templates: float32 [T, D] of unit length.
        owners: int64 [T], each one's class from 0.
        threshold: The cosine from which on a picture is accepted.
        enrolled: A digest of who was enrolled, and how.
    """

    embedder: bytes
    kind: str
    name: str
    templates: Tensor
    owners: Tensor
    threshold: float
    enrolled: str = ""


class EnrolledEmbedder(ForeignModel):
    """What `smoothsweep audit --gallery` writes of an embedder."""

    words = WHAT
    file = f"model{SUFFIX}"
    computes_alone = True
    enrols = True

    @classmethod
    def is_named(cls, path: Path) -> bool:
        """Nothing else ends like this."""
        return path.suffix == SUFFIX

    @staticmethod
    def open(path: Path, settings: Mapping[str, Any], device: torch.device) -> OpenedModel:
        """The embedder, opened as its own kind is, and the cosines to the templates."""
        from dataclasses import replace

        held = read_recogniser(path)
        opened = open_embedder(held.kind, held.name, held.embedder, settings, device, where=str(path))
        similar = SimilarityClassifier(opened.answer, held.templates.to(device), held.owners.to(device))
        return replace(opened, answer=similar, accepts=SCALE * held.threshold)


def similarities(features: Tensor, templates: Tensor, owners: Tensor) -> Tensor:
    """Cosines [N, C] of each person's nearest template, of unit features [N, D]."""
    cosines, classes = features @ templates.T, int(owners.max()) + 1
    if len(templates) == classes:
        return cosines[:, owners.argsort()]
    rows = owners.expand(len(cosines), -1)
    return cosines.new_full((len(cosines), classes), -1.0).scatter_reduce(1, rows, cosines, "amax")


class SimilarityClassifier:
    """images -> logits [n, C]: of each class the largest cosine among its templates, times `SCALE`."""

    def __init__(self, embed: Callable[[Tensor], Tensor], templates: Tensor, owners: Tensor) -> None:
        self._embed, self._templates, self._owners = embed, templates, owners

    def __call__(self, images: Tensor) -> Tensor:
        """Raises InputError for embeddings of another length than the templates'."""
        from torch.nn import functional

        features = self._embed(images)
        if features.ndim != 2 or features.shape[1] != self._templates.shape[1]:
            wanted = f"embeddings [{len(images)}, {self._templates.shape[1]}]"
            raise InputError(f"embedder: expected {wanted}, got {list(features.shape)}")
        return SCALE * similarities(functional.normalize(features.float(), dim=1), self._templates, self._owners)


def open_embedder(
    kind: str, name: str, content: bytes, settings: Mapping[str, Any], device: torch.device, *, where: str
) -> OpenedModel:
    """An embedder by its file's content: answers with embeddings [n, D]. Raises InputError beginning with `where`."""
    from smoothsweep.core.external.model import OpenedModel

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / (PROGRAMS[kind].file if kind in PROGRAMS else "weights.safetensors")
        write_file(place, content)
        try:
            if kind in PROGRAMS:
                return PROGRAMS[kind].open(place, {**settings, "answers": "logits"}, device)
            from smoothsweep.core.models.embedders import load_embedder

            return OpenedModel(answer=load_embedder(name, place).to(device))
        except InputError as error:
            raise InputError(str(error).replace(str(place), where)) from None


def write_recogniser(held: Recogniser) -> bytes:
    """The content of the file."""
    import torch
    from safetensors.torch import save

    description = json.dumps(
        {"kind": held.kind, "name": held.name, "threshold": held.threshold, "enrolled": held.enrolled}
    ).encode()
    return save(
        {
            "embedder": torch.frombuffer(bytearray(held.embedder), dtype=torch.uint8),
            "said": torch.frombuffer(bytearray(description), dtype=torch.uint8),
            "templates": held.templates.contiguous(),
            "owners": held.owners.contiguous(),
        }
    )


def read_recogniser(path: Path) -> Recogniser:
    """What a file holds. Raises InputError, one line beginning with its path."""
    import torch

    from smoothsweep.core.models.embedder_kinds import FACES
    from smoothsweep.core.readers.tensors import UnreadableTensors, read_safetensors

    try:
        tensors = read_safetensors(path, most_bytes=MOST_BYTES)
        if tensors["said"].dtype != torch.uint8 or len(tensors["said"]) > MOST_SAID:
            raise ValueError("another description")
        description = json.loads(bytes(tensors["said"].tolist()))
        templates, owners = tensors["templates"], tensors["owners"]
        kind, name, threshold = description["kind"], description["name"], float(description["threshold"])
        enrolled = str(description["enrolled"])
        _check_shapes(templates, owners, threshold)
        if kind == NETWORK and name not in FACES:
            raise ValueError(f"the embedder {name!r}")
        if kind != NETWORK and kind not in PROGRAMS:
            raise ValueError(f"an embedder of the kind {kind!r}")
        embedder = tensors["embedder"].numpy().tobytes()
    except (UnreadableTensors, OSError, LookupError, TypeError, ValueError, RecursionError) as error:
        got = " ".join(str(error).split())[:150] or type(error).__name__
        raise InputError(f"{path}: expected {WHAT}, got: {got}") from None
    return Recogniser(
        embedder=embedder,
        kind=kind,
        name=name,
        templates=templates,
        owners=owners,
        threshold=threshold,
        enrolled=enrolled,
    )


def _check_shapes(templates: Tensor, owners: Tensor, threshold: float) -> None:
    import torch

    whole = templates.ndim == 2 and owners.shape == templates.shape[:1] and len(owners) >= 2
    if not whole or templates.dtype != torch.float32 or owners.dtype != torch.int64:
        raise ValueError(f"templates {list(templates.shape)} and owners {list(owners.shape)}")
    if not bool(templates.isfinite().all()) or not -1 <= threshold <= 1:
        raise ValueError("templates or a threshold that are no numbers of a cosine")
    if sorted(set(owners.tolist())) != list(range(int(owners.max()) + 1)):
        raise ValueError("people without a template")
