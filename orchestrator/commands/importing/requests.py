"""What may be said of a classifier that is brought in or audited: the options of both commands, and their request."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from smoothsweep.core.arguments import BITS, add_options, option
from smoothsweep.core.data.names import PUBLISHED_SETS
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.base import Answers
from smoothsweep.core.external.kinds import KINDS, Source

if TYPE_CHECKING:
    from smoothsweep.sweeps.data import Bits

_ORDER = ("R", "G", "B")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the owner of a classifier says of it; None where nothing was said.

    Attributes:
        architecture: Needed for weights alone.
        options: Options that one kind of foreign model alone has, by the names of its fields.
    """

    architecture: str | None = None
    image_size: int | None = option(
        "side of its images; needed unless the architecture fixes it (vit_b_16: 224, inception_v3: 299)",
        type=int,
        metavar="PIXELS",
    )
    mean: list[float] | None = option(
        "mean of the channels of pictures in [0, 1], e.g. ImageNet's (default: 0.5 0.5 0.5)",
        type=float,
        nargs=3,
        metavar=_ORDER,
    )
    std: list[float] | None = option(
        "std of the channels of pictures in [0, 1], e.g. ImageNet's (default: 0.5 0.5 0.5)",
        type=float,
        nargs=3,
        metavar=_ORDER,
    )
    input_range: list[float] | None = option(
        "instead: black and white as it was shown them, e.g. 0 1 or 0 255 (default: -1 1)",
        type=float,
        nargs=2,
        metavar=("LOW", "HIGH"),
    )
    channels: str | None = option(
        "the order in which it gets a picture's channels: bgr for one trained on files as OpenCV reads them; "
        "--mean and --std are of red, green and blue all the same (default: rgb)",
        choices=("rgb", "bgr"),
    )
    transform_input: bool | None = option(
        "inception_v3 only, and there needed: whether it maps its inputs to other statistics first",
        choices=("true", "false"),
    )
    answers: str | None = option(
        "what a program says of an image: numbers before the softmax, after it, or the class alone (default: logits)",
        choices=get_args(Answers),
    )
    bits: Bits | None = option(**BITS)
    weights: str | None = option(
        "of a checkpoint that holds several sets of weights (plain and averaged, say) take this one (default: one is "
        "taken, and the others are named)",
        metavar="NAME",
    )
    leave_out: list[int] | None = option(
        "outputs of a program that are nobody of the data, from 0: a background class, say",
        type=int,
        nargs="+",
        metavar="OUTPUT",
    )
    random_answers: bool | None = option(
        "the program draws noise on purpose, as some defenses do: a picture's answer may vary", action="store_true"
    )
    stated_acc: float | None = option(
        "the test accuracy it is said to have", "--test-acc", dest="stated_acc", type=float, metavar="FRACTION"
    )
    class_names: Path | None = option(
        "a name per line, in the order of its outputs, as the data have them (default: the data's own order)",
        type=Path,
        metavar="FILE",
    )
    options: Mapping[str, Any] = field(default_factory=dict)

    def given(self, *names: str) -> Iterator[tuple[str, Any]]:
        """The options among these attributes that were given, as typed, each with its value."""
        for name in names:
            if (value := getattr(self, name)) is not None:
                yield "--test-acc" if name == "stated_acc" else f"--{name.replace('_', '-')}", value


@dataclass(frozen=True, kw_only=True)
class TargetRequest(Reading):
    """A classifier to bring in.

    Attributes:
        data: A published set's name, or the path of own data.
        data_path: Where the published set lies.
    """

    file: Source
    out: Path
    classes: int = option("how many classes it tells apart", type=int, required=True)
    alpha: float | None = option("the smoothing factor it was trained with, for the tables", type=float)
    data: str | None = option(
        "what it was trained on, to measure its test accuracy: a folder of class folders, a Parquet file, or one of "
        f"{', '.join(PUBLISHED_SETS)}",
        metavar="NAME|PATH",
    )
    data_path: Path | None = option("where the published data set of that name lies", type=Path, metavar="DIR")


def add_kind_options(command: argparse.ArgumentParser) -> None:
    """Options that one kind of foreign model alone has."""
    for kind in KINDS.values():
        if fields(kind):
            add_options(command.add_argument_group(*kind.options), kind)


def reading_of(options: argparse.Namespace) -> dict[str, Any]:
    """What was said of how a classifier reads an image, and what its kind alone is told: fields of `Reading`."""
    kind_options = [entry.name for kind in KINDS.values() for entry in fields(kind)]
    return {
        **{entry.name: getattr(options, entry.name) for entry in fields(Reading) if entry.name != "options"},
        "transform_input": None if options.transform_input is None else options.transform_input == "true",
        "options": {name: getattr(options, name) for name in kind_options},
    }


def refuse_existing(out: Path, what: str = "folder") -> None:
    """Raise InputError rather than write over an earlier import."""
    if out.exists():
        raise InputError(f"--out {out}: expected a new {what}, got one that exists; name another or remove it")
