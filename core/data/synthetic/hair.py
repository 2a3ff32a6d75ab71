"""Hair: the mass behind the head and the part that frames the face."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smoothsweep.core.data.synthetic.frame import HEAD_CENTRE_Y, Frame
from smoothsweep.core.data.synthetic.look import Look
from smoothsweep.core.data.synthetic.shapes import Plane, bump, cover, paint, ramp, triangle_wave
from smoothsweep.core.data.synthetic.shot import Shot

f32 = np.float32


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
    pixel: np.float32


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
    return Hair(mass=mass, colour=colour, line=_hair_line(frame, look), pixel=frame.pixel)


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


def back_hair(image: np.ndarray, hair: Hair) -> None:
    """The hair behind neck and face, in shadow."""
    paint(image, hair.colour * f32(0.80), hair.mass)


def front_hair(image: np.ndarray, hair: Hair) -> None:
    """The hair over forehead, temples and sides: all of the mass outside the opening of the face."""
    outside = cover(-hair.line, 0.035 + 1.5 * hair.pixel)
    outside *= hair.mass
    paint(image, hair.colour, outside)


def hair_shadow(hair: Hair) -> Plane:
    """The soft shadow that the front hair throws on the forehead: to be taken off the light."""
    return ramp(hair.line, -0.10, 0.02) * f32(0.20)


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
