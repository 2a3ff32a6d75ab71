"""Where each pixel lies on the head, and the soft masks on planes of pixels that layers are painted with.

Only + - * / sqrt min max floor: IEEE 754 defines these to the last bit, so that a picture is the same on
every machine and however the batch was cut. Masks have compact support: a layer may be drawn on a few rows.
Planes are float32 [B, H, W].
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from smoothsweep.core.data.synthetic.people import Look, Shot

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
    return Frame(
        x=x,
        y=y,
        u=u,
        v=v,
        q=q,
        across=across,
        down=down,
        inner_u=inner_u,
        inner_v=inner_v,
        side=np.abs(inner_u),
        pixel=np.float32(2.0 / size),
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
