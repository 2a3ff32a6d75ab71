"""Counter-based random streams: one short stream per identity and one per image, whatever else is drawn."""

from __future__ import annotations

import hashlib
import sys
from typing import Literal, get_args

import numpy as np

from smoothsweep.core.errors import InputError

Population = Literal["private", "public"]

_IDENTITY_STREAM = 1
_IMAGE_STREAM = 2
_NUISANCE_WORDS = 64


class FaceStreams:
    """The random bits of one population under one seed.

    A Philox generator is keyed by SHA-256 of (population, seed); its 256-bit counter holds the identity, the
    image and what the bits are for. So populations share nothing, and the order of calls does not matter.
    """

    def __init__(self, *, population: Population, seed: int) -> None:
        """Raises InputError for an unknown population."""
        if population not in get_args(Population):
            raise InputError(f"population: expected one of {', '.join(get_args(Population))}, got {population!r}")
        digest = hashlib.sha256(f"synthetic-faces/1/{population}/{int(seed)}".encode()).digest()
        key = np.frombuffer(digest[:16], dtype="<u8").astype(np.uint64)
        self._bits = np.random.Philox(key=key)
        self._state = self._bits.state

    def _raw(self, *, stream: int, identity: int, image: int, words: int) -> np.ndarray:
        """uint64 [words]: the start of the stream that belongs to (stream, identity, image)."""
        self._state["state"]["counter"][:] = (0, image, identity, stream)
        self._state["buffer_pos"] = 4  # the four buffered words are used up: the next word comes from the counter
        self._bits.state = self._state
        return self._bits.random_raw(words)

    def identity_normals(self, identity: int, count: int) -> np.ndarray:
        """float64 [count], standard normal, for one identity."""
        words = self._raw(stream=_IDENTITY_STREAM, identity=identity, image=0, words=2 * count)
        return normals(uniforms(words))

    def image_bits(self, identity: int, image: int, noise_bytes: int) -> tuple[np.ndarray, np.ndarray]:
        """(float64 [64] uniforms in (0, 1) for the nuisances, uint8 [noise_bytes] for its noise) of an image."""
        words = self._raw(
            stream=_IMAGE_STREAM, identity=identity, image=image, words=_NUISANCE_WORDS + -(-noise_bytes // 8)
        )
        noise = words[_NUISANCE_WORDS:]
        if sys.byteorder == "big":
            noise = noise.byteswap()
        return uniforms(words[:_NUISANCE_WORDS]), noise.view(np.uint8)[:noise_bytes]


def uniforms(words: np.ndarray) -> np.ndarray:
    """uint64 words -> float64 in the open interval (0, 1)."""
    return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def normals(uniform: np.ndarray) -> np.ndarray:
    """float64 [..., 2n] uniforms in (0, 1) -> float64 [..., n] standard normals (Box and Muller)."""
    # numpy keeps its raw Philox words stable across versions, but not its normal distribution: hence our own.
    half = uniform.shape[-1] // 2
    return np.sqrt(-2.0 * np.log(uniform[..., :half])) * np.cos(2.0 * np.pi * uniform[..., half:])
