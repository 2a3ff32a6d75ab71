"""Soft masks on planes of pixels: float32 [B, H, W] in, float32 [B, H, W] out.

Only + - * / sqrt min max floor: IEEE 754 defines these to the last bit, so that a picture is the same on
every machine and however the batch was cut. Masks have compact support: a layer may be drawn on a few rows.
"""

from __future__ import annotations

import numpy as np

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
