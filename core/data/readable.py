"""Which pictures of a listing are there and can be read."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from smoothsweep.core.data.decoding import UnreadablePicture, strict_pillow
from smoothsweep.core.data.listing import PublishedListing, few
from smoothsweep.core.data.packed import each_in_threads
from smoothsweep.core.errors import InputError


def require_all(listing: PublishedListing) -> None:
    """Raises InputError naming listed files that are not there; looking is quick beside decoding."""
    missing = [file for file in listing.files if not (listing.root / file).is_file()]
    if missing:
        raise InputError(
            f"data {listing.root}: expected every listed picture, got {len(missing)} missing: {few(missing)}"
        )


def readable(listing: PublishedListing, *, workers: int | None = None) -> tuple[Tensor, Tensor, list[str]]:
    """The training and test indices whose pictures can be read, and a note on the others."""
    why = unreadable_pictures(listing, workers=workers)
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
    workers: int | None = None,
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
        each_in_threads(look, len(listing.files), workers)
    return why


def reason(error: UnreadablePicture | OSError) -> str:
    """Why a picture cannot be read, without its path."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    return (error.strerror or "unreadable") if isinstance(error, OSError) else str(error)
