"""One small batch of faces, from coordinates to bytes."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from core.data.synthetic import eyes, hair, head, mouth
from core.data.synthetic.frame import Frame, frame_of
from core.data.synthetic.look import Look
from core.data.synthetic.shapes import paint
from core.data.synthetic.shot import Shot

f32 = np.float32


def render(look: Look, shot: Shot, noise: np.ndarray, size: int) -> np.ndarray:
    """Draw B faces.

    noise: uint8 [B, 2, 3, size, size], uniform bytes. Returns uint8 [B, 3, size, size].
    """
    frame = frame_of(look, shot, size)
    image = head.background(frame, shot)
    locks = hair.hair_of(frame, look, shot)
    hair.back_hair(image, locks)
    head.neck(image, frame, look, shot)
    head.ears(image, frame, look, shot)
    _face(image, frame, look, shot)
    hair.front_hair(image, frame, look, shot, locks)
    eye_rows = frame.rows(look.eye_y - f32(0.20), look.eye_y + f32(0.22))
    eyes.glasses(image[:, :, eye_rows], _band(frame, eye_rows), look)
    return _develop(image, shot, noise, size)


def _face(image: np.ndarray, frame: Frame, look: Look, shot: Shot) -> None:
    """Skin, features and light inside the outline of the face."""
    skin = head.complexion(frame, look)
    light = head.relief(frame, look, shot)
    rows = frame.rows(look.nose_y - f32(0.12), look.chin + f32(0.1))
    low, low_skin = _band(frame, rows), skin[:, :, rows]
    mouth.beard(low_skin, low, look, shot)
    head.nostrils(low_skin, low, look)
    mouth.mouth(low_skin, low, look, shot)
    light[:, rows] += mouth.mouth_light(low, look, shot)
    rows = frame.rows(look.eye_y - f32(0.42), look.eye_y + f32(0.15))
    high, high_skin = _band(frame, rows), skin[:, :, rows]
    eyes.eyes(high_skin, high, look, shot)
    eyes.lashes(high_skin, high, look, shot)
    eyes.brows(high_skin, high, look, shot)
    head.shine(skin, light)
    eyes.highlights(high_skin, high, look, shot)
    paint(image, skin, head.face_mask(frame, look))


def _band(frame: Frame, rows: slice) -> Frame:
    """The frame cut to some rows, in memory of its own so that the arithmetic runs over whole blocks."""
    planes = {
        field.name: np.ascontiguousarray(getattr(frame, field.name)[:, rows])
        for field in fields(frame)
        if field.name not in ("pixel", "x", "y")
    }
    return replace(frame, **planes)


def _develop(image: np.ndarray, shot: Shot, noise: np.ndarray, size: int) -> np.ndarray:
    """Exposure, colour cast, blur, sensor noise, bytes."""
    image *= shot.exposure * shot.contrast * shot.cast
    image += f32(0.5) * (f32(1) - shot.contrast)
    _blur(image, shot.blur, size)
    grain = noise[:, 0].astype(np.int16)
    grain += noise[:, 1]
    grain -= 255
    out = np.ascontiguousarray(image.transpose(1, 0, 2, 3))
    out *= f32(255)
    # The sum of two uniform bytes has a standard deviation of 104.5.
    out += grain.astype(np.float32) * (shot.noise * f32(255 / 104.5))[:, None]
    out += f32(0.5)
    np.clip(out, f32(0), f32(255), out=out)
    return out.astype(np.uint8)


def _blur(image: np.ndarray, strength: np.ndarray, size: int) -> None:
    """Separable three-tap passes in place; `strength` float32 [B, 1, 1] is the variance in pixels^2 at 64 x 64."""
    variance = strength * f32((size / 64) ** 2)
    passes = max(1, int(np.ceil((size / 64) ** 2 * 0.9 / 0.5)))
    side = variance / f32(2 * passes)  # a tap of weight w on each side adds a variance of 2w
    for _ in range(passes):
        for axis in (-1, -2):
            flat = image.swapaxes(axis, -1) if axis != -1 else image
            change = flat[..., 1:] - flat[..., :-1]
            change *= side
            flat[..., :-1] += change
            flat[..., 1:] -= change
