"""The data sets of the paper in their official layouts: listed, decoded once, and written in the form that trains."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from smoothsweep.core.data import celeba, layouts
from smoothsweep.core.data.decoding import UnreadablePicture, reason, strict_pillow
from smoothsweep.core.data.images import each_in_threads, pack_images, packed_bytes
from smoothsweep.core.data.layouts import PublishedListing, Tree
from smoothsweep.core.data.names import PUBLISHED_NAMES
from smoothsweep.core.data.splits import samples_per_class as choose_per_class
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.text import few, listed

_SMALL, _OBLONG = 1, 2

PUBLISHED: dict[str, tuple[Callable[[Tree], PublishedListing], str]] = {
    "facescrub": (layouts.list_facescrub, layouts.FACESCRUB),
    "celeba": (celeba.list_celeba, celeba.LAYOUT),
    "celeba64": (celeba.list_celeba64, celeba.LAYOUT),
    "stanford_dogs": (layouts.list_stanford_dogs, layouts.DOGS),
    "stanford_dogs_cropped": (partial(layouts.list_stanford_dogs, cropped=True), layouts.DOGS),
    "imagenette": (layouts.list_imagenette, layouts.IMAGENETTE),
}
"""Published set -> the reader of its layout, and the layout in words."""


@dataclass(frozen=True, kw_only=True)
class WrittenSet:
    """What `write_published` wrote: counts, class names, and sentences on what was decided and found."""

    num_train: int
    num_test: int
    names: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def num_classes(self) -> int:
        return len(self.names)


def list_published(
    kind: str,
    path: Path | str,
    *,
    classes: int | None = None,
    pictures: str | None = None,
    split_seed: int = 42,
    faults: list[str] | None = None,
) -> PublishedListing:
    """The pictures of a published set in official order with labels and split; decodes nothing.

    Args:
        kind: A name in PUBLISHED.
        classes: How many classes there must be (for CelebA, how many of the largest are taken), by default the paper's
            number.
        pictures: Where the pictures of `celeba` come from, see `core.data.celeba.list_celeba` (default "crops").
        faults: Gets a sentence for each fault that a list can be made in spite of; None ends at the first one.

    Raises InputError, one line, for an option that the set does not have, and the first fault of the tree.
    """
    lister, layout = PUBLISHED[kind]
    tree = Tree(
        root=Path(path),
        layout=layout,
        classes=classes or PUBLISHED_NAMES[kind].classes[0],
        pictures=pictures,
        split_seed=split_seed,
        faults=faults,
    )
    if not tree.root.is_dir():
        raise tree.refusal(f"expected a folder in {layout}, got no folder")
    choices = celeba.PICTURES if kind == "celeba" else {}
    if pictures is not None and pictures not in choices:
        valid = f"one of {', '.join(choices)}" if choices else f"nothing, since {kind} has no choice"
        raise InputError(f"pictures: expected {valid}, got {pictures!r}")
    if classes is not None and classes < 2:
        raise InputError(f"classes: expected at least 2, got {classes}")
    return lister(tree)


def published_training_labels(
    kind: str,
    path: Path | str,
    *,
    classes: int | None,
    pictures: str | None,
    split_seed: int,
    samples_per_class: int | None,
) -> Tensor:
    """The labels int64 [N] of the training pictures that `write_published` writes where none is broken; reads none.

    Raises InputError as `list_published`, and for a class that has fewer than `samples_per_class`.
    """
    listing = list_published(kind, path, classes=classes, pictures=pictures, split_seed=split_seed)
    labels = listing.labels[listing.train]
    if samples_per_class is None:
        return labels
    return labels[choose_per_class(labels, samples_per_class, seed=split_seed, names=listing.names)]


def write_published(
    kind: str,
    path: Path | str,
    out_folder: Path | str,
    *,
    size: int,
    classes: int | None = None,
    pictures: str | None = None,
    split_seed: int = 42,
    samples_per_class: int | None = None,
    on_corrupt: str = "refuse",
) -> WrittenSet:
    """Decode a published set once and write it at size x size pixels into `out_folder`.

    Writes train.safetensors and test.safetensors (`images` uint8 [N, 3, size, size] and `labels` int64, in the order of
    the official split) and names.json, all under temporary names until everything is decoded. Preprocessing is the
    official test transform without normalisation (`core.data.layouts.fit_square`).

    Args:
        samples_per_class: Keep that many training pictures of each class, nested, by `split_seed` (the paper's Table
            4); then the training pictures keep their order.
        on_corrupt: "refuse" ends at the first picture that cannot be read; "skip" reads everything once before (twice
            the time) and leaves out what cannot be, after the split, so that the other pictures train or test as
            published.

    Memory does not grow with the number of pictures beyond names, labels and some 60 bytes each: every thread holds one
    encoded file, its decoded picture (3 bytes per pixel of the source, twice while it is converted) and its square.

    Raises InputError, one line that names the file, for every fault of `list_published`, missing or unreadable
    pictures, too little room on the disk, and a class that has fewer than `samples_per_class` or no training pictures.
    """
    listing = list_published(kind, path, classes=classes, pictures=pictures, split_seed=split_seed)
    if odd := [name for name in listing.names if not name.isprintable()]:  # in another encoding than the system's
        raise InputError(f"data {listing.root}: expected printable names of classes in UTF-8, got {odd[0]!r}")
    notes = [*listing.notes, *listing.doubts]
    train, test = listing.train, listing.test
    if on_corrupt == "skip":
        if why := unreadable_pictures(listing):
            named = few([f"{listing.files[i]} ({text})" for i, text in sorted(why.items())])
            notes.append(f"{len(why)} pictures that cannot be read were left out: {named}")
            good = torch.ones(len(listing.files), dtype=torch.bool).index_fill(0, torch.tensor(list(why)), False)
            train, test = train[good[train]], test[good[test]]
    elif missing := [file for file in listing.files if not (listing.root / file).is_file()]:
        got = f"{len(missing)} missing: {few(missing)}"  # looking is quick beside decoding
        raise InputError(f"data {listing.root}: expected every listed picture, got {got}")
    if samples_per_class is not None:
        kept = choose_per_class(listing.labels[train], samples_per_class, seed=split_seed, names=listing.names)
        train = train[kept]
        notes.append(f"{samples_per_class} training pictures of each class, seed {split_seed}")
    counts = torch.bincount(listing.labels[train], minlength=len(listing.names)).tolist()
    if untrained := [name for name, count in zip(listing.names, counts, strict=True) if not count]:
        raise InputError(f"data {listing.root}: expected training images of every class, got none of {few(untrained)}")
    if untested := len(listing.names) - len(listing.labels[test].unique()):  # happens in an unstratified split
        notes.append(f"{untested} classes have no test image")
    notes += _write(listing, train, test, Path(out_folder), size)
    notes.append(f"{len(listing.names)} classes, {len(train)} training and {len(test)} test images")
    return WrittenSet(num_train=len(train), num_test=len(test), names=listing.names, notes=tuple(notes))


def _write(listing: PublishedListing, train: Tensor, test: Tensor, out: Path, size: int) -> list[str]:
    """The three files; notes on pictures that were enlarged, stretched, or that train and test."""
    out.mkdir(parents=True, exist_ok=True)
    needed, free = sum(packed_bytes(len(part), size) for part in (train, test)), shutil.disk_usage(out).free
    if needed > free:
        raise InputError(f"{out}: expected {needed / 1e9:.1f} GB of free space, got {free / 1e9:.1f} GB")
    order = torch.cat([train, test])
    # In the order of the files on disk, which a plain disk reads faster.
    jobs = torch.argsort(order).tolist()
    flags = np.zeros(len(order), dtype=np.uint8)
    digests = [b""] * len(order)
    with ExitStack() as stack:
        puts = [
            stack.enter_context(pack_images(out / f"{part}.safetensors", listing.labels[index], size))
            for part, index in (("train", train), ("test", test))
        ]

        def convert(job: int) -> None:
            row = jobs[job]
            encoded, image, pixels = listing.square(int(order[row]), size)
            flags[row] = _SMALL * (min(image.size) < size) | _OBLONG * (image.width != image.height)
            digests[row] = hashlib.blake2b(encoded, digest_size=16).digest()
            is_test = row >= len(train)
            puts[is_test](row - len(train) * is_test, pixels)

        with strict_pillow():
            each_in_threads(convert, len(order))
        write_file(out / "names.json", json.dumps(list(listing.names), ensure_ascii=False))
    notes = []
    if small := int((flags & _SMALL > 0).sum()):
        notes.append(f"{small} pictures are smaller than {size} pixels and were enlarged")
    if oblong := int((flags & _OBLONG > 0).sum()):
        done = "stretched" if listing.fit == "stretch" else "cut to their central square"
        notes.append(f"{oblong} pictures are not square and were {done}")
    tested = set(digests[len(train) :])
    if both := sum(digest in tested for digest in digests[: len(train)]):
        notes.append(f"{both} training pictures are files that test as well; they were kept, as published")
    return notes


def unreadable_pictures(
    listing: PublishedListing, *, seen: Callable[[int, tuple[int, int]], None] = lambda index, size: None
) -> dict[int, str]:
    """Reads and decodes every picture; the index of each that cannot be, with the reason.

    seen: called from the threads with the index and the width and height of what a readable picture shows.
    """
    why: dict[int, str] = {}

    def look(i: int) -> None:
        try:
            seen(i, listing.decode(i, listing.read(i)).size)
        except (UnreadablePicture, OSError) as error:
            why[i] = reason(error)

    with strict_pillow():
        each_in_threads(look, len(listing.files))
    return why


# A look at a whole tree


class Count(NamedTuple):
    """A number of a data set beside the recorded one, None where none is; source: who records it, or does not."""

    what: str
    found: int
    paper: int | None
    source: str

    @property
    def agrees(self) -> bool:
        return self.paper is None or self.found == self.paper

    def __str__(self) -> str:
        if self.paper is None:
            return f"{self.what}: {self.found} (nothing to compare with: {self.source})"
        comparison = "as recorded" if self.agrees else f"recorded are {self.paper}"
        return f"{self.what}: {self.found}, {comparison} ({self.source})"


@dataclass(frozen=True, kw_only=True)
class PublishedCheck:
    """What a look at a published data set found.

    Attributes:
        faults: What loading refuses, a sentence each, with the file.
        oddities: What loading accepts and notes.
        sides: Shortest and longest side in pixels of what the readable pictures show, None if there are none.
    """

    kind: str
    path: Path
    counts: tuple[Count, ...]
    sides: tuple[int, int] | None
    faults: tuple[str, ...]
    oddities: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether everything is there and readable, and every recorded number agrees."""
        return not self.faults and not self.oddities and all(count.agrees for count in self.counts)

    @property
    def lines(self) -> list[str]:
        """For a terminal: counts beside the recorded ones, faults and oddities, and a verdict."""
        lines = [f"{self.kind} in {self.path}", *(f"  {count}" for count in self.counts)]
        if self.sides:
            lines.append(f"  sides: {self.sides[0]} to {self.sides[1]} pixels")
        lines += [f"  {note}" for note in self.notes]
        lines += [*listed("faults", self.faults), *listed("oddities, which loading accepts", self.oddities)]
        if self.is_complete:
            return [*lines, "  fine"]
        wrong = [f"{len(self.faults)} faults"] if self.faults else []
        wrong += [f"{len(self.oddities)} oddities"] if self.oddities else []
        wrong += [f"the number of {count.what} differs" for count in self.counts if not count.agrees]
        return [*lines, f"  not fine: {few(wrong)}"]


