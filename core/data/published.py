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

import numpy as np
import torch
from torch import Tensor

from smoothsweep.core.data import celeba, celeba64, facescrub, imagenette, stanford_dogs
from smoothsweep.core.data.decoding import UnreadablePicture, reason, strict_pillow
from smoothsweep.core.data.images import each_in_threads, pack_images, packed_bytes
from smoothsweep.core.data.layouts import ListOptions, PublishedListing, Report, fit_square, refusing
from smoothsweep.core.data.names import PUBLISHED_NAMES
from smoothsweep.core.data.splits import samples_per_class as choose_per_class
from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.text import few

ON_CORRUPT = ("refuse", "skip")
_SMALL, _OBLONG = 1, 2
_MOST_LINES = 20


@dataclass(frozen=True, kw_only=True)
class PublishedSet:
    """A published data set that can be read.

    Attributes:
        lister: The reader of the layout.
        pictures: Choices of where its pictures come from.
    """

    lister: Callable[[Path, ListOptions, Report], PublishedListing]
    layout: str
    pictures: tuple[str, ...] = ()


PUBLISHED: dict[str, PublishedSet] = {
    "facescrub": PublishedSet(lister=facescrub.list_facescrub, layout=facescrub.LAYOUT),
    "celeba": PublishedSet(lister=celeba.list_celeba, layout=celeba.LAYOUT, pictures=tuple(celeba.PICTURES)),
    "celeba64": PublishedSet(lister=celeba64.list_celeba64, layout=celeba.LAYOUT),
    "stanford_dogs": PublishedSet(lister=stanford_dogs.list_stanford_dogs, layout=stanford_dogs.LAYOUT),
    "stanford_dogs_cropped": PublishedSet(
        lister=partial(stanford_dogs.list_stanford_dogs, cropped=True),
        layout=stanford_dogs.LAYOUT,
    ),
    "imagenette": PublishedSet(lister=imagenette.list_imagenette, layout=imagenette.LAYOUT),
}


@dataclass(frozen=True, kw_only=True)
class WrittenSet:
    """What `write_published` wrote: counts, class names, and sentences on what was decided and found."""

    num_classes: int
    num_train: int
    num_test: int
    names: tuple[str, ...]
    notes: tuple[str, ...]


def list_published(
    kind: str, path: Path | str, *, classes: int | None = None, pictures: str | None = None, split_seed: int = 42
) -> PublishedListing:
    """The pictures of a published set in official order with labels and split; decodes nothing.

    Args:
        kind: A name in PUBLISHED.
        classes: How many classes there must be (for CelebA, how many of the largest are taken), by default the paper's
            number.
        pictures: Where the pictures of `celeba` come from, see `core.data.celeba.list_celeba` (default "crops").

    Raises InputError, one line, for an unknown name, an option that the set does not have, and the first fault of the
    tree.
    """
    root = Path(path)
    kind_of_set, options = published_set(kind, root, classes=classes, pictures=pictures, split_seed=split_seed)
    return kind_of_set.lister(root, options, refusing(root))


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


