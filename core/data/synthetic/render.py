"""One small batch of faces, from coordinates to bytes."""

from __future__ import annotations

import numpy as np

from smoothsweep.core.data.synthetic import eyes, hair, head, mouth
from smoothsweep.core.data.synthetic.frame import Frame, frame_of, rows_between
from smoothsweep.core.data.synthetic.look import Look
from smoothsweep.core.data.synthetic.shapes import paint
from smoothsweep.core.data.synthetic.shot import Shot

f32 = np.float32


def render(look: Look, shot: Shot, noise: np.ndarray, size: int) -> np.ndarray:
    """Draw B faces.

    noise: uint8 [B, 2, 3, size, size], uniform bytes. Returns uint8 [B, 3, size, size].
    """
    frame = frame_of(look, shot, size)
    image = head.background(frame, shot)
    locks = hair.hair_of(frame, look, shot)
    hair.back_hair(image, locks)
    rows = rows_between(frame.v, 0.1, 9.0)
    head.neck(image[:, :, rows], frame.band(rows), look, shot)
    rows = rows_between(frame.v, -0.35, 0.45)
    head.ears(image[:, :, rows], frame.band(rows), look, shot)
    _face(image, frame, look, shot, locks)
    hair.front_hair(image, locks)
    rows = rows_between(frame.inner_v, look.eye_y - f32(0.20), look.eye_y + f32(0.26))
    eyes.glasses(image[:, :, rows], frame.band(rows), look)
    return _develop(image, shot, noise, size)


def _face(image: np.ndarray, frame: Frame, look: Look, shot: Shot, locks: hair.Hair) -> None:
    """Skin, features and light inside the outline of the face."""
    skin = head.complexion(frame, look)
    light = head.relief(frame, look, shot)
    light -= hair.hair_shadow(locks)
    rows = rows_between(frame.inner_v, look.eye_y - f32(0.10), look.nose_y + f32(0.13))
    light[:, rows] += head.nose_light(frame.band(rows), look, shot)
    rows = rows_between(frame.inner_v, f32(-0.1), look.chin + f32(0.2))
    low, low_skin, low_light = frame.band(rows), skin[:, :, rows], light[:, rows]
    low_light += head.cheek_light(low, look, shot)
    low_light += mouth.mouth_light(low, look, shot)
    mouth.beard(low_skin, low, look, shot)
    head.nostrils(low_skin, low, look)
    mouth.mouth(low_skin, low, look, shot)
    rows = rows_between(frame.inner_v, look.eye_y - f32(0.42), look.eye_y + f32(0.20))
    high, high_skin, high_light = frame.band(rows), skin[:, :, rows], light[:, rows]
    high_light += head.eye_light(high, look, shot)
    eyes.eyes(high_skin, high, look, shot)
    eyes.brows(high_skin, high, look, shot)
    head.shine(skin, light)
    eyes.highlights(high_skin, high, look, shot)
    paint(image, skin, head.face_mask(frame, look))


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
    """Separable three-tap passes in place; `strength` [B, 1, 1] is the variance in pixels^2 at 64 x 64."""
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
