"""Synthetic people: as many images of as many identities as asked for, the same on every machine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

from smoothsweep.core.checks import require
from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.data.synthetic.people import (
    HEAD_CENTRE_Y,
    FaceStreams,
    Frame,
    Look,
    Plane,
    Population,
    Shot,
    blob,
    bump,
    cover,
    frame_of,
    identity_traits,
    look_of,
    paint,
    ramp,
    rows_between,
    shot_of,
    triangle_wave,
)

f32 = np.float32


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


@dataclass(frozen=True, kw_only=True)
class Hair:
    """The hair of B rendered heads.

    Attributes:
        mass: 1 where hair may be (behind the face too).
        colour: float32 [3, B, H, W], lit.
        line: About the signed distance from the opening that the hair leaves for the face, negative inside.
    """

    mass: Plane
    colour: np.ndarray
    line: Plane


def hair_of(frame: Frame, look: Look, shot: Shot) -> Hair:
    """The outline of the hair: a cap on the skull that falls down the sides as far as the hair is long."""
    end = ramp(frame.v, look.hair_end - f32(0.45), look.hair_end + f32(0.05))
    width = look.head_width + f32(0.65) * look.hair_volume
    width = width * (f32(1) - f32(0.20) * end * end)
    height = look.head_top + look.hair_volume
    v = frame.v - f32(HEAD_CENTRE_Y)
    up = np.minimum(v, f32(0)) / height
    across = frame.u / (width + (f32(0.5) * look.hair_volume) * np.maximum(v, f32(0)))
    radius = np.sqrt(across * across + up * up)
    wave = triangle_wave(f32(2.3) * frame.v + f32(1.3) * np.abs(frame.u))
    wave *= (f32(2) - np.abs(wave)) * look.hair_wave
    mass = cover((radius + wave - f32(1)) * f32(0.75), 2.0 * frame.pixel)
    mass *= cover(frame.v - look.hair_end - f32(0.06) + f32(0.10) * frame.across * frame.across, 0.14)
    colour = _colour(frame, look, shot, radius, up, wave)
    return Hair(mass=mass, colour=colour, line=_hair_line(frame, look))


def _colour(frame: Frame, look: Look, shot: Shot, radius: Plane, up: Plane, wave: Plane) -> np.ndarray:
    """Strands fan out from the parting, a sheen runs around the crown, one side is darker."""
    fan = (frame.u - f32(0.5) * look.parting) / (f32(1.35) + frame.v * f32(0.8)) + wave
    strands = triangle_wave(fan * f32(4.3) + f32(0.25))
    strands += f32(0.7) * triangle_wave(fan * f32(11))
    light = f32(0.84) + f32(0.05) * strands
    light += f32(0.34) * bump((radius - f32(0.84)) / f32(0.16)) * ramp(up, -0.05, -0.75)
    light += frame.across * (shot.light_x * f32(0.22))
    light -= f32(0.25) * ramp(frame.v, 0.0, 0.9)
    light *= f32(0.92) + f32(0.16) * ramp(frame.v, 0.2, -0.9)
    return look.hair * light


def _hair_line(frame: Frame, look: Look) -> Plane:
    """The opening for the face is flat or round above, level or swept aside, with or without a peak."""
    centre = f32(-0.10)
    u = frame.inner_u * f32(0.3) + frame.u * f32(0.7) - f32(0.16) * look.parting
    line = look.hair_line + f32(0.50) * look.parting * frame.u
    line += look.hair_peak * bump(u / f32(0.26))
    above = np.maximum(centre - frame.v, f32(0)) / (centre - line)
    squared = u / (look.head_width * f32(0.92))
    squared *= squared
    q = squared * (look.hair_flat * squared + (f32(1) - look.hair_flat))
    q += above * above
    return (np.sqrt(q) - f32(1)) * f32(0.40)


def _lids(frame: Frame, look: Look, shot: Shot) -> tuple[Plane, Plane, Plane, Plane]:
    """(height over the tilted axis of the eye, upper lid, lower lid, position along the eye in [-1, 1])."""
    width = f32(0.135) * look.eye_size
    along = (frame.side - look.eye_x) / width
    height = frame.inner_v - look.eye_y + look.eye_tilt * (frame.side - look.eye_x)
    arc = f32(1) - along * along
    upper = arc * (f32(-0.074) * look.eye_size * shot.eye_open)
    lower = arc * (f32(0.042) * look.eye_size * (f32(0.6) + f32(0.4) * shot.eye_open))
    return height, upper, lower, along


def eyes(image: np.ndarray, frame: Frame, look: Look, shot: Shot) -> None:
    """Both eyes: white, iris with a dark rim, pupil, lids and lashes."""
    height, upper, lower, along = lids = _lids(frame, look, shot)
    opening = cover(np.maximum(upper - height, height - lower), 1.2 * frame.pixel)
    white = f32(0.93) - f32(0.28) * ramp(height - upper, 0.035, -0.01)
    white = white - f32(0.12) * np.minimum(along * along, f32(1))
    paint(image, white[None] * np.array([0.98, 0.97, 0.96], np.float32)[:, None, None, None], opening)
    towards = np.where(frame.inner_u < 0, -shot.gaze_x, shot.gaze_x)
    du = frame.side - look.eye_x - towards
    dv = frame.inner_v - look.eye_y + f32(0.014) - shot.gaze_y
    radius = np.sqrt(du * du + dv * dv)
    size = f32(0.067) * (f32(0.5) + f32(0.5) * look.eye_size)
    iris = cover(radius - size, 1.2 * frame.pixel) * opening
    rim = f32(0.95) - f32(0.50) * ramp(radius, f32(0.55) * size, size) + f32(0.35) * ramp(dv, 0.0, 0.05)
    paint(image, look.iris * rim, iris)
    pupil = cover(radius - f32(0.44) * size, 1.1 * frame.pixel) * opening
    paint(image, np.full((3, 1, 1, 1), 0.03, np.float32), pupil)
    _lashes(image, frame, look, lids)


def _lashes(image: np.ndarray, frame: Frame, look: Look, lids: tuple[Plane, Plane, Plane, Plane]) -> None:
    """The dark line of the upper lid, the faint one of the lower lid and the crease above."""
    height, upper, lower, along = lids
    inside = cover(np.abs(along) - f32(1.02), 0.14)
    line = cover(np.abs(height - upper) - f32(0.014), 1.4 * frame.pixel) * inside
    paint(image, look.skin * f32(0.12), line * f32(0.92))
    faint = cover(np.abs(height - lower) - f32(0.006), 1.3 * frame.pixel) * inside
    paint(image, look.skin * f32(0.40), faint * f32(0.50))
    crease = cover(np.abs(height - upper + f32(0.052)) - f32(0.006), 1.8 * frame.pixel) * inside
    paint(image, look.skin * f32(0.52), crease * f32(0.45))


def highlights(image: np.ndarray, frame: Frame, look: Look, shot: Shot) -> None:
    """A bright spot on each iris, on the side of the light."""
    height, upper, lower, _ = _lids(frame, look, shot)
    opening = cover(np.maximum(upper - height, height - lower), 1.2 * frame.pixel)
    left = np.where(frame.inner_u < 0, -look.eye_x, look.eye_x)
    offset = np.where(shot.light_x < 0, f32(-0.026), f32(0.026)) + shot.gaze_x
    spot = blob(
        (frame.inner_u - left - offset) / f32(0.042),
        (frame.inner_v - look.eye_y + f32(0.040) - shot.gaze_y) / f32(0.042),
    )
    paint(image, np.full((3, 1, 1, 1), 1.0, np.float32), np.minimum(spot * f32(1.25), f32(0.95)) * opening)


def brows(image: np.ndarray, frame: Frame, look: Look, shot: Shot) -> None:
    """Two arcs, thick near the nose, thin outside, in a shade of the hair."""
    along = (frame.side - look.eye_x - f32(0.005)) / f32(0.175)
    arc = f32(1) - along * along
    centre = look.brow_y - shot.brow_raise - look.brow_arch * arc - look.brow_tilt * along + f32(0.03)
    thickness = look.brow_thickness * np.minimum(f32(2.2) * arc, f32(1)) * (f32(1) - f32(0.32) * along)
    mask = cover(np.abs(frame.inner_v - centre) - thickness, 0.030 + frame.pixel)
    colour = f32(0.62) * look.hair + f32(0.08) * look.skin
    paint(image, colour, mask * f32(0.88))


def glasses(image: np.ndarray, frame: Frame, look: Look) -> None:
    """Square frames with a bridge, temples and a little reflection; nothing where Look.glasses is 0."""
    if not look.glasses.any():
        return
    du = (frame.side - look.eye_x) / f32(0.205)
    dv = (frame.inner_v - look.eye_y - f32(0.025)) / f32(0.155)
    du *= du
    dv *= dv
    radius = np.sqrt(np.sqrt(du * du + dv * dv))
    distance = (radius - f32(1)) * f32(0.165)
    rim = cover(np.abs(distance) - f32(0.016), 1.3 * frame.pixel)
    gap = look.eye_x - f32(0.20)
    bridge = cover(np.abs(frame.inner_v - look.eye_y + f32(0.03)) - f32(0.013), 1.3 * frame.pixel)
    bridge *= cover(frame.side - gap, 1.3 * frame.pixel)
    temple = cover(np.abs(frame.inner_v - look.eye_y + f32(0.02)) - f32(0.013), 1.3 * frame.pixel)
    temple *= cover(look.eye_x + f32(0.205) - frame.side, 1.3 * frame.pixel)
    temple *= cover(np.abs(frame.across) - f32(0.98), 0.05)
    paint(image, np.full((3, 1, 1, 1), 1.0, np.float32), cover(distance, 0.02) * look.glasses * f32(0.07))
    frame_colour = np.full((3, 1, 1, 1), 0.10, np.float32)
    paint(image, frame_colour, np.maximum(rim, np.maximum(bridge, temple)) * look.glasses * f32(0.92))


def _axes(frame: Frame, look: Look, shot: Shot) -> tuple[Plane, Plane, Plane]:
    """(position along the mouth in [-1, 1], its complement 1 - x^2, height below the line of the lips)."""
    width = look.mouth_width * (f32(1) + f32(0.13) * shot.smile)
    along = frame.inner_u / width
    squared = along * along
    line = (
        look.mouth_y + f32(0.012) * shot.smile - (f32(0.008) + f32(0.042) * shot.smile) * np.minimum(squared, f32(1.5))
    )
    return along, f32(1) - squared, frame.inner_v - line


def mouth(image: np.ndarray, frame: Frame, look: Look, shot: Shot) -> None:
    """Lips around a dark opening with the upper teeth in it; the opening closes to a line."""
    along, arc, height = _axes(frame, look, shot)
    gap = f32(0.085) * shot.mouth_open
    bow = f32(1) - f32(0.28) * bump(along / f32(0.30))
    stretch = f32(1) - f32(0.14) * np.clip(shot.smile, f32(-0.5), f32(1))
    top = arc * ((f32(-0.92) * stretch) * look.lip_thickness * bow - f32(0.35) * gap)
    bottom = arc * ((f32(1.18) * stretch) * look.lip_thickness + f32(0.65) * gap)
    lips = cover(np.maximum(top - height, height - bottom), 1.5 * frame.pixel)
    shade = f32(0.86) + f32(0.20) * ramp(height, 0.0, 0.035)
    shade += f32(0.16) * blob(
        along / f32(0.55), (height - f32(0.65) * gap - f32(0.55) * look.lip_thickness) / f32(0.035)
    )
    paint(image, look.lips * shade, lips * f32(0.92))
    inner_top = arc * (f32(-0.35) * gap - f32(0.006))
    inner_bottom = arc * (f32(0.65) * gap + f32(0.006))
    inner = cover(np.maximum(inner_top - height, height - inner_bottom), 1.3 * frame.pixel)
    inner *= ramp(arc, -0.02, 0.12)
    paint(image, look.lips * f32(0.28), inner * f32(0.90))
    teeth = cover(np.maximum(inner_top + f32(0.008) - height, height - inner_top - f32(0.042)), 1.2 * frame.pixel)
    teeth *= inner * ramp(gap, 0.008, 0.030) * ramp(arc, 0.05, 0.35)
    paint(image, np.array([0.90, 0.88, 0.84], np.float32)[:, None, None, None], teeth)
    corner = blob((np.abs(along) - f32(1.0)) / f32(0.16), height / f32(0.032))
    paint(image, look.skin * f32(0.42), corner * f32(0.6))


def mouth_light(frame: Frame, look: Look, shot: Shot) -> Plane:
    """The shadow under the lower lip and the groove above the upper one: added to the light."""
    _, _, height = _axes(frame, look, shot)
    below = height - f32(1.18) * look.lip_thickness - f32(0.055) * shot.mouth_open - f32(0.035)
    out = blob(frame.inner_u / (f32(0.75) * look.mouth_width), below / f32(0.05)) * f32(-0.17)
    groove = blob(frame.inner_u / f32(0.035), (height + look.lip_thickness + f32(0.05)) / f32(0.06))
    out -= groove * f32(0.07)
    return out


def beard(image: np.ndarray, frame: Frame, look: Look, shot: Shot) -> None:
    """Beard and moustache as a tint of the lower face; nothing where Look.beard and Look.moustache are 0."""
    if not (look.beard.any() or look.moustache.any()):
        return
    along, _, height = _axes(frame, look, shot)
    squared = np.minimum(frame.across * frame.across, f32(1))
    edge = look.mouth_y + f32(0.10) - f32(0.62) * squared
    lower = ramp(frame.inner_v - edge, -0.05, 0.06)
    lower *= f32(1) - blob(frame.inner_u / f32(0.11), (height - f32(0.085)) / f32(0.06))
    colour = f32(0.72) * look.hair + f32(0.06) * look.skin
    paint(image, colour, lower * look.beard)
    droop = height + f32(0.085) - f32(0.05) * np.minimum(along * along, f32(1.6))
    upper = cover(np.abs(droop) - f32(0.030), 0.05) * cover(np.abs(along) - f32(1.08), 0.25)
    paint(image, colour, upper * look.moustache)


def render(look: Look, shot: Shot, noise: np.ndarray, size: int) -> np.ndarray:
    """Draw B faces.

    noise: uint8 [B, 2, 3, size, size], uniform bytes. Returns uint8 [B, 3, size, size].
    """
    frame = frame_of(look, shot, size)
    gradient = frame.x * shot.background_x + frame.y * shot.background_y
    image = shot.background + shot.background_slope * gradient
    locks = hair_of(frame, look, shot)
    paint(image, locks.colour * f32(0.80), locks.mass)  # behind neck and face, in shadow
    rows = rows_between(frame.v, 0.1, 9.0)
    neck(image[:, :, rows], frame.band(rows), look, shot)
    rows = rows_between(frame.v, -0.35, 0.45)
    ears(image[:, :, rows], frame.band(rows), look, shot)
    _face(image, frame, look, shot, locks)
    # Over forehead, temples and sides: all of the mass outside the opening of the face.
    paint(image, locks.colour, cover(-locks.line, 0.035 + 1.5 * frame.pixel) * locks.mass)
    rows = rows_between(frame.inner_v, look.eye_y - f32(0.20), look.eye_y + f32(0.26))
    glasses(image[:, :, rows], frame.band(rows), look)
    return _develop(image, shot, noise, size)


def _face(image: np.ndarray, frame: Frame, look: Look, shot: Shot, locks: Hair) -> None:
    """Skin, features and light inside the outline of the face."""
    skin = complexion(frame, look)
    light = relief(frame, look, shot)
    light -= ramp(locks.line, -0.10, 0.02) * f32(0.20)  # the soft shadow of the front hair on the forehead
    rows = rows_between(frame.inner_v, look.eye_y - f32(0.10), look.nose_y + f32(0.13))
    light[:, rows] += nose_light(frame.band(rows), look, shot)
    rows = rows_between(frame.inner_v, f32(-0.1), look.chin + f32(0.2))
    low, low_skin, low_light = frame.band(rows), skin[:, :, rows], light[:, rows]
    low_light += cheek_light(low, look, shot)
    low_light += mouth_light(low, look, shot)
    beard(low_skin, low, look, shot)
    nostrils(low_skin, low, look)
    mouth(low_skin, low, look, shot)
    rows = rows_between(frame.inner_v, look.eye_y - f32(0.42), look.eye_y + f32(0.20))
    high, high_skin, high_light = frame.band(rows), skin[:, :, rows], light[:, rows]
    high_light += eye_light(high, look, shot)
    eyes(high_skin, high, look, shot)
    brows(high_skin, high, look, shot)
    loss = f32(1) - light
    for channel, weight in enumerate((0.88, 1.03, 1.10)):  # shadows turn warm because red scatters through skin
        skin[channel] *= f32(1) - f32(weight) * loss
    highlights(high_skin, high, look, shot)
    edge = (np.sqrt(np.maximum(frame.q, f32(0))) - f32(1)) * (f32(0.8) * look.head_width + f32(0.16))
    paint(image, skin, cover(edge, 1.3 * frame.pixel))


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
    require(per_identity >= 1, "per_identity", "at least 1", per_identity)
    require(_SIZES[0] <= size <= _SIZES[1], "size", f"{_SIZES[0]} to {_SIZES[1]} pixels", size)
    require(first_image >= 0, "first_image", "at least 0", first_image)
    require(threads >= 1, "threads", "at least 1", threads)
    looks = look_of(traits)
    total = len(traits) * per_identity
    images = np.empty((total, 3, size, size), np.uint8)

    def draw(span: range) -> None:
        streams = FaceStreams(population=population, seed=seed)
        for start in range(span.start, span.stop, _BATCH):
            index = np.arange(start, min(start + _BATCH, span.stop))
            who, which = index // per_identity, first_image + index % per_identity
            bits = [streams.image_bits(int(i), int(k), 6 * size * size) for i, k in zip(who, which, strict=True)]
            uniform, noise = (np.stack(part) for part in zip(*bits, strict=True))
            noise = noise.reshape(len(bits), 2, 3, size, size)
            images[index[0] : index[-1] + 1] = render(looks.take(who), shot_of(uniform), noise, size)

    share = -(-total // (threads * _BATCH)) * _BATCH
    spans = [range(start, min(start + share, total)) for start in range(0, total, share)]
    if len(spans) == 1:
        draw(spans[0])
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(draw, spans))
    return torch.from_numpy(images)
