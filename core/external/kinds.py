"""Models under attack that are no classifiers of ours, by kind. Reading the table loads no torch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from smoothsweep.core.readers.archives import names_of
from smoothsweep.core.uris import shown_uri

OutsideKind = Literal["torchscript", "torch_export", "onnx", "function", "endpoint"]
FUNCTION, URLS = "python:", ("http://", "https://")

Answers = Literal["logits", "probabilities", "labels"]
"""What a model says of an image: numbers before the softmax, after it, or the class that it decides for."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """words: for a sentence; file: what it is kept as (of a function or endpoint, what describes it); open:
    'module:function' of (source, settings, device) -> `core.external.model.Opened`."""

    words: str
    file: str
    open: str


KINDS: dict[str, Kind] = {
    "torchscript": Kind(
        words="a TorchScript program",
        file="program.torchscript",
        open="smoothsweep.core.external.torchscript:open_torchscript",
    ),
    "torch_export": Kind(
        words="a program of torch.export", file="program.pt2", open="smoothsweep.core.external.exported:open_exported"
    ),
    "onnx": Kind(words="an ONNX model", file="model.onnx", open="smoothsweep.core.external.onnx_file:open_onnx"),
    "function": Kind(
        words="a function of the user's", file="function.json", open="smoothsweep.core.external.function:open_function"
    ),
    "endpoint": Kind(
        words="an HTTP endpoint", file="endpoint.json", open="smoothsweep.core.external.endpoint:open_endpoint"
    ),
}


@dataclass(frozen=True)
class Named:
    """A model that is no file but has a name: `python:module:factory`, or the URL of an endpoint."""

    text: str

    def __str__(self) -> str:
        return shown_uri(self.text)

    @property
    def kind(self) -> str:
        return "function" if self.text.startswith(FUNCTION) else "endpoint"

    @property
    def name(self) -> str:
        return str(self)[:300]

    @property
    def stem(self) -> str:
        """A name for a folder."""
        return re.sub(r"[^A-Za-z0-9.-]+", "-", re.split(r"[?#]", str(self))[0]).strip("-.")[:80]


Source = Path | Named


def as_source(text: str) -> Source:
    """What somebody calls a model, on a command line."""
    return Named(text) if text.startswith((FUNCTION, *URLS)) else Path(text)


def kind_of(source: Source) -> str | None:
    """As `kind_of_file`, of anything that a model can be called."""
    return source.kind if isinstance(source, Named) else kind_of_file(source)


BY_CONSENT = ("function", "endpoint")
"""Kinds that do more than compute: `core.external.consent`."""


TIMM = "timm:"
"""Before the name of one of timm's networks: its checkpoints become programs of torch.export."""


def is_timm(architecture: str | None) -> bool:
    """Whether it names one of timm's networks."""
    return architecture is not None and architecture.startswith(TIMM)


def is_outside(architecture: str | None) -> bool:
    """Whether the word that stands for an architecture names a kind of model that has none of ours."""
    return architecture in KINDS


def kind_of_file(path: Path) -> str | None:
    """The kind that a file is, by what is in it; None for whatever else it may be, such as a checkpoint."""
    if path.suffix == ".onnx":
        return "onnx"
    try:
        found = names_of(path, f"{path}: expected a model") if path.is_file() else None
    except OSError:
        return None
    if found is None:
        return None
    names = [name.partition("/")[2] for name in found]
    if any(name.startswith("models/") and name.endswith(".json") for name in names):
        return "torch_export"
    return "torchscript" if "constants.pkl" in names and any(name.startswith("code/") for name in names) else None
