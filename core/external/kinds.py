"""The kinds of foreign models by name, which of them a model is, and what this user agreed to. Loads no torch.

docs/new-model.md shows how to add one.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import ForeignModel
from smoothsweep.core.external.named import Function, HTTPEndpoint, is_own_object
from smoothsweep.core.external.programs import ONNX, TorchExport, TorchScript
from smoothsweep.core.external.recogniser import EnrolledEmbedder
from smoothsweep.core.files import write_file
from smoothsweep.core.isolation.sandbox import can_isolate
from smoothsweep.core.models.recipe import Architecture
from smoothsweep.core.plugins import with_plugins
from smoothsweep.core.readers.files import MOST_BYTES, names_of, pieces_of
from smoothsweep.core.uris import shown_uri


def _same_name_or_file(name: str, kind: type[ForeignModel], known: Mapping[str, type[ForeignModel]]) -> str | None:
    """Why a plugin's kind cannot stand beside those before it; None where it can."""
    if name in get_args(Architecture):
        return f"expected a name that no architecture has, got {name!r}"
    again = kind.file in {other_kind.file for other_kind in known.values()}
    return f"expected a file in folders that no other kind of model has, got {kind.file!r}" if again else None


_OWN: dict[str, type[ForeignModel]] = {
    "torch_export": TorchExport,
    "torchscript": TorchScript,
    "onnx": ONNX,
    "function": Function,
    "endpoint": HTTPEndpoint,
    "recogniser": EnrolledEmbedder,
}

KINDS: dict[str, type[ForeignModel]] = with_plugins("models", _OWN, ForeignModel, _same_name_or_file)
"""Name in a card, in the place of an architecture -> the kind. An archive is of the first kind that knows it."""

if TYPE_CHECKING:
    ForeignKind = str
else:
    ForeignKind = Literal[tuple(KINDS)]


@dataclass(frozen=True)
class Named:
    """A model that is no file but has a name: `python:module:factory`, or the URL of an endpoint."""

    text: str

    def __str__(self) -> str:
        return shown_uri(self.text)

    @property
    def kind(self) -> str:
        return next(name for name, kind in KINDS.items() if self.text.startswith(kind.prefixes))

    @property
    def name(self) -> str:
        return str(self)[:300]

    @property
    def stem(self) -> str:
        """A name for a folder."""
        return re.sub(r"[^A-Za-z0-9.-]+", "-", re.split(r"[?#]", str(self))[0]).strip("-.")[:80]


Source = Path | Named


def as_source(text: str) -> Source:
    """What the user calls a model, on a command line."""
    return Named(text) if any(text.startswith(kind.prefixes) for kind in KINDS.values()) else Path(text)


def name_of(source: Source) -> str | None:
    """The name of a model that is no file."""
    return source.text if isinstance(source, Named) else None


def kind_of(source: Source) -> str | None:
    """As `kind_of_file`, of anything that a model can be called."""
    return source.kind if isinstance(source, Named) else kind_of_file(source)


def kind_made_of(architecture: str | None) -> str | None:
    """The kind that a checkpoint of this architecture is turned into, such as one of timm's; None for any other."""
    prefixes = {name: kind.makes for name, kind in KINDS.items() if kind.makes and architecture is not None}
    return next((name for name, prefix in prefixes.items() if str(architecture).startswith(prefix)), None)


def is_external(architecture: str | None) -> bool:
    """Whether the word that stands for an architecture names a kind of model that has none of ours."""
    return architecture in KINDS


def kind_of_file(path: Path) -> str | None:
    """The kind that a file is, by its name or what is in it; None for anything else, such as a checkpoint."""
    named = next((name for name, kind in KINDS.items() if kind.is_named(path)), None)
    if named is not None:
        return named
    try:
        archive_members = names_of(path, f"{path}: expected a model") if path.is_file() else None
    except OSError:
        return None
    if archive_members is None:
        return None
    members = [name.partition("/")[2] for name in archive_members]
    return next((name for name, kind in KINDS.items() if kind.is_archive(members)), None)


def apply_options(kind: str | None, options: Mapping[str, Any], source: Source) -> ForeignModel | None:
    """The kind of a model with the options that were given for it; None for a network of ours.

    options: every kind's, by the names of their fields, None or False where absent.

    Raises InputError for an option of another kind, and for a value that the kind refuses.
    """
    stated = {name: value for name, value in options.items() if value is not None and value is not False}
    known = set() if kind is None else {field.name for field in fields(KINDS[kind])}
    for name in stated:
        if name not in known:
            whose = next(
                other_kind.words
                for other_kind in KINDS.values()
                if name in {field.name for field in fields(other_kind)}
            )
            raise InputError(f"--{name.replace('_', '-')}: expected it with {whose} alone, got {source}")
    return None if kind is None else KINDS[kind](**stated)


def needs_consent(kind: str) -> bool:
    """Whether a model of this kind is used only where this user has imported it.

    A card beside a program is data. A card that names code, or a place to send pictures to, is a wish, and a sweep file
    and its folder may both come from another person. A program counts as code, too, where the kernel cannot hold a
    process to computing (`core.isolation`).
    """
    return kind in KINDS and not (KINDS[kind].computes_alone and can_isolate())


def agreed_to(file: Path) -> bool:
    """Whether this user has imported what the file describes. Raises OSError where it cannot be read, and InputError
    for what is no regular file or larger than any model."""
    return is_own_object(file) or _note(file).is_file()


def agree_to(file: Path) -> None:
    """Note that this user has."""
    write_file(_note(file), "", parents=True)


def _note(file: Path) -> Path:
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    digest = hashlib.sha256()
    for piece in pieces_of(file, most_bytes=MOST_BYTES):
        digest.update(piece)
    return home / "smoothsweep" / "agreed" / digest.hexdigest()
