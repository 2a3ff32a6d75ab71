"""Hair: the mass behind the head and the part that frames the face."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.data.synthetic.frame import HEAD_CENTRE_Y, Frame
from core.data.synthetic.look import Look
from core.data.synthetic.shapes import Plane, bump, cover, paint, ramp, triangle_wave
from core.data.synthetic.shot import Shot

f32 = np.float32


@dataclass(frozen=True, kw_only=True)
class Hair:
    """mass: 1 where hair may be (behind the face too); colour: float32 [3, B, H, W], lit."""

    mass: Plane
    colour: np.ndarray


def hair_of(frame: Frame, look: Look, shot: Shot) -> Hair:
    """The outline of the hair: a cap around the skull that falls down the sides as far as the hair is long."""
    width = look.head_width + f32(0.65) * look.hair_volume
    height = look.head_top + look.hair_volume
    v = frame.v - f32(HEAD_CENTRE_Y)
    up = np.minimum(v, f32(0)) / height
    fall = np.maximum(v, f32(0))
    across = frame.u / (width + f32(0.10) * look.hair_volume * fall + f32(0.06) * fall)
    q = across * across + up * up
    radius = np.sqrt(q)
    mass = cover((radius - f32(1)) * f32(0.75), 1.8 * frame.pixel)
    mass *= cover(frame.v - look.hair_end - f32(0.25) * frame.across * frame.across + f32(0.2), 0.10)
    strands = triangle_wave(frame.u * (f32(7) - f32(3.0) * up) + f32(1.2) * look.parting + f32(1.5) * frame.v * frame.u)
    strands += f32(0.6) * triangle_wave(frame.u * f32(17) + f32(2) * frame.v)
    light = f32(0.86) + f32(0.055) * strands
    light += f32(0.30) * bump((radius - f32(0.80)) / f32(0.20)) * ramp(-up, 0.05, 0.7)
    light += frame.across * (shot.light_x * f32(0.22))
    light -= f32(0.25) * ramp(frame.v, 0.0, 0.9)
    return Hair(mass=mass, colour=look.hair * light + f32(0.02) * strands)


def back_hair(image: np.ndarray, hair: Hair) -> None:
    """The hair behind neck and face, in shadow."""
    paint(image, hair.colour * f32(0.80), hair.mass)


def front_hair(image: np.ndarray, frame: Frame, look: Look, shot: Shot, hair: Hair) -> None:
    """The hair over forehead, temples and sides: all of the mass outside the opening of the face."""
    centre = f32(-0.10)
    u = frame.u - f32(0.06) * shot.yaw
    line = look.hair_line + f32(0.22) * look.parting * u
    above = np.maximum(centre - frame.v, f32(0)) / (centre - line)
    across = u / (look.head_width * f32(0.90))
    squared = across * across
    q = squared * squared + above * above
    opening = cover((np.sqrt(q) - f32(1)) * f32(0.40), 0.03 + 1.5 * frame.pixel)
    paint(image, hair.colour, hair.mass * (f32(1) - opening))
