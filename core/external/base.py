"""What a kind of foreign model is: how it is recognised, what it is asked with, how it is opened. Loads no torch.

docs/new-model.md shows how to add one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    import torch

    from smoothsweep.core.external.model import OpenedModel
    from smoothsweep.core.models.official import ImportFacts

Answers = Literal["logits", "probabilities", "labels"]
"""What a model says of an image: numbers before the softmax, after it, or the class that it decides for."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a user allows to be asked of a model.

    Attributes:
        queries: Queries in all.
        per_second: Queries per second.
    """

    queries: int
    per_second: float


@dataclass(frozen=True, kw_only=True)
class ForeignModel:
    """A kind of model that is no network of ours, as `smoothsweep audit` and `smoothsweep import target` open it.

    Its fields are options of these commands that mean nothing to other kinds (`core.arguments.option`);
    `__post_init__` refuses values out of range.
    """

    words: ClassVar[str] = ""
    """It in a sentence, with its article: an ONNX model."""
    short: ClassVar[str] = ""
    """Its name in the list of programs that a command takes; empty for what is no program."""
    file: ClassVar[str] = ""
    """What its file is called in an imported folder and in a store. No other kind's has this name."""
    prefixes: ClassVar[tuple[str, ...]] = ()
    """How its name begins where it is no file (`python:`); `describe` then writes the file that stands for it."""
    form: ClassVar[str] = ""
    """How such a name is written, for the help."""
    makes: ClassVar[str] = ""
    """How `--architecture` begins where `make` turns a checkpoint of weights into a file of this kind."""
    computes_alone: ClassVar[bool] = False
    """Whether all that a file of this kind can do is compute: it is plain data, or a checked program that runs in an
    isolated process. Any other kind is used only where this user has imported the very file (`core.external.kinds`).
    """
    sent_pictures: ClassVar[bool] = False
    """Whether it is shown pictures as they are, so that no normalisation can be stated."""
    enrols: ClassVar[bool] = False
    """Whether its classes are people who were enrolled, so that no recipe trains another like it."""
    remark: ClassVar[str] = ""
    """A sentence that an import ends with; {name} is what the user called the model."""
    options: ClassVar[tuple[str, str]] = ("", "")
    """Help on a kind with fields: the title of its options, and what is to be known of them."""

    @classmethod
    def is_named(cls, path: Path) -> bool:
        """Whether a file is of this kind by its name alone."""
        return False

    @classmethod
    def is_archive(cls, members: Sequence[str]) -> bool:
        """Whether an archive is of this kind, by its members' paths within their folder. The table's first wins."""
        return False

    def check(self, name: str | None) -> None:
        """Raise InputError, one line, where a model must not be asked; nothing has happened yet.

        name: of a model that is no file; None for a file, and for the folder of one that was imported before.
        """

    def agree(self, folder: Path) -> None:
        """Note what this user has agreed to, for the model whose card lies, or will lie, in `folder`."""

    @property
    def budget(self) -> Budget | None:
        """What may be asked of a model; None where nothing bounds it."""
        return None

    def describe(self, name: str, folder: Path) -> str:
        """The content of the file that stands for a model without a file. folder: where its card will lie."""
        raise NotImplementedError  # asked only of kinds without a file

    def make(
        self,
        architecture: str,
        checkpoint: Path,
        *,
        num_classes: int,
        image_size: int | None,
        out: Path,
        weights: str | None,
    ) -> ImportFacts:
        """Write a file of this kind that holds the checkpoint's weights in that architecture, and say what it was."""
        raise NotImplementedError  # asked only of kinds that a checkpoint is converted to

    @staticmethod
    def open(path: Path, settings: Mapping[str, Any], device: torch.device) -> OpenedModel:
        """The model that a file of this kind holds, as a function of images.

        settings: `answers`, a word of `Answers`; once the model has been tried also `access` and `rows`, as its card
        has them.

        Raises InputError, one line, for a file that is none of this kind, is larger than it may be, or could do more
        than compute.
        """
        raise NotImplementedError  # every kind has its own: a test opens each row of the table