def check_published(
    kind: str, path: Path | str, *, classes: int | None = None, pictures: str | None = None
) -> PublishedCheck:
    """Look at a whole tree: lists, folders, and every picture decoded in full; nothing is written.

    Args:
        kind, classes, pictures: As for `list_published`. Of CelebA the pictures of the chosen identities are looked at.

    A fault does not end the check. Raises InputError, one line, only for an unknown option and for a folder that does
    not have the layout at all (what was expected, and where).
    """
    faults: list[str] = []
    listing = list_published(kind, path, classes=classes, pictures=pictures, faults=faults)
    sizes = np.zeros((len(listing.files), 2), dtype=np.int64)
    why = unreadable_pictures(listing, seen=sizes.__setitem__)
    faults += [f"{listing.files[i]}: {text}" for i, text in sorted(why.items())]
    readable = sizes[sizes[:, 0] > 0]
    # FaceScrub's faces are square, and the published loader counts on it; photographs of dogs are not.
    oblong = np.flatnonzero(sizes[:, 0] != sizes[:, 1]).tolist() if listing.squares else []
    row = PUBLISHED_NAMES[kind]
    counts = [  # classes with a picture: an empty folder is no identity
        Count(row.what, len(torch.unique(listing.labels)), *row.classes),
        Count("readable images", len(listing.files) - len(why), *row.images),
        *([Count("training images listed", len(listing.train), *row.training)] if row.training else []),
    ]
    stretched = "pixels, will be stretched to a square"
    return PublishedCheck(
        kind=kind,
        path=Path(path),
        counts=tuple(counts),
        sides=(int(readable.min()), int(readable.max())) if len(readable) else None,
        faults=tuple(faults),
        oddities=(
            *listing.doubts,
            *(f"{listing.files[i]}: {sizes[i, 0]} x {sizes[i, 1]} {stretched}" for i in oblong),
        ),
        notes=listing.notes,
    )
