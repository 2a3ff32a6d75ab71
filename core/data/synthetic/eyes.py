"""Eyes, brows and glasses."""

from __future__ import annotations

import numpy as np

from smoothsweep.core.data.synthetic.frame import Frame
from smoothsweep.core.data.synthetic.look import Look
from smoothsweep.core.data.synthetic.shapes import Plane, blob, cover, paint, ramp
from smoothsweep.core.data.synthetic.shot import Shot

f32 = np.float32


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
