"""The data part of a sweep file: private images, and public ones for the prior."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from smoothsweep.core.bounds import Count, Seed
from smoothsweep.core.data.base import DataKind
from smoothsweep.core.data.kinds import DATA
from smoothsweep.core.declared import build
from smoothsweep.sweeps.base import FilePath, Model, only_with
from smoothsweep.sweeps.derived import derived, one_of, one_value

Spread = Annotated[float, Field(gt=0, le=1e6)]  # beyond, traits are no numbers that faces can be drawn from


PUBLISHED_SOURCES = {
    "facescrub": ("ng2014data",),
    "celeba": ("liu2015deep",),
    "celeba64": ("liu2015deep",),
    "stanford_dogs": ("khosla2011novel",),
    "imagenette": ("howard2019imagenette",),
}
"""What to cite for a published data set, by its kind."""


class SyntheticData(Model):
    """Private identities drawn by the procedural face renderer: no real person is exposed."""

    kind: Literal["synthetic"]
    identities: Annotated[Count, Field(ge=2)] = 50
    train_per_class: Count = 20
    test_per_class: Count = 10
    size: Annotated[int, Field(ge=16, le=256)] = 64
    spread: Spread = 0.4  # how far identities differ: 1 is a population, 0.4 look-alikes
    seed: Seed = 0
    samples_per_class: Count | None = None  # train on this many images of each class (the low-data study)

    cites: ClassVar[tuple[str, ...]] = ()
    path: ClassVar[None] = None

    @property
    def classes_known(self) -> int:
        """How many classes the data have, where the file alone says it."""
        return self.identities


class LabelledData(Model):
    """The user's own images: a Parquet file (`image`, `label` or `identity`, maybe `split`) or a folder per class."""

    cites: ClassVar[tuple[str, ...]] = ()

    kind: Literal["labelled"]
    path: FilePath
    size: Annotated[int, Field(ge=16, le=2048)] = 64
    crop: Literal["centre", "stretch"] = "centre"  # what to do with images that are not square
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.1  # used only where the file has no split
    split_seed: Seed = 42
    largest_classes: Annotated[Count, Field(ge=2)] | None = None  # keep the classes with most training images
    samples_per_class: Count | None = None
    on_corrupt: Literal["refuse", "skip"] = "refuse"

    @property
    def classes_known(self) -> int | None:
        """How many classes the data have, where the file alone says it."""
        return self.largest_classes


class PublishedData(Model):
    """One of the paper's data sets, on the user's disk in its official layout (`smoothsweep data check` says so).

    Labels, selection and the 90/10 split of seed 42 are those of the official code. Every network gets the pictures at
    its own size, reduced once from the files; so there is no `size` here.
    """

    kind: Literal["facescrub", "celeba", "celeba64", "stanford_dogs", "imagenette"]
    path: FilePath
    classes: Annotated[Count, Field(ge=2)] | None = None  # null: the paper's number
    split_seed: Seed = 42
    samples_per_class: Count | None = None  # train on this many pictures of each class (the paper's Table 4)
    on_corrupt: Literal["refuse", "skip"] = "refuse"
    # celeba only: ready crops (default), the aligned release, or pictures in the wild cropped by us (5 or 68 landmarks)
    pictures: Literal["crops", "aligned", "in_the_wild", "in_the_wild_68"] | None = None

    @property
    def cites(self) -> tuple[str, ...]:
        """Its sources, as `core.citations` has them."""
        return PUBLISHED_SOURCES[self.kind]

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
    identities: Count = 2000
    per_identity: Count = 3
    size: Annotated[int, Field(ge=16, le=256)] = 64
    spread: Spread = 0.6
    seed: Seed = 0

    cites: ClassVar[tuple[str, ...]] = ()
    path: ClassVar[None] = None

    @property
    def most(self) -> int:
        """How many images there are."""
        return self.identities * self.per_identity


class PublishedPublic(Model):
    """The public pictures of the low-resolution attacks: the published list beside the private ones of `celeba64`."""

    cites: ClassVar[tuple[str, ...]] = PUBLISHED_SOURCES["celeba64"]

    kind: Literal["celeba64"]
    path: FilePath
    size: Annotated[int, Field(ge=16, le=256)] = 64  # pixels that the central 108 are resized to

    most: ClassVar[None] = None
    """How many there are, the list alone says."""


class UnlabelledPublic(Model):
    """Public images of other people: a Parquet file with an `image` column or a folder of images."""

    cites: ClassVar[tuple[str, ...]] = ()

    kind: Literal["unlabelled"]
    path: FilePath
    size: Annotated[int, Field(ge=16, le=2048)] = 64
    limit: Count | None = None
    seed: Seed = 0

    @property
    def most(self) -> int | None:
        """How many images there can be; None where the folder alone says it."""
        return self.limit


class AnyData(Model):
    """What every kind of data of `core.data.kinds` has; the keys of its own are added to it."""

    kind: str
    if TYPE_CHECKING:  # what every kind has (core.data.base.DataKind)
        samples_per_class: int | None

        @property
        def path(self) -> str | None: ...

    @cached_property
    def built(self) -> DataKind:
        """The settings themselves. Raises InputError where their class refuses the values."""
        return build(DATA[self.kind], self.model_dump(exclude={"kind"}), what=f"data {self.kind}", prefix="data.")

    @property
    def cites(self) -> tuple[str, ...]:
        """Its sources, as `core.citations` has them."""
        return self.built.cites

    @property
    def classes_known(self) -> int | None:
        """How many classes the data have, where the file alone says it."""
        return self.built.classes_known

    @model_validator(mode="after")
    def _valid(self) -> AnyData:
        assert self.built is not None
        return self


class WithoutFiles(AnyData):
    """Data that are made, not read."""

    path: ClassVar[None] = None


def _model(kind: str, declared: type[DataKind]) -> type[AnyData]:
    has_files = any(field.name == "path" for field in fields(declared))
    return derived(declared, AnyData if has_files else WithoutFiles, more={"kind": (one_value(kind), ...)})


MODELS: dict[str, type[AnyData]] = {kind: _model(kind, declared) for kind, declared in DATA.items()}
if TYPE_CHECKING:
    Data = SyntheticData | LabelledData | PublishedData | AnyData
else:
    _KINDS = (SyntheticData, LabelledData, PublishedData, *MODELS.values())
    Data = Annotated[one_of(_KINDS), Field(discriminator="kind")]
"""The type of a sweep's `data`: chosen by `kind`."""

Public = Annotated[SyntheticPublic | UnlabelledPublic | PublishedPublic, Field(discriminator="kind")]
"""The type of a sweep's `public`: chosen by `kind`."""
