"""What a folder that should hold a published data set does hold, and what is wrong with it, file by file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from smoothsweep.core.data.listing import PublishedListing, few
from smoothsweep.core.data.names import PUBLISHED_NAMES
from smoothsweep.core.data.published import published_set
from smoothsweep.core.data.readable import unreadable_pictures

_MOST_LINES = 20


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
    kind: str, path: Path | str, *, classes: int | None = None, pictures: str | None = None, workers: int | None = None
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

    why = unreadable_pictures(listing, seen=seen, workers=workers)
    faults += [f"{listing.files[i]}: {reason}" for i, reason in sorted(why.items())]
    readable = sizes[sizes[:, 0] > 0]
    return PublishedCheck(
        kind=kind,
        path=root,
        counts=_counts(kind, listing, len(listing.files) - len(why)),
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


def _counts(kind: str, listing: PublishedListing, readable: int) -> tuple[Count, ...]:
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
