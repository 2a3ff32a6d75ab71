"""The data part of a sweep file: private images, and public ones for the prior."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, get_args

from pydantic import Field, model_validator

from smoothsweep.core.bounds import Count, FilePath, Seed
from smoothsweep.core.data.base import DataKind
from smoothsweep.core.data.kinds import DATA
from smoothsweep.core.data.names import NAMED_IN_SWEEPS, PUBLISHED_NAMES
from smoothsweep.sweeps.base import Built, Model, derived, one_of, one_value, only_with

Spread = Annotated[float, Field(gt=0, le=1e6)]  # beyond, traits are no numbers that faces can be drawn from
Bits = Literal[8, 10, 12, 14, 16]

if TYPE_CHECKING:
    PublishedKind = str
else:
    PublishedKind = Literal[NAMED_IN_SWEEPS]


class SyntheticData(Model):
    """Private identities drawn by the procedural face renderer: no real person is exposed."""

    kind: Literal["synthetic"]
    identities: Annotated[Count, Field(ge=2)] = 50  # people to draw, one class each
    train_per_class: Count = 20  # training images of each class
    test_per_class: Count = 10  # test images of each class
    size: Annotated[int, Field(ge=16, le=256)] = 64  # side in pixels that images are drawn at
    spread: Spread = 0.4  # how far identities differ: 1 is a population, 0.4 look-alikes
    seed: Seed = 0  # decides who is drawn, and how
    samples_per_class: Count | None = None  # train on this many images of each class (the low-data study)

    cites: ClassVar[tuple[str, ...]] = ()
    path: ClassVar[None] = None

    @property
    def classes_known(self) -> int:
        """How many classes the data have, where the file alone says it."""
        return self.identities


class LabelledData(Model):
    """The user's own images: a Parquet file (`image`, `label` or `identity`, maybe `split`) or a folder per class.

    Attributes:
        test_fraction: Fraction of each class's images that are tested on, where the file has no split.
        largest_classes: Keep this many classes, those with most training images.
        on_corrupt: skip leaves out images that cannot be read, and training images that the test part holds too; refuse
            ends with an error.
    """

    cites: ClassVar[tuple[str, ...]] = ()

    kind: Literal["labelled"]
    path: FilePath  # the Parquet file or the folder
    size: Annotated[int, Field(ge=16, le=2048)] = 64  # side in pixels that images are kept at
    crop: Literal["centre", "stretch"] = "centre"  # what to do with images that are not square
    bits: Bits | None = None  # how many bits images use whose files have 16 or 32 for each value
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.1
    split_seed: Seed = 42  # seed of that split, and of the choice by samples_per_class
    largest_classes: Annotated[Count, Field(ge=2)] | None = None
    samples_per_class: Count | None = None  # keep this many training images of each class
    on_corrupt: Literal["refuse", "skip"] = "refuse"

    @property
    def classes_known(self) -> int | None:
        """How many classes the data have, where the file alone says it."""
        return self.largest_classes


class PublishedData(Model):
    """One of the paper's data sets, on the user's disk in its official layout (`smoothsweep data check` says so).

    Labels, selection and the 90/10 split of seed 42 are those of the official code. Every network gets the pictures at
    its own size, reduced once from the files; so there is no `size` here.

    Attributes:
        kind: Which data set.
        pictures: celeba only: ready crops (null: these), the aligned release, or pictures in the wild, cropped here by
            5 or 68 landmarks.
    """

    kind: PublishedKind
    path: FilePath  # the folder with the data set
    classes: Annotated[Count, Field(ge=2)] | None = None  # how many classes; null: the paper's number
    split_seed: Seed = 42  # seed of the 90/10 split, and of samples_per_class
    samples_per_class: Count | None = None  # train on this many pictures of each class (the paper's Table 4)
    on_corrupt: Literal["refuse", "skip"] = "refuse"  # skip: after the split, leave out what cannot be read
    pictures: Literal["crops", "aligned", "in_the_wild", "in_the_wild_68"] | None = None

    @property
    def cites(self) -> tuple[str, ...]:
        """Its sources, as `core.citations` has them."""
        return PUBLISHED_NAMES[self.kind].cites

    @model_validator(mode="after")
    def _nothing_ignored(self) -> PublishedData:
        only_with(self, "pictures", "kind", "celeba")
        return self

    @property
    def classes_known(self) -> int | None:
        """How many classes the data have, where the file alone says it."""
        return self.classes


class SyntheticPublic(Model):
    """Public identities of the renderer; they never overlap with private ones."""

    kind: Literal["synthetic"]
    identities: Count = 2000  # people to draw
    per_identity: Count = 3  # images of each person
    size: Annotated[int, Field(ge=16, le=256)] = 64  # side in pixels that images are drawn at
    spread: Spread = 0.6  # how far identities differ: 1 is a population, 0.4 look-alikes
    seed: Seed = 0  # decides who is drawn, and how

    cites: ClassVar[tuple[str, ...]] = ()
    path: ClassVar[None] = None

    @property
    def most(self) -> int:
        """How many images there are."""
        return self.identities * self.per_identity


class PublishedPublic(Model):
    """The public pictures of the low-resolution attacks: the published list beside the private ones of `celeba64`."""

    cites: ClassVar[tuple[str, ...]] = PUBLISHED_NAMES["celeba64"].cites

    kind: Literal["celeba64"]
    path: FilePath  # the folder with CelebA
    size: Annotated[int, Field(ge=16, le=256)] = 64  # side in pixels that the central 108 are resized to

    most: ClassVar[None] = None
    """How many there are, the list alone says."""


class UnlabelledPublic(Model):
    """Public images of other people: a Parquet file with an `image` column or a folder of images."""

    cites: ClassVar[tuple[str, ...]] = ()

    kind: Literal["unlabelled"]
    path: FilePath  # the Parquet file or the folder
    size: Annotated[int, Field(ge=16, le=2048)] = 64  # side in pixels that images are kept at
    limit: Count | None = None  # read a random choice of this many images; null: all
    bits: Bits | None = None  # as of labelled images
    seed: Seed = 0  # seed of the choice by limit

    @property
    def most(self) -> int | None:
        """How many images there can be; None where the folder alone says it."""
        return self.limit


class AnyData(Built):
    """What every kind of data of `core.data.kinds` has; the keys of its own are added to it."""

    prefix: ClassVar[str] = "data."
    kind: str
    if TYPE_CHECKING:  # what every kind has (core.data.base.DataKind)
        samples_per_class: int | None

        @property
        def path(self) -> str | None: ...

    @property
    def cites(self) -> tuple[str, ...]:
        """Its sources, as `core.citations` has them."""
        return self.built.cites

    @property
    def classes_known(self) -> int | None:
        """How many classes the data have, where the file alone says it."""
        return self.built.classes_known


class WithoutFiles(AnyData):
    """Data that are made, not read."""

    path: ClassVar[None] = None


def _model(kind: str, declared: type[DataKind]) -> type[AnyData]:
    has_files = any(field.name == "path" for field in fields(declared))
    return derived(declared, AnyData if has_files else WithoutFiles, more={"kind": (one_value(kind), ...)})


MODELS: dict[str, type[AnyData]] = {kind: _model(kind, declared) for kind, declared in DATA.items()}
_PRIVATE = (SyntheticData, LabelledData, PublishedData, *MODELS.values())
_PUBLIC = (SyntheticPublic, UnlabelledPublic, PublishedPublic)
DATA_KINDS = frozenset(
    kind for model in (*_PRIVATE, *_PUBLIC) for kind in get_args(model.model_fields["kind"].annotation)
)
"""What `kind` may be of a sweep's `data` or `public`."""

if TYPE_CHECKING:
    Data = SyntheticData | LabelledData | PublishedData | AnyData
else:
    Data = Annotated[one_of(_PRIVATE), Field(discriminator="kind")]
"""The type of a sweep's `data`: chosen by `kind`."""

Public = Annotated[SyntheticPublic | UnlabelledPublic | PublishedPublic, Field(discriminator="kind")]
"""The type of a sweep's `public`: chosen by `kind`."""

CLASSES = {name: PUBLISHED_NAMES[name].classes[0] for name in NAMED_IN_SWEEPS}
"""The paper's number of people, breeds or things in each of its data sets."""


def classes_of(data: Data) -> int | None:
    """How many classes the data have, at most if a published set may be incomplete; None if only the files tell."""
    return data.classes_known or CLASSES.get(data.kind)
