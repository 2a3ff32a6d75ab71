"""Background, neck, ears, the skin of the face, and the light that falls on it."""

from __future__ import annotations

import numpy as np

from smoothsweep.core.data.synthetic.frame import Frame
from smoothsweep.core.data.synthetic.look import Look
from smoothsweep.core.data.synthetic.shapes import Plane, blob, bump, cover, paint, ramp
from smoothsweep.core.data.synthetic.shot import Shot

f32 = np.float32


def background(frame: Frame, shot: Shot) -> np.ndarray:
    """float32 [3, B, H, W]: a smooth gradient."""
    along = frame.x * shot.background_x + frame.y * shot.background_y
    return shot.background + shot.background_slope * along


def face_mask(frame: Frame, look: Look) -> Plane:
    """1 on the face, 0 elsewhere."""
    distance = (np.sqrt(np.maximum(frame.q, f32(0))) - f32(1)) * (f32(0.8) * look.head_width + f32(0.16))
    return cover(distance, 1.3 * frame.pixel)


def neck(image: np.ndarray, frame: Frame, look: Look, shot: Shot) -> None:
    """Neck in the shadow of the chin, and shoulders in clothes."""
    width = f32(0.62) * look.head_width
    sideways = np.abs(frame.u)
    flare = np.maximum(frame.v - f32(0.80), f32(0))
    distance = sideways - width - f32(0.8) * flare * flare
    mask = cover(distance, 1.5 * frame.pixel) * cover(f32(0.3) - frame.v, 0.2)
    shade = f32(0.56) + f32(0.30) * ramp(frame.v, 0.78, 1.05)
    shade = shade - f32(0.20) * bump(np.minimum(sideways / width, f32(1)) - f32(1))
    paint(image, look.skin * shade, mask)
    inside = np.maximum(f32(0.48) - sideways, f32(0))
    collar = f32(0.93) + f32(0.55) * inside + f32(0.10) * np.maximum(sideways - f32(0.48), f32(0))
    fold = f32(0.85) + f32(0.15) * ramp(frame.v, 0.85, 1.05)
    paint(image, shot.clothes * fold, cover(collar - frame.v, 1.5 * frame.pixel))


def ears(image: np.ndarray, frame: Frame, look: Look, shot: Shot) -> None:
    """Ears sit behind the axis of the head: they slide against the features when it turns."""
    u = frame.u + f32(0.035) * shot.yaw
    away = (np.abs(u) - look.head_width * f32(0.985)) / (f32(0.085) * look.ear)
    down = (frame.v - f32(0.03)) / (f32(0.17) * look.ear)
    radius = np.sqrt(away * away + down * down)
    mask = cover((radius - f32(1)) * f32(0.11), 1.3 * frame.pixel)
    shade = f32(0.70) + f32(0.24) * ramp(radius, 0.2, 0.95)
    paint(image, look.skin * shade, mask)


def complexion(frame: Frame, look: Look) -> np.ndarray:
    """float32 [3, B, H, W]: the colour of bare skin; cheeks and the tip of the nose are redder."""
    cheek = blob((frame.side - f32(0.36)) / f32(0.30), (frame.inner_v - f32(0.22)) / f32(0.26))
    tip = blob(frame.inner_u / (f32(1.6) * look.nose_width), (frame.inner_v - look.nose_y + f32(0.03)) / f32(0.15))
    red = (cheek + f32(0.5) * tip) * look.blush
    skin = np.empty((3, *red.shape), np.float32)
    for channel, weight in enumerate((0.15, 1.0, 0.85)):
        np.multiply(red, f32(-weight), out=skin[channel])
    skin += f32(1)
    skin *= look.skin
    return skin


def relief(frame: Frame, look: Look, shot: Shot) -> Plane:
    """How much light the face returns, about 1 where it faces the light: the egg of the head."""
    flat = np.sqrt(np.maximum(f32(1) - f32(0.92) * frame.q, f32(0.02)))
    light = frame.across * (shot.light_x * f32(0.75))
    light += frame.down * (shot.light_y * f32(0.6))
    light += flat * f32(0.85)
    light -= f32(0.62)
    light *= shot.light * f32(1.5)
    light += f32(1.0)
    light += blob(frame.inner_u / f32(0.45), (frame.inner_v + f32(0.42)) / f32(0.25)) * f32(0.06)
    return light


