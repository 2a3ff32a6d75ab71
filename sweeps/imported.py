"""A classifier that was trained elsewhere, brought in by `smoothsweep import target`: its card, and its name in a
sweep file."""

from __future__ import annotations

import json
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, Strict, ValidationError, model_validator

from smoothsweep.core.attacks.registry import access_needed, needs_layers
from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS, Access
from smoothsweep.core.bounds import SHA256, Count, FilePath, Fraction
from smoothsweep.core.cards import read_card
from smoothsweep.core.declared import first_mistake
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import Answers
from smoothsweep.core.external.kinds import KINDS, ForeignKind, agreed_to, is_external, needs_consent
from smoothsweep.core.models.architectures import IN_UNIT_RANGE
from smoothsweep.sweeps.base import Model, Several
from smoothsweep.sweeps.training import Architecture

if TYPE_CHECKING:
    from smoothsweep.sweeps.schema import InversionSweep


CARD, WEIGHTS = "target.json", "weights.safetensors"
CARD_VERSION = 4
MOST_CLASSES, MOST_PIXELS = 100_000, 2048

Name = Annotated[str, Field(min_length=1, max_length=300)]
Word = Annotated[str, Field(max_length=300)]
Size = Annotated[float, Field(ge=-1e6, le=1e6)]
Spread = Annotated[float, Field(ge=1e-6, le=1e6)]
Channels = Literal["rgb", "bgr"]  # red first, or blue first
Means = Annotated[tuple[Size, Size, Size], Strict(False)]  # red, green, blue; JSON has lists
Spreads = Annotated[tuple[Spread, Spread, Spread], Strict(False)]


class StatedDefense(Model):
    """What was said at the import of the classifier's training: a defense's kind, and the numbers of the tables."""

    kind: Name
    alpha: Annotated[float, Field(ge=-1000, le=1)] | None = None
    beta: Size | None = None
    lambda_input: Size | None = None
    lambda_label: Size | None = None


class Source(Model):
    """The file it came from, as `core.models.official.ImportFacts` notes it."""

    file: Word
    architecture: Architecture | ForeignKind
    num_classes: Count
    protocol: Literal["paper", "clean"]
    transform_input: bool | None = None
    sha256: Annotated[str, Field(pattern=SHA256)]
    wrapping: Word
    prefix: Word
    tensors: Count | None = None
    epoch: int | None = None


class ForeignAnswers(Model):
    """How a model answers that is no network of ours, as the import found it.

    Attributes:
        access: The most that it can give.
        rows: The number of images that it takes at once, null for any.
        layout: How a program is shown images, null as [N, 3, S, S]: channels last, or as one channel of luminance.
        dtype: The type of number that a program takes, null for float32.
        random_answers: Whether it draws noise on purpose, so that a picture's answer varies.
        leave_out: Outputs that are nobody; `class_names` and the classes are numbered without them.
    """

    answers: Answers
    access: Literal["gradients", "scores", "labels"]
    rows: Count | None = None
    layout: Literal["nhwc", "grey nchw", "grey nhwc"] | None = None
    dtype: Literal["float64", "float16", "bfloat16", "uint8", "int8", "int32", "int64"] | None = None
    random_answers: Literal[True] | None = None
    leave_out: Annotated[tuple[Annotated[int, Field(ge=0, le=MOST_CLASSES)], ...], Strict(False)] | None = None