def published_set(
    kind: str, root: Path, *, classes: int | None, pictures: str | None, split_seed: int
) -> tuple[PublishedSet, ListOptions]:
    """The entry of the registry and the options for its reader, checked. Raises InputError."""
    if kind not in PUBLISHED:
        raise InputError(f"published data: expected one of {', '.join(PUBLISHED)}, got {kind!r}")
    chosen = PUBLISHED[kind]
    if not root.is_dir():
        raise InputError(f"data {root}: expected a folder in {chosen.layout}, got no folder")
    if pictures is not None and pictures not in chosen.pictures:
        valid = f"one of {', '.join(chosen.pictures)}" if chosen.pictures else f"nothing, since {kind} has no choice"
        raise InputError(f"pictures: expected {valid}, got {pictures!r}")
    if classes is not None and classes < 2:
        raise InputError(f"classes: expected at least 2, got {classes}")
    of_paper, _ = PUBLISHED_NAMES[kind].classes
    return chosen, ListOptions(classes=classes or of_paper, pictures=pictures, split_seed=split_seed)


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

    Memory does not grow with the number of pictures beyond names, labels and 17 bytes each: every thread holds one
    encoded file, its decoded picture (3 bytes per pixel of the source, twice while it is converted) and its square.

    Raises InputError, one line that names the file, for every fault of `list_published`, missing or unreadable
    pictures, too little room on the disk, and a class that has fewer than `samples_per_class` or no training pictures.
    """
    _check_options(size, on_corrupt)
    listing = list_published(kind, path, classes=classes, pictures=pictures, split_seed=split_seed)
    _require_text(listing)
    notes = [*listing.notes, *listing.doubts]
    train, test = listing.train, listing.test
    if on_corrupt == "skip":
        train, test, lines = _readable(listing)
        notes += lines
    else:
        _require_all(listing)
    if samples_per_class is not None:
        kept = choose_per_class(listing.labels[train], samples_per_class, seed=split_seed, names=listing.names)
        train = train[kept]
        notes.append(f"{samples_per_class} training pictures of each class, seed {split_seed}")
    notes += _empty_classes(listing, train, test)
    notes += _write(listing, train, test, Path(out_folder), size)
    notes.append(f"{len(listing.names)} classes, {len(train)} training and {len(test)} test images")
    return WrittenSet(
        num_classes=len(listing.names),
        num_train=len(train),
        num_test=len(test),
        names=listing.names,
        notes=tuple(notes),
    )


def _check_options(size: int, on_corrupt: str) -> None:
    if size < 1:
        raise InputError(f"size: expected at least 1 pixel, got {size}")
    if on_corrupt not in ON_CORRUPT:
        raise InputError(f"on_corrupt: expected one of {', '.join(ON_CORRUPT)}, got {on_corrupt!r}")


def _require_text(listing: PublishedListing) -> None:
    """Folder names in another encoding than the system's cannot be written as text."""
    for name in listing.names:
        if not name.isprintable():
            raise InputError(f"data {listing.root}: expected printable names of classes in UTF-8, got {name!r}")


def _empty_classes(listing: PublishedListing, train: Tensor, test: Tensor) -> list[str]:
    """A class that nothing trains is an error; one that nothing tests happens in an unstratified split."""
    counts = torch.bincount(listing.labels[train], minlength=len(listing.names))
    untrained = [name for name, count in zip(listing.names, counts.tolist(), strict=True) if not count]
    if untrained:
        raise InputError(f"data {listing.root}: expected training images of every class, got none of {few(untrained)}")
    untested = len(listing.names) - len(listing.labels[test].unique())
    return [f"{untested} classes have no test image"] if untested else []


def _write(listing: PublishedListing, train: Tensor, test: Tensor, out: Path, size: int) -> list[str]:
    """The three files; notes on pictures that were enlarged, stretched, or that train and test."""
    out.mkdir(parents=True, exist_ok=True)
    _require_room(out, sum(packed_bytes(len(part), size) for part in (train, test)))
    order = torch.cat([train, test])
    # In the order of the files on disk, which a plain disk reads faster.
    jobs = torch.argsort(order).tolist()
    flags = np.zeros(len(order), dtype=np.uint8)
    digests = np.zeros((len(order), 16), dtype=np.uint8)
    with ExitStack() as stack:
        puts = [
            stack.enter_context(pack_images(out / f"{part}.safetensors", listing.labels[index], size))
            for part, index in (("train", train), ("test", test))
        ]

        def convert(job: int) -> None:
            row = jobs[job]
            index = int(order[row])
            try:
                encoded = listing.read(index)
                image = listing.decode(index, encoded)
            except (UnreadablePicture, OSError) as error:
                raise InputError(
                    f"data {listing.root}: expected a readable picture, got {listing.files[index]} ({reason(error)})"
                ) from error
            flags[row] = _SMALL * (min(image.size) < size) | _OBLONG * (image.width != image.height)
            digests[row] = np.frombuffer(hashlib.blake2b(encoded, digest_size=16).digest(), dtype=np.uint8)
            pixels = np.asarray(fit_square(image, size, listing.fit)).transpose(2, 0, 1)
            is_test = row >= len(train)
            puts[is_test](row - len(train) * is_test, pixels)

        with strict_pillow():
            each_in_threads(convert, len(order))
        write_file(out / "names.json", json.dumps(list(listing.names), ensure_ascii=False))
    return _notes_on(flags, digests, listing.fit, size, len(train))


