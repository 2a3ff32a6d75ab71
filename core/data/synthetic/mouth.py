"""Mouth, teeth, beard and moustache."""

from __future__ import annotations

import numpy as np

from smoothsweep.core.data.synthetic.frame import Frame
from smoothsweep.core.data.synthetic.look import Look
from smoothsweep.core.data.synthetic.shapes import Plane, blob, bump, cover, paint, ramp
from smoothsweep.core.data.synthetic.shot import Shot

f32 = np.float32


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