class TargetCard(Model):
    """target.json: all that the weights do not say of themselves.

    Attributes:
        mean, std: Means and deviations of the red, green and blue channels of pictures in [0, 1]; the default maps them
            to [-1, 1], as the publication's checkpoints have it (cards of version 1 know nothing else).
        channels: Order in which the model gets them.
        class_names: Names in the order of the model's outputs; null: in the order of the data.
        stated_acc: Accuracy that those who trained it state.
        test_acc: What the import measured, of inception_v3 under both conventions of its input.
        architecture: Architecture of the network, or the kind of model where it is none of ours; `outside` then says
            how it answers.
    """

    version: Annotated[int, Field(ge=1, le=CARD_VERSION)] = 1
    architecture: Architecture | ForeignKind
    num_classes: Annotated[int, Field(ge=2, le=MOST_CLASSES)]
    image_size: Annotated[int, Field(ge=16, le=MOST_PIXELS)]
    transform_input: bool
    mean: Means = (0.5, 0.5, 0.5)
    std: Spreads = (0.5, 0.5, 0.5)
    channels: Channels = "rgb"
    outside: ForeignAnswers | None = None
    class_names: Several[Name] | None = None
    data: Word | None
    defense: StatedDefense | None
    source: Source | None = None
    stated_acc: Fraction | None = None
    test_acc: Fraction | None = None
    test_acc_other_input: Fraction | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> TargetCard:
        if self.class_names is not None:
            counts = Counter(self.class_names)
            if twice := [name for name, count in counts.items() if count > 1]:
                raise ValueError(f"class_names: expected every class once, got {twice[0]!r} twice")
            if len(self.class_names) != self.num_classes:
                raise ValueError(f"class_names: expected {self.num_classes} names, got {len(self.class_names)}")
        left = () if self.outside is None else self.outside.leave_out or ()
        if len(set(left)) < len(left) or max(left, default=0) >= self.num_classes + len(left):
            outputs = f"different outputs from 0 to {self.num_classes + len(left) - 1}"
            raise ValueError(f"leave_out: expected {outputs}, got {', '.join(map(str, left))}")
        if is_external(self.architecture) != (self.outside is not None):
            wanted = "how it answers" if self.outside is None else f"none with {self.architecture}"
            raise ValueError(f"outside: expected {wanted}, got {'none' if self.outside is None else 'one'}")
        return self

    def found(self, **values: Any) -> TargetCard:
        """The card with what an import has found, too. Raises InputError, one line, where that cannot be."""
        return checked_card(self.model_dump() | values, "import target")

    @property
    def text(self) -> str:
        """It as a file."""
        return json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"

    @property
    def access(self) -> Access:
        """The most that the model can give."""
        return "gradients" if self.outside is None else self.outside.access

    @property
    def reading(self) -> dict[str, Any]:
        """What decides how the weights read an image and number the classes, without what is usual; JSON values."""
        usual = type(self).model_fields
        reading: dict[str, Any] = {"architecture": self.architecture, "num_classes": self.num_classes}
        reading |= {"image_size": self.image_size, "transform_input": self.transform_input}
        differs = any(getattr(self, name) != usual[name].default for name in ("mean", "std", "channels"))
        if differs or self.architecture in IN_UNIT_RANGE:
            order = {} if self.channels == "rgb" else {"channels": self.channels}
            reading["normalisation"] = {"mean": list(self.mean), "std": list(self.std), **order}
        if self.outside is not None:
            reading["outside"] = self.outside.model_dump(mode="json", exclude_none=True)
        if self.class_names is not None:
            reading["class_names"] = list(self.class_names)
        accuracy = self.stated_acc if self.stated_acc is not None else self.test_acc
        return reading | ({"stated_acc": accuracy} if accuracy is not None else {})


def checked_card(values: dict[str, Any], where: str) -> TargetCard:
    """The card that these values make. Raises InputError, one line beginning with `where`."""
    try:
        return TargetCard.model_validate(values)
    except ValidationError as error:
        raise InputError(f"{where}: {first_mistake(error)}") from None


