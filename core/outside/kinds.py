"""Models under attack that are no classifiers of ours, by kind. Reading the table loads no torch."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

OutsideKind = Literal["torchscript", "torch_export", "onnx"]
OUTSIDE: tuple[str, ...] = get_args(OutsideKind)

Answers = Literal["logits", "probabilities", "labels"]
"""What a model says of an image: numbers before the softmax, after it, or the class that it decides for."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """words: for a sentence; file: what it is kept as, None where there is no file to keep; open: 'module:function' of
    (source, settings, device) -> `core.outside.model.Opened`."""

    words: str
    file: str | None
    open: str


KINDS: dict[str, Kind] = {
    "torchscript": Kind(
        words="a TorchScript program", file="program.torchscript", open="core.outside.torchscript:open_torchscript"
    ),
    "torch_export": Kind(
        words="a program of torch.export", file="program.pt2", open="core.outside.exported:open_exported"
    ),
    "onnx": Kind(words="an ONNX model", file="model.onnx", open="core.outside.onnx_file:open_onnx"),
}


def is_outside(architecture: str | None) -> bool:
    """Whether the word that stands for an architecture names a kind of model that has none of ours."""
    return architecture in KINDS


def kind_of_file(path: Path) -> str | None:
    """The kind that a file is, by what is in it; None for whatever else it may be, such as a checkpoint."""
    if path.suffix == ".onnx":
        return "onnx"
    try:
        if not path.is_file() or not zipfile.is_zipfile(path):
            return None
        with zipfile.ZipFile(path) as archive:
            names = [name.partition("/")[2] for name in archive.namelist()]
    except (OSError, zipfile.BadZipFile):
        return None
    if any(name.startswith("models/") and name.endswith(".json") for name in names):
        return "torch_export"
    return "torchscript" if "constants.pkl" in names and any(name.startswith("code/") for name in names) else None
