"""Pictures that look alike though no byte of theirs agrees: a hash of 64 bits, and who lies next to whom.

The hash is that of ImageHash's `phash` (github.com/JohannesBuchner/imagehash, imagehash/__init__.py) on many pictures
at once; how they are made small is `core.data.decoding`'s. Copies of another size, brightness or compression are near;
mirrored, turned and closely cropped ones are not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.fft import dctn

SIDE = 32  # pixels of what is hashed
NEAR = 4
"""Bits by which alike pictures differ at most. No two people of the ORL faces, or of 110 people of Labeled Faces in the
Wild, have pictures so near; at 6 bits 1 and 7 pairs are."""
ALIKE = 0.85
"""Correlation of the small grey pictures from which on near ones are alike. Among many millions of pairs a few are near
by chance (the one such pair of 2,684 and 14,329 faces reaches 0.62); copies and photographs of one moment reach 0.9."""

_LOW = 8  # frequencies of each direction
_FLAT = 2.0  # grey levels: below this deviation there is nothing to see, and rounding decides the bits
_PICTURES, _PAIRS = 4096, 1 << 22  # at once
_GREY = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R 601, as Pillow's mode L
_FAR = 65


@dataclass(frozen=True, kw_only=True)
class Hashes:
    """Perceptual hashes of N pictures.

    Attributes:
        bits: uint64 [N].
        plain: bool [N], pictures of one shade, which are near nothing.
    """

    bits: np.ndarray
    plain: np.ndarray

    def __len__(self) -> int:
        return len(self.bits)

    def of(self, index: np.ndarray) -> Hashes:
        """The hashes at `index` (int64 [M])."""
        return Hashes(bits=self.bits[index], plain=self.plain[index])


def hashes(pictures: np.ndarray) -> Hashes:
    """Whether each of the 8 x 8 lowest frequencies exceeds their median, of pictures uint8 [N, 32, 32, 3]."""
    bits, plain = np.zeros(len(pictures), dtype=np.uint64), np.zeros(len(pictures), dtype=bool)
    for start in range(0, len(pictures), _PICTURES):
        grey = grey_of(pictures[start : start + _PICTURES])
        low = dctn(grey, axes=(1, 2))[:, :_LOW, :_LOW].reshape(len(grey), _LOW * _LOW)
        above = low > np.median(low, axis=1, keepdims=True)
        bits[start : start + len(grey)] = np.packbits(above, axis=1).view(">u8")[:, 0]
        plain[start : start + len(grey)] = grey.std(axis=(1, 2)) < _FLAT
    return Hashes(bits=bits, plain=plain)


def grey_of(pictures: np.ndarray) -> np.ndarray:
    """Grey levels float32 [N, 32, 32] of pictures uint8 [N, 32, 32, 3]."""
    return pictures.astype(np.float32) @ _GREY


def correlations(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Correlations of `some` with the `others` in the same rows, both uint8 [M, 32, 32, 3]: float32 [M], in [-1, 1].

    0 where a picture is of one shade.
    """
    first, other = (grey_of(pictures).reshape(len(pictures), SIDE * SIDE) for pictures in (some, others))
    first, other = (levels - levels.mean(axis=1, keepdims=True) for levels in (first, other))
    scale = np.linalg.norm(first, axis=1) * np.linalg.norm(other, axis=1)
    return np.divide((first * other).sum(axis=1), scale, out=np.zeros(len(first), np.float32), where=scale > 0)


def nearest(some: Hashes, others: Hashes | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Find the nearest of the others for each of `some`, int64 [N], and in how many bits they differ, int64 [N].

    others: None for those of `some` that come before it. Where there is none, the index is -1 and the distance 65.
    """
    against = some if others is None else others
    index, distance = np.full(len(some), -1), np.full(len(some), _FAR)
    if not len(against):
        return index, distance
    rows = max(1, _PAIRS // len(against))
    for start in range(0, len(some), rows):
        block = slice(start, min(start + rows, len(some)))
        apart = np.bitwise_count(some.bits[block, None] ^ against.bits[None])
        apart[some.plain[block]], apart[:, against.plain] = _FAR, _FAR
        if others is None:
            later = np.arange(len(against))[None] >= np.arange(block.start, block.stop)[:, None]
            apart[later] = _FAR
        closest = apart.argmin(axis=1)
        distance[block] = apart[np.arange(len(apart)), closest]
        index[block] = np.where(distance[block] < _FAR, closest, -1)
    return index, distance
