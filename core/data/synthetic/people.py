"""Who is drawn and how: traits of an identity, the look that follows, the nuisances of a shot, and the canvas."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Literal

import numpy as np

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
        count = _NUISANCE_WORDS + -(-noise_bytes // 8)
        words = self._raw(stream=_IMAGE_STREAM, identity=identity, image=image, words=count)
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


_TRAITS = (
    "skin_tone skin_warmth skin_redness head_width head_height jaw_taper jaw_squareness ear_size eye_spacing "
    "eye_size eye_tilt eye_height iris_blue iris_light brow_height brow_thickness brow_tilt brow_arch nose_length "
    "nose_width mouth_width lip_thickness mouth_height lip_colour hair_light hair_red hair_length hair_line "
    "hair_volume hair_parting hair_fringe hair_peak hair_wave beard moustache glasses age"
)
TRAIT_NAMES = tuple(_TRAITS.split())


def identity_traits(*, population: Population, identities: int, spread: float = 1.0, seed: int) -> np.ndarray:
    """Traits of the first `identities` people of a population.

    Returns float32 [identities, len(TRAIT_NAMES)], independent N(0, spread^2): 0 is the average face, spread 1
    an ordinary crowd, 0.4 a crowd of look-alikes. Row i depends on (population, seed, i, spread) only.
    """
    streams = FaceStreams(population=population, seed=seed)
    rows = [streams.identity_normals(identity, len(TRAIT_NAMES)) for identity in range(identities)]
    return (np.stack(rows) * spread).astype(np.float32)


# Lengths are in units of half the image side from its centre, x right, y down. Colours are sRGB in [0, 1].


class Look(SimpleNamespace):
    """Drawing constants per face, named in `look_of`: float32 [B, 1, 1] for numbers, [3, B, 1, 1] for colours."""

    def take(self, index: np.ndarray) -> Look:
        """The looks at `index` (int [M]); the batch axis is the third from the end."""
        return Look(**{name: np.take(value, index, axis=-3) for name, value in vars(self).items()})


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
    return {"skin": skin, "hair": hair, "iris": brown * (1.0 - blueness) + blue * blueness, "lips": lips}


def look_of(traits: np.ndarray) -> Look:
    """traits float32 [B, T] (see TRAIT_NAMES) -> Look of B faces."""
    trait: dict[str, np.ndarray] = dict(zip(TRAIT_NAMES, bounded(traits.astype(np.float64)).T, strict=True))
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
    colours = {name: np.clip(value, 0.0, 1.0) for name, value in _colours(trait).items()}
    return Look(**_shaped(numbers, colours))


def _shaped(numbers: dict[str, np.ndarray], colours: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """[B] and [3, B] with the axes of a plane."""
    return {name: value.astype(np.float32)[..., None, None] for name, value in (numbers | colours).items()}


class Shot(SimpleNamespace):
    """Nuisances per image, named in `shot_of`: float32 [B, 1, 1] for numbers, [3, B, 1, 1] for colours."""


def shot_of(uniform: np.ndarray) -> Shot:
    """float64 [B, 64] uniforms in (0, 1) -> Shot of B images."""
    gauss = np.clip(normals(uniform[:, :40]), -2.5, 2.5).T
    flat = uniform[:, 40:].T
    roll = 0.055 * gauss[3]
    angle = 2.0 * np.pi * flat[0]
    open_mouth = np.clip((flat[1] - 0.55) / 0.45, 0.0, 1.0) ** 1.5
    numbers = {
        "shift_x": 0.030 * gauss[0],
        "shift_y": 0.030 * gauss[1],
        "scale": 1.07 + 0.035 * gauss[2],
        "cosine": np.cos(roll),
        "sine": np.sin(roll),
        "yaw": 0.45 * gauss[4],
        "pitch": 0.40 * gauss[5],
        "light_x": 0.45 * gauss[6],
        "light_y": -0.25 + 0.25 * gauss[7],
        "light": 0.34 + 0.16 * flat[2],
        "exposure": 1.0 + 0.09 * gauss[8],
        "contrast": 1.0 + 0.07 * gauss[9],
        "smile": np.clip(0.35 + 0.5 * gauss[10], -0.35, 1.4),
        "mouth_open": open_mouth,
        "eye_open": np.clip(1.0 + 0.14 * gauss[11], 0.55, 1.3),
        "gaze_x": 0.018 * gauss[12],
        "gaze_y": 0.008 * gauss[13],
        "brow_raise": 0.014 * gauss[14],
        "background_x": np.cos(angle),
        "background_y": np.sin(angle),
        "blur": 0.75 * flat[3] ** 2,
        "noise": 0.004 + 0.010 * flat[4],
    }
    grey = 0.25 + 0.6 * flat[5]
    colours = {
        "cast": 1.0 + 0.035 * np.stack([gauss[15], 0.4 * gauss[16], -gauss[15]]),
        "background": np.clip(grey + 0.26 * (flat[6:9] - 0.5), 0.02, 0.98),
        "background_slope": 0.22 * (flat[9] - 0.5) + 0.14 * (flat[10:13] - 0.5),
        "clothes": np.clip(0.12 + 0.55 * flat[13] + 0.35 * (flat[14:17] - 0.5), 0.03, 0.97),
    }
    return Shot(**_shaped(numbers, colours))


# Where each pixel lies on the head, and the soft masks on planes of pixels that layers are painted with.
#
# Only + - * / sqrt min max floor: IEEE 754 defines these to the last bit, so that a picture is the same on
# every machine and however the batch was cut. Masks have compact support: a layer may be drawn on a few rows.
# Planes are float32 [B, H, W].


Plane = np.ndarray


def cover(distance: Plane, softness: np.ndarray | np.floating | float) -> Plane:
    """Coverage in [0, 1] of a shape of signed `distance`, negative inside: a ramp `softness` wide."""
    ramp = distance * np.float32(-1.0 / softness)
    ramp += np.float32(0.5)
    return np.clip(ramp, np.float32(0), np.float32(1), out=ramp)


def ramp(value: Plane, start: np.ndarray | float, end: np.ndarray | float) -> Plane:
    """0 before `start`, 1 after `end`, linear between."""
    slope = (1.0 / (np.asarray(end, np.float32) - np.asarray(start, np.float32))).astype(np.float32)
    out = value * slope
    out -= np.asarray(start, np.float32) * slope
    return np.clip(out, np.float32(0), np.float32(1), out=out)


def blob(x: Plane, y: Plane) -> Plane:
    """A soft round spot: (1 - x^2 - y^2)^2 inside the unit circle, 0 outside."""
    out = x * x
    out += y * y
    np.subtract(np.float32(1), out, out=out)
    np.maximum(out, np.float32(0), out=out)
    out *= out
    return out


def bump(x: Plane) -> Plane:
    """(1 - x^2)^2 for |x| < 1, 0 outside."""
    out = x * x
    np.subtract(np.float32(1), out, out=out)
    np.maximum(out, np.float32(0), out=out)
    out *= out
    return out


def triangle_wave(x: Plane) -> Plane:
    """Period 1, values in [-1, 1]."""
    out = x - np.floor(x)
    out -= np.float32(0.5)
    np.abs(out, out=out)
    out *= np.float32(4)
    out -= np.float32(1)
    return out


def paint(image: np.ndarray, colour: np.ndarray, mask: Plane) -> None:
    """Lay `colour` (float32 [3, B, 1 | H, 1 | W]) over `image` (float32 [3, B, H, W], changed in place)."""
    change = colour - image
    change *= mask
    image += change


HEAD_CENTRE_Y = -0.08  # the line of the ears, where the skull is widest
_PIVOT_Y = 0.10


@dataclass(frozen=True, kw_only=True)
class Frame:
    """Planes float32 [B, H, W] of head coordinates; all lengths in units of half the image side.

    Attributes:
        x, y: The picture itself, in [-1, 1].
        u, v: The head, without pose (u right, v down).
        q: 1 on the outline of the face, below 1 inside.
        across, down: U and v relative to the half width and the height of the face.
        inner_u, inner_v: U and v for features on the front of the face, which yaw and pitch slide over the skull.
        side: |inner_u|; both eyes, brows and nostrils are drawn at once on it.
        pixel: The width of one pixel.
    """

    x: Plane
    y: Plane
    u: Plane
    v: Plane
    q: Plane
    across: Plane
    down: Plane
    inner_u: Plane
    inner_v: Plane
    side: Plane
    pixel: np.float32

    def band(self, rows: slice) -> Frame:
        """The same coordinates on some rows of the picture only (views)."""
        planes = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "pixel"}
        return Frame(**{name: plane[:, rows] for name, plane in planes.items()}, pixel=self.pixel)


def rows_between(
    plane: Plane, top: np.ndarray | np.floating | float, bottom: np.ndarray | np.floating | float
) -> slice:
    """The rows in which `plane` lies between `top` and `bottom` ([B, 1, 1]) in some picture."""
    hit = np.flatnonzero(((plane > top) & (plane < bottom)).any(axis=(0, 2)))
    return slice(int(hit[0]), int(hit[-1]) + 1) if len(hit) else slice(0, 0)


def frame_of(look: Look, shot: Shot, size: int) -> Frame:
    """The coordinates of B pictures of size x size pixels."""
    centres = ((2 * np.arange(size) + 1) / size - 1).astype(np.float32)
    x = np.broadcast_to(centres[None, None, :], (1, size, size))
    y = np.broadcast_to(centres[None, :, None], (1, size, size))
    dx = x - shot.shift_x
    dy = y - (shot.shift_y + np.float32(_PIVOT_Y))
    cosine, sine = shot.cosine / shot.scale, shot.sine / shot.scale
    u = dx * cosine + dy * sine
    v = dy * cosine - dx * sine
    v += np.float32(_PIVOT_Y)
    across = u / look.head_width
    down = v - np.float32(HEAD_CENTRE_Y)
    down /= np.where(down < 0, look.head_top, look.chin)
    q = outline(across, down, look.jaw_taper, look.jaw_squareness)
    facing = np.maximum(np.float32(1) - q, np.float32(0))
    inner_u = u - (np.float32(0.17) * shot.yaw) * facing
    inner_v = v - (np.float32(0.11) * shot.pitch) * facing
    pixel, side = np.float32(2.0 / size), np.abs(inner_u)
    return Frame(
        x=x, y=y, u=u, v=v, q=q, across=across, down=down, inner_u=inner_u, inner_v=inner_v, side=side, pixel=pixel
    )


def outline(across: Plane, down: Plane, taper: np.ndarray, squareness: np.ndarray) -> Plane:
    """An egg, 1 on its outline: an ellipse whose lower half `taper` narrows and `squareness` fills out."""
    below = np.maximum(down, np.float32(0))
    below *= below
    squared = across * across
    widened = below * taper
    widened += np.float32(1)
    widened *= widened
    squared *= widened
    q = down * down
    q += squared
    squared *= below
    squared *= squareness
    q -= squared
    return q
