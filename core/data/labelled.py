"""The user's own pictures: from a Parquet file or folders to training and test images, or one clear sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from smoothsweep.core.data import splits
from smoothsweep.core.data.decoding import (
    Picture,
    UnreadablePicture,
    decode_picture,
    reason,
    strict_pillow,
    unsaid_bits,
)
from smoothsweep.core.data.images import ImageSet, each_in_threads
from smoothsweep.core.data.sources import TEST, TRAIN, VALIDATION, Entry, list_labelled, list_unlabelled
from smoothsweep.core.errors import InputError
from smoothsweep.core.text import few


@dataclass(frozen=True, kw_only=True)
class SplitImages:
    """Training and test images of the same classes, and sentences on what was decided while reading."""

    train: ImageSet
    test: ImageSet
    notes: tuple[str, ...]


def load_labelled(
    path: Path | str,
    *,
    size: int,
    test_fraction: float = 0.1,
    split_seed: int = 42,
    largest_classes: int | None = None,
    samples_per_class: int | None = None,
    on_corrupt: str = "refuse",
    crop: str = "centre",
    bits: int | None = None,
) -> SplitImages:
    """Read pictures with classes as uint8 [N, 3, size, size].

    Args:
        path: A Parquet file with columns `image` (encoded bytes), `label` (whole numbers or names) or `identity` or
            both, and optionally `split`; a folder of such files, whose names say the split; what save_to_disk of
            `datasets` has written; or a folder of class folders, optionally with `train` and `test` above them.
            Labels become 0-based and contiguous in ascending order. Splits are train, test and validation; validation
            pictures are left out (and noted). Without a split one is drawn, which gives `test_fraction` of every class
            to the test. `largest_classes` then keeps the classes with most training images, in that order; it is asked
            before `samples_per_class`, which keeps that many training images of each, so that a run with all images of
            a class has the same classes under the same labels.
        on_corrupt: "skip" leaves out pictures that cannot be read, and training pictures that the test part holds too,
            and notes them; "refuse" makes both an error.
        crop, bits: See `core.data.decoding.decode_picture`.

    Raises InputError, one line naming file and row or picture, for everything else that is wrong: unreadable files,
    missing columns or values, one identity with two labels, a class with fewer than two images or with
    images in one part only, fewer than two classes, unknown splits.
    """
    path = Path(path)
    listing = list_labelled(path)
    entries = listing.entries
    labels, names, notes = assign_labels(entries, listing.folders, path)
    pixels, digests, readable, lines = _decode(entries, path, size=size, crop=crop, on_corrupt=on_corrupt, bits=bits)
    notes = [*listing.notes, *notes, *lines]
    entries, labels = [entries[i] for i in readable], labels[readable]
    _check_counts(labels, names, 2, f"data {path}")
    train, test, lines = split_entries(entries, labels, names, path, test_fraction, split_seed)
    train, more = _without_leaks(entries, digests, labels, train, test, path, on_corrupt)
    notes += [*lines, *more]
    _check_counts(labels[train], names, 1, f"data {path}: training part")
    _check_counts(labels[test], names, 1, f"data {path}: test part")
    labels, names, train = _chosen(labels, names, train, largest_classes, samples_per_class, split_seed)
    test = test[labels[test] >= 0]
    everything = ImageSet(images=pixels, labels=labels, names=names)
    notes.append(f"{len(names)} classes, {len(train)} training and {len(test)} test images")
    return SplitImages(train=everything.subset(train), test=everything.subset(test), notes=tuple(notes))


def training_labels(
    path: Path | str,
    *,
    test_fraction: float = 0.1,
    split_seed: int = 42,
    largest_classes: int | None = None,
    samples_per_class: int | None = None,
) -> Tensor:
    """The labels int64 [N] of the training images that `load_labelled` reads where none is broken; no picture is read.

    Raises InputError as `load_labelled` does for what is wrong with names, labels and splits.
    """
    listing = list_labelled(Path(path), images=False)
    labels, names, _ = assign_labels(listing.entries, listing.folders, Path(path))
    train, _, _ = split_entries(listing.entries, labels, names, Path(path), test_fraction, split_seed)
    labels, _, train = _chosen(labels, names, train, largest_classes, samples_per_class, split_seed)
    return labels[train]


def _chosen(
    labels: Tensor, names: tuple[str, ...], train: Tensor, largest: int | None, of_each: int | None, seed: int
) -> tuple[Tensor, tuple[str, ...], Tensor]:
    """Labels by rank of size, -1 for the classes left out, the names in that order, and what of the rows still trains.

    largest, of_each: how many classes and training images of each are kept, None for all.
    """
    if largest is not None:
        kept = splits.largest_classes(labels[train], largest, num_classes=len(names))
        rank = torch.full((len(names),), -1).index_copy(0, kept, torch.arange(largest))
        labels, names = rank[labels], tuple(names[label] for label in kept.tolist())
        train = train[labels[train] >= 0]
    if of_each is not None:
        train = train[splits.samples_per_class(labels[train], of_each, seed=seed, names=names)]
    return labels, names, train


def load_unlabelled(
    path: Path | str,
    *,
    size: int,
    limit: int | None = None,
    seed: int = 0,
    crop: str = "centre",
    bits: int | None = None,
) -> Tensor:
    """Read pictures without classes, for a prior: uint8 [N, 3, size, size].

    path: a Parquet file with a column `image`, or a folder with pictures at any depth. With more than `limit`
    pictures a seeded choice of them is read, in order. Raises InputError naming the first unreadable picture.
    """
    path = Path(path)
    entries = list_unlabelled(path)
    if limit is not None and limit < len(entries):
        chosen = np.random.default_rng(seed).permutation(len(entries))[:limit]
        entries = [entries[i] for i in sorted(chosen)]
    return _decode(entries, path, size=size, crop=crop, on_corrupt="refuse", bits=bits)[0]


def read_entries(entries: Sequence[Entry], path: Path, *, size: int, bits: int | None) -> tuple[Tensor, list[int]]:
    """The pictures that can be read, uint8 [n, 3, size, size], and which of the entries they are. Raises InputError."""
    images, _, kept, _ = _decode(entries, path, size=size, crop="centre", on_corrupt="skip", bits=bits)
    return images, kept


def decode_entries(
    entries: Sequence[Entry], *, size: int, crop: str, bits: int | None
) -> tuple[np.ndarray, dict[int, Picture], dict[int, str]]:
    """Decode pictures on as many threads as torch uses; one that cannot be read is no error.

    Gives pixels uint8 [N, size, size, 3], what is known of each by its place, and why the others cannot be read.
    crop, bits: see `core.data.decoding.decode_picture`.
    """
    pixels = np.zeros((len(entries), size, size, 3), dtype=np.uint8)
    found: dict[int, Picture] = {}
    why: dict[int, str] = {}

    def decode(i: int) -> None:
        try:
            pixels[i], found[i] = decode_picture(entries[i].read(), size=size, crop=crop, bits=bits)
        except (UnreadablePicture, OSError) as error:
            why[i] = reason(error)

    with strict_pillow():
        each_in_threads(decode, len(entries))
    return pixels, dict(sorted(found.items())), dict(sorted(why.items()))


def _decode(
    entries: Sequence[Entry], path: Path, *, size: int, crop: str, on_corrupt: str, bits: int | None
) -> tuple[Tensor, list[bytes], list[int], list[str]]:
    """Pixels uint8 [n, 3, size, size] and digests of what could be read, its indices, and notes."""
    pixels, found, why = decode_entries(entries, size=size, crop=crop, bits=bits)
    failures = [f"{entries[i].where} ({text})" for i, text in why.items()]
    enlarged = sum(picture.side < size for picture in found.values())
    notes = [f"{enlarged} pictures are smaller than {size} pixels and were enlarged"] if enlarged else []
    if failures and (on_corrupt == "refuse" or not found):
        raise InputError(f"data {path}: expected readable pictures, got {len(failures)} that are not: {few(failures)}")
    if unsaid := unsaid_bits((picture.peak for picture in found.values()), bits):
        raise InputError(f"data {path}: {unsaid}")
    if failures:
        notes.append(f"{len(failures)} unreadable pictures were left out: {few(failures)}")
    images = torch.from_numpy(pixels[list(found)] if failures else pixels).permute(0, 3, 1, 2).contiguous()
    return images, [picture.digest for picture in found.values()], list(found), notes


def _check_counts(labels: Tensor, names: Sequence[str], least: int, where: str) -> None:
    counts = torch.bincount(labels, minlength=len(names)).tolist()
    for name, count in zip(names, counts, strict=True):
        if count < least:
            raise InputError(f"{where}: expected at least {least} images of class {name}, got {count}")


def _without_leaks(
    entries: Sequence[Entry],
    digests: Sequence[bytes],
    labels: Tensor,
    train: Tensor,
    test: Tensor,
    path: Path,
    on_corrupt: str,
) -> tuple[Tensor, list[str]]:
    """The training indices without pictures that also test; the same picture in two classes is noted."""
    in_test = {digests[i]: i for i in test.tolist()}
    leaks = [i for i in train.tolist() if digests[i] in in_test]
    notes = []
    if leaks:
        pairs = [f"{entries[i].where} = {entries[in_test[digests[i]]].where}" for i in leaks]
        if on_corrupt == "refuse":
            raise InputError(
                f"data {path}: expected different pictures for training and test, got {len(leaks)} in both: "
                f"{few(pairs)}"
            )
        notes.append(f"{len(leaks)} training pictures that the test part holds too were left out: {few(pairs)}")
        train = torch.tensor([i for i in train.tolist() if digests[i] not in in_test], dtype=torch.int64)
    first: dict[bytes, int] = {}
    clashes = [i for i, digest in enumerate(digests) if labels[first.setdefault(digest, i)] != labels[i]]
    if clashes:
        pairs = [f"{entries[first[digests[i]]].where} = {entries[i].where}" for i in clashes]
        notes.append(f"{len(clashes)} pictures appear in two classes: {few(pairs)}")
    return train, notes


def assign_labels(
    entries: Sequence[Entry], folders: Sequence[str], path: Path
) -> tuple[Tensor, tuple[str, ...], list[str]]:
    """Contiguous labels int64 [N], class names, notes; labels and identities must go together one to one.

    folders: names of classes that must be there. Raises InputError naming the first picture that does not fit.
    """
    identity_of: dict[int | str, str] = {}
    label_of: dict[str, int | str] = {}
    labelled = [(entry, cast("int | str", entry.label)) for entry in entries]  # who names entries has labelled them
    for entry, stated_label in labelled:
        if entry.identity is None:
            continue
        label = label_of.setdefault(entry.identity, stated_label)
        identity = identity_of.setdefault(stated_label, entry.identity)
        if label != entry.label:
            what = f"one label for identity {entry.identity!r}, got {label!r} and {entry.label!r}"
        elif identity != entry.identity:
            what = f"one identity for label {entry.label!r}, got {identity!r} and {entry.identity!r}"
        else:
            continue
        raise InputError(f"data {path}: {entry.where}: expected {what}")
    every: set[Any] = {label for _, label in labelled} | set(folders)  # numbers alone, or names alone
    classes = sorted(every)
    if len(classes) < 2:
        raise InputError(f"data {path}: expected at least 2 classes, got {len(classes)}")
    index = {label: i for i, label in enumerate(classes)}
    names = tuple(identity_of.get(label, str(label)) for label in classes)
    notes = []
    if isinstance(classes[0], int) and classes != list(range(len(classes))):
        notes.append(f"labels {few(classes)} were renumbered 0 to {len(classes) - 1} in this order")
    return torch.tensor([index[entry.label] for entry in entries], dtype=torch.int64), names, notes


def split_entries(
    entries: Sequence[Entry],
    labels: Tensor,
    names: Sequence[str],
    path: Path,
    test_fraction: float,
    seed: int,
) -> tuple[Tensor, Tensor, list[str]]:
    """Training and test indices: the data's own split if it has one, else a drawn one; and notes.

    test_fraction, seed: of the drawn one. Raises InputError for a split without a part.
    """
    stated_splits = [entry.split for entry in entries]
    if stated_splits[0] is None:
        train, test = splits.stratified_split(labels, test_fraction=test_fraction, seed=seed, names=names)
        return train, test, [f"split: {test_fraction:g} of every class for the test, seed {seed}"]
    parts = {
        part: torch.tensor([i for i, s in enumerate(stated_splits) if s == part]) for part in (TRAIN, TEST, VALIDATION)
    }
    for part in (TRAIN, TEST):
        if not len(parts[part]):
            raise InputError(f"data {path}: expected images of the splits train and test, got none of {part}")
    notes = ["split: the one that came with the data"]
    if len(parts[VALIDATION]):
        notes.append(f"{len(parts[VALIDATION])} validation images are not used")
    return parts[TRAIN], parts[TEST], notes