def eye_light(frame: Frame, look: Look, shot: Shot) -> Plane:
    """The sockets of the eyes and the bags below them: added to the light."""
    sockets = blob(
        (frame.side - look.eye_x * f32(0.92)) / f32(0.24),
        (frame.inner_v - look.eye_y + f32(0.045)) / f32(0.17),
    )
    light = sockets * (f32(-0.16) - f32(0.12) * shot.light)
    under_eye = blob((frame.side - look.eye_x) / f32(0.17), (frame.inner_v - look.eye_y - f32(0.12)) / f32(0.06))
    light -= under_eye * (f32(0.03) + f32(0.13) * look.age)
    return light


def cheek_light(frame: Frame, look: Look, shot: Shot) -> Plane:
    """Cheekbones, chin, and the folds beside the mouth: added to the light."""
    light = -folds(frame, look, shot)
    chin = blob(frame.inner_u / f32(0.17), (frame.inner_v - f32(0.70)) / f32(0.13))
    light += chin * f32(0.05)
    light += blob((frame.side - f32(0.36)) / f32(0.2), (frame.inner_v - f32(0.12)) / f32(0.16)) * f32(0.06)
    return light


def nose_light(frame: Frame, look: Look, shot: Shot) -> Plane:
    """Ridge, wings and the shadow under the tip: added to the light."""
    along = ramp(frame.inner_v, look.eye_y - f32(0.08), look.nose_y)
    below = frame.inner_v - look.nose_y
    width = look.nose_width * (f32(0.50) + f32(0.75) * along * along)
    x = frame.inner_u / (f32(1.25) * width)
    slope = np.maximum(f32(1) - x * x, f32(0)) * (f32(0.35) + f32(0.65) * along) * ramp(along, 0.0, 0.25)
    slope *= cover(below - f32(0.01), 0.07)
    out = slope * x * (shot.light_x * f32(0.42))
    out -= slope * np.abs(x) * f32(0.13)
    ridge = bump(frame.inner_u / (f32(0.42) * look.nose_width)) * ramp(along, 0.1, 0.8) * cover(below + f32(0.03), 0.06)
    out += ridge * f32(0.10)
    tip = blob(frame.inner_u / (f32(0.5) * look.nose_width), (below + f32(0.055)) / f32(0.06))
    out += tip * f32(0.12)
    wing = blob((frame.side - f32(1.0) * look.nose_width) / f32(0.045), (below + f32(0.005)) / f32(0.065))
    out -= wing * f32(0.22)
    shadow = blob(frame.inner_u / (f32(1.30) * look.nose_width), (below - f32(0.045)) / f32(0.06))
    out -= shadow * f32(0.25)
    return out


def nostrils(image: np.ndarray, frame: Frame, look: Look) -> None:
    """Two dark spots under the tip."""
    spot = blob(
        (frame.side - f32(0.48) * look.nose_width) / (f32(0.46) * look.nose_width),
        (frame.inner_v - look.nose_y - f32(0.008)) / f32(0.034),
    )
    paint(image, look.skin * f32(0.30), np.minimum(spot * f32(1.0), f32(0.75)))


def folds(frame: Frame, look: Look, shot: Shot) -> Plane:
    """The fold from the wings of the nose to the corners of the mouth: deeper with age and with a smile."""
    t = (frame.inner_v - look.nose_y + f32(0.03)) / (look.mouth_y + f32(0.05) - look.nose_y)
    start = f32(1.15) * look.nose_width
    curve = start + (f32(1.18) * look.mouth_width - start) * t
    depth = f32(0.03) + f32(0.14) * look.age + f32(0.07) * np.clip(shot.smile, f32(0), f32(1.2))
    return bump((frame.side - curve) / f32(0.065)) * bump(t * f32(2.2) - f32(1.0)) * depth


def shine(image: np.ndarray, light: Plane) -> None:
    """Multiply by the light; shadows on skin turn warm because red scatters through it."""
    loss = f32(1) - light
    for channel, weight in enumerate((0.88, 1.03, 1.10)):
        image[channel] *= f32(1) - f32(weight) * loss