def _notes_on(flags: np.ndarray, digests: np.ndarray, fit: str, size: int, num_train: int) -> list[str]:
    notes = []
    small, oblong = int((flags & _SMALL > 0).sum()), int((flags & _OBLONG > 0).sum())
    if small:
        notes.append(f"{small} pictures are smaller than {size} pixels and were enlarged")
    if oblong:
        done = "stretched" if fit == "stretch" else "cut to their central square"
        notes.append(f"{oblong} pictures are not square and were {done}")
    tested = {digest.tobytes() for digest in digests[num_train:]}
    both = sum(digest.tobytes() in tested for digest in digests[:num_train])
    if both:
        notes.append(f"{both} training pictures are files that test as well; they were kept, as published")
    return notes


def _require_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(f"{folder}: expected {needed / 1e9:.1f} GB of free space, got {free / 1e9:.1f} GB")


def _require_all(listing: PublishedListing) -> None:
    """Raises InputError naming listed files that are not there; looking is quick beside decoding."""
    missing = [file for file in listing.files if not (listing.root / file).is_file()]
    if missing:
        raise InputError(
            f"data {listing.root}: expected every listed picture, got {len(missing)} missing: {few(missing)}"
        )


def _readable(listing: PublishedListing) -> tuple[Tensor, Tensor, list[str]]:
    """The training and test indices whose pictures can be read, and a note on the others."""
    why = unreadable_pictures(listing)
    if not why:
        return listing.train, listing.test, []
    bad = torch.zeros(len(listing.files), dtype=torch.bool)
    bad[list(why)] = True
    named = [f"{listing.files[i]} ({reason})" for i, reason in sorted(why.items())]
    note = f"{len(why)} pictures that cannot be read were left out: {few(named)}"
    return listing.train[~bad[listing.train]], listing.test[~bad[listing.test]], [note]


def unreadable_pictures(
    listing: PublishedListing,
    *,
    seen: Callable[[int, tuple[int, int]], None] | None = None,
) -> dict[int, str]:
    """Reads and decodes every picture; the index of each that cannot be, with the reason.

    seen: called from the threads with the index and the width and height of what a readable picture shows.
    """
    why: dict[int, str] = {}

    def look(i: int) -> None:
        try:
            image = listing.decode(i, listing.read(i))
        except (UnreadablePicture, OSError) as error:
            why[i] = reason(error)
        else:
            if seen is not None:
                seen(i, image.size)

    with strict_pillow():
        each_in_threads(look, len(listing.files))
    return why


# A look at a whole tree


@dataclass(frozen=True, kw_only=True)
class Count:
    """A number of a data set beside the recorded one.

    Attributes:
        what: The things that are counted.
        found: How many there are.
        paper: The recorded number, or None where none is recorded.
        source: Where it is recorded, or who does not record it.
    """

    what: str
    found: int
    paper: int | None
    source: str

    @property
    def agrees(self) -> bool:
        return self.paper is None or self.found == self.paper


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


