"""Turn traits into a look: the geometry and the colours of one identity in all its images."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from smoothsweep.core.data.synthetic.traits import TRAIT_NAMES

# Lengths are in units of half the image side from its centre, x right, y down. Colours are sRGB in [0, 1].


@dataclass(frozen=True, kw_only=True)
class Look:
    """Drawing constants per face: float32 [B, 1, 1] for numbers, float32 [3, B, 1, 1] for colours."""

    skin: np.ndarray
    blush: np.ndarray
    head_width: np.ndarray
    head_top: np.ndarray
    chin: np.ndarray
    jaw_taper: np.ndarray
    jaw_squareness: np.ndarray
    ear: np.ndarray
    eye_x: np.ndarray
    eye_y: np.ndarray
    eye_size: np.ndarray
    eye_tilt: np.ndarray
    iris: np.ndarray
    brow_y: np.ndarray
    brow_thickness: np.ndarray
    brow_tilt: np.ndarray
    brow_arch: np.ndarray
    nose_y: np.ndarray
    nose_width: np.ndarray
    mouth_y: np.ndarray
    mouth_width: np.ndarray
    lip_thickness: np.ndarray
    lips: np.ndarray
    hair: np.ndarray
    hair_end: np.ndarray
    hair_line: np.ndarray
    hair_volume: np.ndarray
    parting: np.ndarray
    hair_flat: np.ndarray
    hair_peak: np.ndarray
    hair_wave: np.ndarray
    beard: np.ndarray
    moustache: np.ndarray
    glasses: np.ndarray
    age: np.ndarray

    def take(self, index: np.ndarray) -> Look:
        """The looks at `index` (int [M]); the batch axis is the third from the end."""
        return Look(**{field.name: np.take(getattr(self, field.name), index, axis=-3) for field in fields(self)})


def bounded(trait: np.ndarray) -> np.ndarray:
    """Monotone, near the identity around 0, within +-2.5: no trait grows into a caricature."""
    return trait / np.sqrt(1.0 + (trait / 2.5) ** 2)


def switch(trait: np.ndarray, threshold: float, width: float) -> np.ndarray:
    """0 below `threshold`, 1 above `threshold + width`, linear between: for what only some people have."""
    return np.clip((trait - threshold) / width, 0.0, 1.0)


def between(position: np.ndarray, colours: tuple[tuple[float, float, float], ...]) -> np.ndarray:
    """Piecewise linear colour scale: position [B] in [0, 1] -> [3, B]."""
    stops = np.linspace(0.0, 1.0, len(colours))
    return np.stack([np.interp(position, stops, [colour[channel] for colour in colours]) for channel in range(3)])


_SKIN = ((0.99, 0.86, 0.77), (0.94, 0.76, 0.63), (0.82, 0.61, 0.46), (0.62, 0.42, 0.30), (0.40, 0.26, 0.19))
_HAIR = ((0.07, 0.06, 0.07), (0.20, 0.13, 0.09), (0.40, 0.26, 0.15), (0.66, 0.49, 0.28), (0.88, 0.77, 0.55))


def _colours(trait: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    skin = between(0.36 + 0.17 * trait["skin_tone"], _SKIN)
    skin = skin * (1.0 + np.outer([0.02, 0.0, -0.055], trait["skin_warmth"]))
    hair = between(0.33 + 0.15 * trait["hair_light"], _HAIR)
    # Ash-blond at most: the full range on the cool side would turn green.
    red = np.where(trait["hair_red"] > 0, 1.0, 0.35) * trait["hair_red"]
    hair = hair * (1.0 + np.outer([0.16, -0.03, -0.12], red))
    brown = np.outer([0.36, 0.22, 0.12], 1.0 + 0.30 * trait["iris_light"])
    blue = np.outer([0.36, 0.52, 0.62], 1.0 + 0.14 * trait["iris_light"])
    blueness = np.clip(0.45 + 0.32 * trait["iris_blue"], 0.0, 1.0)
    redness = np.clip(0.50 + 0.17 * trait["lip_colour"], 0.05, 0.95)
    lips = skin * (1.0 - redness) + redness * (0.35 * skin + np.array([[0.50], [0.16], [0.19]]))
    return {
        "skin": skin,
        "hair": hair,
        "iris": brown * (1.0 - blueness) + blue * blueness,
        "lips": lips,
    }


def look_of(traits: np.ndarray) -> Look:
    """traits float32 [B, T] (see TRAIT_NAMES) -> Look of B faces."""
    trait = dict(zip(TRAIT_NAMES, bounded(traits.astype(np.float64)).T, strict=True))
    raw = dict(zip(TRAIT_NAMES, traits.astype(np.float64).T, strict=True))
    eye_y = -0.15 + 0.024 * trait["eye_height"]
    nose_y = 0.215 + 0.040 * trait["nose_length"]
    numbers = {
        "blush": 0.10 + 0.040 * trait["skin_redness"],
        "head_width": 0.60 + 0.028 * trait["head_width"],
        "head_top": 0.80 + 0.020 * trait["head_height"],
        "chin": 0.86 + 0.030 * trait["head_height"],
        "jaw_taper": 0.06 - 0.05 * trait["jaw_taper"],
        "jaw_squareness": 0.30 + 0.20 * trait["jaw_squareness"],
        "ear": 1.0 + 0.14 * trait["ear_size"],
        "eye_x": 0.265 + 0.020 * trait["eye_spacing"],
        "eye_y": eye_y,
        "eye_size": 1.0 + 0.14 * trait["eye_size"],
        "eye_tilt": 0.03 + 0.10 * trait["eye_tilt"],
        "brow_y": eye_y - 0.20 - 0.026 * trait["brow_height"],
        "brow_thickness": 0.028 + 0.0090 * trait["brow_thickness"],
        "brow_tilt": 0.028 * trait["brow_tilt"],
        "brow_arch": 0.045 + 0.021 * trait["brow_arch"],
        "nose_y": nose_y,
        "nose_width": 0.125 + 0.020 * trait["nose_width"],
        "mouth_y": 0.45 + 0.45 * (nose_y - 0.215) + 0.024 * trait["mouth_height"],
        "mouth_width": 0.215 + 0.030 * trait["mouth_width"],
        "lip_thickness": 0.050 + 0.0140 * trait["lip_thickness"],
        "hair_end": -0.05 + np.where(trait["hair_length"] > 0, 0.50, 0.12) * trait["hair_length"],
        "hair_line": -0.615 - 0.036 * trait["hair_line"],
        "hair_volume": 0.105 + 0.025 * trait["hair_volume"],
        "parting": 0.38 * trait["hair_parting"],
        "hair_flat": np.clip(0.5 + 0.28 * trait["hair_fringe"], 0.0, 1.0),
        "hair_peak": 0.07 * np.clip(trait["hair_peak"] - 0.1, 0.0, 2.0),
        "hair_wave": 0.030 * np.clip(trait["hair_wave"], 0.0, 2.0),
        "beard": 0.9 * switch(raw["beard"], 0.35, 1.1),
        "moustache": 0.9 * switch(raw["moustache"], 0.40, 1.0),
        "glasses": switch(raw["glasses"], 0.65, 0.15),
        "age": np.clip(0.40 + 0.28 * trait["age"], 0.0, 1.0),
    }
    shaped = {name: value.astype(np.float32)[:, None, None] for name, value in numbers.items()}
    shaped |= {
        name: np.clip(value, 0.0, 1.0).astype(np.float32)[:, :, None, None] for name, value in _colours(trait).items()
    }
    return Look(**shaped)
