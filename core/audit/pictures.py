"""Convert a caller's pictures (tensors, arrays, a folder or a file) to the containers that audits work on."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smoothsweep.core.data.images import ImageSet, resize, to_uint8, to_unit
from smoothsweep.core.data.labelled import (
    SplitImages,
    assign_labels,
    load_labelled,
    load_unlabelled,
    split_entries,
)
from smoothsweep.core.data.likeness import SIDE, ScannedPictures, hashes, identical_pairs, near_and_doubts, warnings_of
from smoothsweep.core.data.sources import TEST, list_labelled
from smoothsweep.core.data.splits import stratified_split
from smoothsweep.core.errors import InputError
from smoothsweep.core.text import few

_AT_ONCE = 512
"""Pictures compared in one batch."""

Place = str | Path
Pictures = Place | Tensor | np.ndarray
"""Images uint8 [N, 3, S, S], or a folder or Parquet file."""

People = Place | tuple[Tensor | np.ndarray, Tensor | np.ndarray | Sequence[str]] | ImageSet | SplitImages
"""Images with their labels [N], whole numbers from 0, or names, whose sorted order is that of the model's outputs;
or a folder with one folder per person, or a Parquet file."""

PUBLIC_LIMIT = 8000  # images of a place, drawn at random where there are more
TEST_FRACTION, SPLIT_SEED = 0.1, 42


def public_pictures(pictures: Pictures, *, size: int) -> Tensor:
    """The public images, uint8 [N, 3, S, S].

    size: S in pixels at which a folder or a file is read; at most `PUBLIC_LIMIT` of its images. Raises InputError.
    """
    if isinstance(pictures, Place):
        images = load_unlabelled(pictures, size=size, limit=PUBLIC_LIMIT)
        if not len(images):
            raise InputError(f"public {pictures}: expected images, got none")
        return images
    return _squares(pictures, "public")


def load_people(data: People, *, size: int) -> SplitImages:
    """Training and test images; without a given split, a tenth of every person's images become test images.

    size: side in pixels at which a folder or a file is read. Raises InputError.
    """
    if isinstance(data, SplitImages):
        return data
    if isinstance(data, Place):
        return load_labelled(data, size=size)
    everything = data if isinstance(data, ImageSet) else _labelled(data)
    train, test = stratified_split(
        everything.labels, test_fraction=TEST_FRACTION, seed=SPLIT_SEED, names=everything.names
    )
    return SplitImages(train=everything.subset(train), test=everything.subset(test), notes=())


def has_split(data: People) -> bool:
    """Whether the data mark training images and held-out images. Raises InputError."""
    if isinstance(data, Place):
        return any(entry.split == TEST for entry in list_labelled(Path(data)).entries)
    return isinstance(data, SplitImages)


def load_all(data: People, *, size: int) -> ImageSet:
    """All images in their order; with a split, training images first. Arguments and errors as of `load_people`."""
    if isinstance(data, ImageSet):
        return data
    if isinstance(data, tuple):
        return _labelled(data)
    people = load_people(data, size=size)
    images = ImageSet(
        images=torch.cat([people.train.images, people.test.images]),
        labels=torch.cat([people.train.labels, people.test.labels]),
        names=people.train.names,
    )
    return images if isinstance(data, SplitImages) or has_split(data) else images.subset(_as_listed(Path(data)))


def _as_listed(path: Path) -> Tensor:
    """Where each picture of a place stands once its drawn split is undone, int64 [N]: noise that is drawn picture by
    picture is then the same as for who reads the same pictures with a split of their own."""
    listing = list_labelled(path)
    labels, names, _ = assign_labels(listing.entries, listing.folders, path)
    train, test, _ = split_entries(listing.entries, labels, names, path, TEST_FRACTION, SPLIT_SEED)
    return torch.cat([train, test]).argsort()


def refuse_shared(people: SplitImages, public: Tensor) -> tuple[str, ...]:
    """Refuse public pictures that include private ones, since reconstructing those would prove nothing.

    public: uint8 [N, 3, S, S]; only pictures of the same size are compared pixel by pixel. Returns warnings, one
    sentence each: private pictures that are public in another crop, and public pictures that may not fit.

    Raises InputError where a private picture is public too, pixel by pixel, or where the public pictures show another
    kind of object.
    """
    parts = (people.train, people.test)
    private = scan_tensors(torch.cat([part.images for part in parts]), "private row")
    others = scan_tensors(public, "row")
    if shared := identical_pairs(private, others):
        rows = few(sorted({name for _, name in shared}, key=lambda name: int(name.rpartition(" ")[2])))
        raise InputError(f"public: expected none of the private pictures, got {len(shared)} of them: {rows}")
    labels = torch.cat([part.labels for part in parts]).numpy()
    pairs, doubts = near_and_doubts(private, labels, others, what="public", private="in data")
    return warnings_of(pairs, doubts, private="data")


def _labelled(data: Any) -> ImageSet:
    if not isinstance(data, tuple) or len(data) != 2:
        raise InputError(f"data: expected (images, labels), a folder or a Parquet file, got {type(data).__name__}")
    images = _squares(data[0], "data")
    if (named := _named(data[1])) is not None:
        if len(named) != len(images):
            raise InputError(f"data: expected a label for each of {len(images)} images, got {len(named)}")
        names = tuple(sorted(set(named)))
        place = {name: label for label, name in enumerate(names)}
        return ImageSet(images=images, labels=torch.tensor([place[name] for name in named]), names=names)
    labels = _tensor(data[1], "data: labels")
    if labels.is_floating_point() or labels.dtype == torch.bool or labels.shape != images.shape[:1]:
        got = f"{labels.dtype} {list(labels.shape)}"
        raise InputError(f"data: expected labels, whole numbers [{len(images)}], got {got}")
    labels = labels.long()
    if labels.min() < 0:
        raise InputError(f"data: expected labels from 0, got {int(labels.min())}")
    return ImageSet(images=images, labels=labels, names=tuple(map(str, range(int(labels.max()) + 1))))


def _named(labels: Any) -> list[str] | None:
    """The labels where they are names, else None."""
    values = labels.tolist() if isinstance(labels, np.ndarray) else labels
    is_named = isinstance(values, list | tuple) and bool(values) and all(isinstance(value, str) for value in values)
    return [unicodedata.normalize("NFC", value) for value in values] if is_named else None


def _squares(pictures: Any, what: str) -> Tensor:
    tensor = _tensor(pictures, what)
    square = tensor.ndim == 4 and tensor.shape[1] == 3 and tensor.shape[2] == tensor.shape[3] and len(tensor) > 0
    if tensor.dtype != torch.uint8 or not square:
        raise InputError(f"{what}: expected images uint8 [N, 3, S, S], got {tensor.dtype} {list(tensor.shape)}")
    return tensor.cpu()


def _tensor(value: Any, what: str) -> Tensor:
    if isinstance(value, np.ndarray) and value.dtype.kind in "iufb":
        return torch.from_numpy(value)
    if not isinstance(value, Tensor):
        raise InputError(f"{what}: expected a tensor or a numpy array, got {type(value).__name__}")
    return value


def scan_tensors(images: Tensor, name: str = "row") -> ScannedPictures:
    """Compute the features by which pictures are compared.

    images: uint8 [N, 3, S, S]. name: what messages call a picture, before its number.
    """
    parts = [to_uint8(resize(to_unit(part), SIDE)) for part in images.split(_AT_ONCE)]
    small = np.concatenate([part.permute(0, 2, 3, 1).numpy() for part in parts])
    side = images.shape[-1]
    return ScannedPictures(
        index=np.arange(len(images)),
        where=tuple(f"{name} {row}" for row in range(len(images))),
        digests=tuple(b"%d " % side + image.contiguous().numpy().tobytes() for image in images),
        small=np.ascontiguousarray(small),
        hashes=hashes(small),
        shapes=np.full((len(images), 2), side),
        frames=np.ones(len(images), dtype=np.int64),
    )
