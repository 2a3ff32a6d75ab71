"""The data part of a sweep file: private images, and public ones for the prior."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sweeps.base import Count, Model, Positive


class SyntheticData(Model):
    """Private identities drawn by the procedural face renderer: no real person is exposed."""

    kind: Literal["synthetic"]
    identities: Annotated[int, Field(ge=2)] = 50
    train_per_class: Count = 20
    test_per_class: Count = 10
    size: Annotated[int, Field(ge=16, le=512)] = 64
    spread: Positive = 0.4  # how far identities differ: 1 is a population, 0.4 look-alikes
    seed: int = 0
    samples_per_class: Count | None = None  # train on this many images of each class (the low-data study)


class LabelledData(Model):
    """The user's own images: a Parquet file (`image`, `label` or `identity`, maybe `split`) or a folder per class."""

    kind: Literal["labelled"]
    path: str
    size: Annotated[int, Field(ge=16, le=2048)] = 64
    crop: Literal["centre", "stretch"] = "centre"  # what to do with images that are not square
    test_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.1  # used only where the file has no split
    split_seed: int = 42
    largest_classes: Annotated[int, Field(ge=2)] | None = None  # keep the classes with most training images
    samples_per_class: Count | None = None
    on_corrupt: Literal["refuse", "skip"] = "refuse"


class SyntheticPublic(Model):
    """Public identities of the renderer; they never overlap with private ones."""

    kind: Literal["synthetic"]
    identities: Count = 2000
    per_identity: Count = 3
    size: Annotated[int, Field(ge=16, le=512)] = 64
    spread: Positive = 0.6
    seed: int = 0


class UnlabelledPublic(Model):
    """Public images of other people: a Parquet file with an `image` column or a folder of images."""

    kind: Literal["unlabelled"]
    path: str
    size: Annotated[int, Field(ge=16, le=2048)] = 64
    limit: Count | None = None
    seed: int = 0
