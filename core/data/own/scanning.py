"""Every picture of a folder or a Parquet file read once: what it shows, small, and whether it can be read at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from smoothsweep.core.data.decoding import UnreadablePicture, decode_picture, strict_pillow
from smoothsweep.core.data.own.perceptual import SIDE, Hashes, hashes
from smoothsweep.core.data.packed import each_in_threads
from smoothsweep.core.data.readable import reason
from smoothsweep.core.data.sources import Entry


@dataclass(frozen=True, kw_only=True)
class ScannedPictures:
    """What n readable pictures of a list show.

    Attributes:
        index: int64 [n], their places in the list.
        where: The pictures' names.
        digests: Hashes of all their pixels, equal only for the same picture, however it is encoded.
        small: uint8 [n, 32, 32, 3].
        hashes: Perceptual hashes of the pictures.
        shapes: int64 [n, 2], width and height in pixels.
        frames: int64 [n].
        unreadable: A sentence for each of the list's others.
    """

    index: np.ndarray
    where: tuple[str, ...]
    digests: tuple[bytes, ...]
    small: np.ndarray
    hashes: Hashes
    shapes: np.ndarray
    frames: np.ndarray
    unreadable: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.where)

    def at(self, rows: Sequence[int] | np.ndarray) -> ScannedPictures:
        """The entries in these rows."""
        rows = np.asarray(rows, dtype=np.int64)
        return ScannedPictures(
            index=self.index[rows],
            where=tuple(self.where[row] for row in rows),
            digests=tuple(self.digests[row] for row in rows),
            small=self.small[rows],
            hashes=self.hashes.of(rows),
            shapes=self.shapes[rows],
            frames=self.frames[rows],
        )


def scan_pictures(entries: Sequence[Entry], *, workers: int | None = None) -> ScannedPictures:
    """Decode all of them, on as many threads as there are cores unless `workers` says how many.

    Memory: 3 KiB a picture. A picture that cannot be read is no error.
    """
    small = np.zeros((len(entries), SIDE, SIDE, 3), dtype=np.uint8)
    facts = np.zeros((len(entries), 3), dtype=np.int64)
    digests: dict[int, bytes] = {}
    why: dict[int, str] = {}

    def look(i: int) -> None:
        try:
            picture = decode_picture(entries[i].read(), size=SIDE, crop="stretch")
        except (UnreadablePicture, OSError) as error:
            why[i] = reason(error)
            return
        small[i], digests[i] = picture.pixels, picture.digest
        facts[i] = picture.width, picture.height, picture.frames

    with strict_pillow():
        each_in_threads(look, len(entries), workers)
    readable = np.array(sorted(digests), dtype=np.int64)
    return ScannedPictures(
        index=readable,
        where=tuple(entries[i].where for i in readable),
        digests=tuple(digests[i] for i in readable),
        small=small[readable],
        hashes=hashes(small[readable]),
        shapes=facts[readable, :2],
        frames=facts[readable, 2],
        unreadable=tuple(f"{entries[i].where} ({text})" for i, text in sorted(why.items())),
    )
