"""What makes an identity: a vector of independent, standardised traits."""

from __future__ import annotations

import numpy as np

from smoothsweep.core.data.synthetic.streams import FaceStreams, Population
from smoothsweep.core.errors import InputError

TRAIT_NAMES: tuple[str, ...] = (
    "skin_tone",
    "skin_warmth",
    "skin_redness",
    "head_width",
    "head_height",
    "jaw_taper",
    "jaw_squareness",
    "ear_size",
    "eye_spacing",
    "eye_size",
    "eye_tilt",
    "eye_height",
    "iris_blue",
    "iris_light",
    "brow_height",
    "brow_thickness",
    "brow_tilt",
    "brow_arch",
    "nose_length",
    "nose_width",
    "mouth_width",
    "lip_thickness",
    "mouth_height",
    "lip_colour",
    "hair_light",
    "hair_red",
    "hair_length",
    "hair_line",
    "hair_volume",
    "hair_parting",
    "hair_fringe",
    "hair_peak",
    "hair_wave",
    "beard",
    "moustache",
    "glasses",
    "age",
)


def identity_traits(*, population: Population, identities: int, spread: float = 1.0, seed: int) -> np.ndarray:
    """Traits of the first `identities` people of a population.

    Returns float32 [identities, len(TRAIT_NAMES)], independent N(0, spread^2): 0 is the average face, spread 1
    an ordinary crowd, 0.4 a crowd of look-alikes. Row i depends on (population, seed, i, spread) only. Raises
    InputError for an unknown population, no identities, or a negative spread.
    """
    if identities < 1:
        raise InputError(f"identities: expected at least 1, got {identities}")
    if not 0.0 <= spread < float("inf"):
        raise InputError(f"spread: expected a number >= 0, got {spread}")
    streams = FaceStreams(population=population, seed=seed)
    rows = [streams.identity_normals(identity, len(TRAIT_NAMES)) for identity in range(identities)]
    return (np.stack(rows) * spread).astype(np.float32)