def check_published(
    kind: str, path: Path | str, *, classes: int | None = None, pictures: str | None = None
) -> PublishedCheck:
    """Look at a whole tree: lists, folders, and every picture decoded in full; nothing is written.

    Args:
        kind, classes, pictures: As for `core.data.published.list_published`. Of CelebA the pictures of the chosen
            identities are looked at.

    A fault does not end the check.

    Raises InputError, one line, only for an unknown name or option and for a folder that does not have the layout at
    all (what was expected, and where).
    """
    root = Path(path)
    entry, options = published_set(kind, root, classes=classes, pictures=pictures, split_seed=42)
    faults: list[str] = []
    listing = entry.lister(root, options, faults.append)
    sizes = np.zeros((len(listing.files), 2), dtype=np.int64)

    def seen(index: int, size: tuple[int, int]) -> None:
        sizes[index] = size

    why = unreadable_pictures(listing, seen=seen)
    faults += [f"{listing.files[i]}: {reason}" for i, reason in sorted(why.items())]
    readable = sizes[sizes[:, 0] > 0]
    return PublishedCheck(
        kind=kind,
        path=root,
        counts=_recorded_counts(kind, listing, len(listing.files) - len(why)),
        sides=(int(readable.min()), int(readable.max())) if len(readable) else None,
        faults=tuple(faults),
        oddities=(*listing.doubts, *_oblong(listing, sizes)),
        notes=listing.notes,
    )


def check_text(check: PublishedCheck) -> list[str]:
    """Lines for a terminal: counts beside the recorded ones, faults and oddities, and a verdict."""
    lines = [f"{check.kind} in {check.path}"]
    lines += [f"  {_count_text(count)}" for count in check.counts]
    if check.sides:
        lines.append(f"  sides: {check.sides[0]} to {check.sides[1]} pixels")
    lines += [f"  {note}" for note in check.notes]
    for title, items in (("faults", check.faults), ("oddities, which loading accepts", check.oddities)):
        if items:
            lines.append(f"  {len(items)} {title}:")
            lines += [f"    {item}" for item in items[:_MOST_LINES]]
            lines += [f"    and {len(items) - _MOST_LINES} more"] if len(items) > _MOST_LINES else []
    lines.append("  fine" if check.is_complete else f"  not fine: {_verdict(check)}")
    return lines


def _recorded_counts(kind: str, listing: PublishedListing, readable: int) -> tuple[Count, ...]:
    row = PUBLISHED_NAMES[kind]
    (classes, source), (images, images_source) = row.classes, row.images
    # Classes with a picture: an empty folder is no identity.
    counts = [
        Count(what=row.what, found=len(torch.unique(listing.labels)), paper=classes, source=source),
        Count(what="readable images", found=readable, paper=images, source=images_source),
    ]
    if row.training is not None:
        number, source = row.training
        counts.append(Count(what="training images listed", found=len(listing.train), paper=number, source=source))
    return tuple(counts)


def _oblong(listing: PublishedListing, sizes: np.ndarray) -> list[str]:
    """FaceScrub's faces are square, and the published loader counts on it; photographs of dogs are not."""
    if not listing.squares:
        return []
    indices = np.flatnonzero(sizes[:, 0] != sizes[:, 1]).tolist()
    return [f"{listing.files[i]}: {sizes[i, 0]} x {sizes[i, 1]} pixels, will be stretched to a square" for i in indices]


def _count_text(count: Count) -> str:
    if count.paper is None:
        return f"{count.what}: {count.found} (nothing to compare with: {count.source})"
    comparison = "as recorded" if count.agrees else f"recorded are {count.paper}"
    return f"{count.what}: {count.found}, {comparison} ({count.source})"


def _verdict(check: PublishedCheck) -> str:
    parts = [f"{len(check.faults)} faults"] if check.faults else []
    parts += [f"{len(check.oddities)} oddities"] if check.oddities else []
    differing = [count.what for count in check.counts if not count.agrees]
    return few([*parts, *(f"the number of {what} differs" for what in differing)])