class ImportedClassifier(Model):
    """A classifier that was trained elsewhere, imported by `smoothsweep import target`."""

    imported: FilePath  # the folder that `smoothsweep import target` wrote

    # What a recipe says of a training, and this is not trained here.
    defense: ClassVar[None] = None
    stop_at_test_acc: ClassVar[None] = None
    poison: ClassVar[None] = None
    workers: ClassVar[int] = 1

    @cached_property
    def folder(self) -> Path:
        return Path(self.imported).expanduser()

    @cached_property
    def checked(self) -> TargetCard:
        """What the import noted. Raises InputError."""
        path = self.folder / CARD
        return checked_card(read_card(path, "what `smoothsweep import target` writes"), str(path))

    @property
    def file(self) -> Path:
        """What was brought in: the weights, or the program."""
        kind = KINDS.get(self.checked.architecture)
        return self.folder / (WEIGHTS if kind is None else kind.file)

    @property
    def answers_alone(self) -> str | None:
        """Words for what it is, where it shows no layers; None for a network of ours."""
        kind = KINDS.get(self.checked.architecture)
        return None if kind is None else kind.words

    @property
    def stated_defense(self) -> dict[str, Any] | None:
        """What its card says of the defense it was trained under, None where it does not."""
        defense = self.checked.defense
        return None if defense is None else defense.model_dump(exclude_none=True)

    @property
    def architecture(self) -> str:
        return self.checked.architecture

    @property
    def image_size(self) -> int:
        return self.checked.image_size


def trained_or_imported(raw: Any) -> str:
    """Which of the two a mapping in a sweep file describes: the discriminator of their union."""
    stated = raw if isinstance(raw, dict) else getattr(raw, "__dict__", {})
    return "brought_in" if "imported" in stated else "trained_here"


def check_target_outputs(sweep: InversionSweep) -> None:
    """Raise ValueError, one line naming the attack or judge, for one that needs more than the target gives."""
    for name, judge in sweep.judges.classifiers.items():
        if isinstance(judge, ImportedClassifier) and (words := judge.answers_alone):
            raise ValueError(f"judges.{name}: expected a classifier with features, got {words}, which answers alone")
    _check_what_a_defense_leaves(sweep)
    target = sweep.recipe
    if not isinstance(target, ImportedClassifier) or (words := target.answers_alone) is None:
        return
    # A folder from another person is not reason enough to run their code, or to send pictures where they say.
    if needs_consent(target.architecture):
        if not target.file.is_file():
            raise ValueError(f"recipe.imported: expected {words} described in {target.file}, got nothing there")
        if not agreed_to(target.file):
            raise ValueError(
                f"recipe.imported: expected {words} that you have brought in yourself by `smoothsweep import "
                f"target` or `audit`, got one from elsewhere: {target.file}"
            )
    gives = target.checked.access
    for name, judge in sweep.judges.built.items():
        if judge.layers:
            raise ValueError(f"judges.{name}: expected none for {words}, whose layers nobody sees")
        if _is_more(judge.needs or judge.sees, gives):
            raise ValueError(f"judges.{name}: expected none for {words} that gives {gives} alone")
    if sweep.attack is None:
        return
    attack, kind = sweep.attack.built, sweep.attack.kind
    if _is_more(needed := access_needed(attack), gives):
        expected = f"expected an attack on {gives}, which is all that {words} gives here"
        raise ValueError(f"attack.kind: {expected}, got {kind}, which needs {needed}")
    if needs_layers(attack):
        raise ValueError(f"attack.kind: expected an attack on answers alone, since {words} shows no layers, got {kind}")
    if attack.report is not None and sweep.protocol == "paper":
        expected = f"expected clean for {words} under {kind}, whose official report looks at the target's layers"
        raise ValueError(f"protocol: {expected}, got paper")


def _is_more(access: Access, given: Access) -> bool:
    return ACCESS_LEVELS.index(access) > ACCESS_LEVELS.index(given)


def _check_what_a_defense_leaves(sweep: InversionSweep) -> None:
    """Raise ValueError for an attack or a judge that needs more of a target than the answers its defense alters."""
    defense = sweep.recipe.defense
    if defense is None:
        return
    wants = {"attack": access_needed(sweep.attack.built)} if sweep.attack is not None else {}
    wants |= {f"judges.{name}": judge.sees for name, judge in sweep.judges.built.items()}
    for key, access in wants.items():
        if _is_more(access, leaves := defense.built.leaves):
            expected = f"expected nothing that sees more than {leaves} of a target with defense {defense.kind}"
            raise ValueError(f"{key}: {expected}, got one that sees {access}")
