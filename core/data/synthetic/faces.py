"""Synthetic people: as many images of as many identities as asked for, the same on every machine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.data.synthetic.features import render
from smoothsweep.core.data.synthetic.people import FaceStreams, Look, Population, identity_traits, look_of, shot_of
from smoothsweep.core.errors import InputError

_BATCH = 16  # a plane of 16 small images stays in the cache of one core
_SIZES = (16, 256)


def synthetic_faces(
    *,
    population: Population,
    identities: int,
    per_identity: int,
    size: int = 64,
    spread: float = 1.0,
    seed: int,
    first_image: int = 0,
    threads: int = 1,
) -> ImageSet:
    """Images first_image .. first_image + per_identity - 1 of the first `identities` people of a population.

    Image k of identity i depends on (population, seed, spread, size, i, k) only: ranges of k are disjoint draws
    (train and test), asking for more people leaves the first ones as they were, and `threads` changes nothing
    but the speed. A smaller `spread` makes people look alike; pose, light and expression vary as before.
    Returns uint8 images [identities * per_identity, 3, size, size] ordered by identity, then image; names
    "private-0000", ... Raises InputError for a value out of range.
    """
    traits = identity_traits(population=population, identities=identities, spread=spread, seed=seed)
    images = faces_of(
        traits,
        population=population,
        per_identity=per_identity,
        size=size,
        seed=seed,
        first_image=first_image,
        threads=threads,
    )
    labels = torch.arange(identities).repeat_interleave(per_identity)
    names = tuple(f"{population}-{identity:04d}" for identity in range(identities))
    return ImageSet(images=images, labels=labels, names=names)


def faces_of(
    traits: np.ndarray,
    *,
    population: Population,
    per_identity: int,
    size: int = 64,
    seed: int,
    first_image: int = 0,
    threads: int = 1,
) -> torch.Tensor:
    """Images of people with the given traits (float32 [P, T]): uint8 [P * per_identity, 3, size, size].

    Pose, light and so on are those of the first P identities of (population, seed). Raises as synthetic_faces.
    """
    _check(per_identity=per_identity, size=size, first_image=first_image, threads=threads)
    looks = look_of(traits)
    total = len(traits) * per_identity
    images = np.empty((total, 3, size, size), np.uint8)

    def draw(span: range) -> None:
        streams = FaceStreams(population=population, seed=seed)
        for start in range(span.start, span.stop, _BATCH):
            index = np.arange(start, min(start + _BATCH, span.stop))
            who, which = index // per_identity, first_image + index % per_identity
            images[index[0] : index[-1] + 1] = _draw_batch(streams, looks, who, which, size)

    share = -(-total // (threads * _BATCH)) * _BATCH
    spans = [range(start, min(start + share, total)) for start in range(0, total, share)]
    if len(spans) == 1:
        draw(spans[0])
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(draw, spans))
    return torch.from_numpy(images)


def _draw_batch(streams: FaceStreams, looks: Look, who: np.ndarray, which: np.ndarray, size: int) -> np.ndarray:
    """uint8 [B, 3, size, size]: image which[b] of identity who[b]."""
    bits = [streams.image_bits(int(i), int(k), 6 * size * size) for i, k in zip(who, which, strict=True)]
    uniform = np.stack([nuisance for nuisance, _ in bits])
    noise = np.stack([grain for _, grain in bits]).reshape(len(bits), 2, 3, size, size)
    return render(looks.take(who), shot_of(uniform), noise, size)


def _check(*, per_identity: int, size: int, first_image: int, threads: int) -> None:
    if per_identity < 1:
        raise InputError(f"per_identity: expected at least 1, got {per_identity}")
    if not _SIZES[0] <= size <= _SIZES[1]:
        raise InputError(f"size: expected {_SIZES[0]} to {_SIZES[1]} pixels, got {size}")
    if first_image < 0:
        raise InputError(f"first_image: expected at least 0, got {first_image}")
    if threads < 1:
        raise InputError(f"threads: expected at least 1, got {threads}")
