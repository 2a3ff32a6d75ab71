"""What differs between two images of one identity: pose, light, expression, background, blur, noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smoothsweep.core.data.synthetic.streams import normals


@dataclass(frozen=True, kw_only=True)
class Shot:
    """Nuisances per image: float32 [B, 1, 1] for numbers, float32 [3, B, 1, 1] for colours; units of Look."""

    shift_x: np.ndarray
    shift_y: np.ndarray
    scale: np.ndarray
    cosine: np.ndarray
    sine: np.ndarray
    yaw: np.ndarray
    pitch: np.ndarray
    light_x: np.ndarray
    light_y: np.ndarray
    light: np.ndarray
    exposure: np.ndarray
    contrast: np.ndarray
    cast: np.ndarray
    smile: np.ndarray
    mouth_open: np.ndarray
    eye_open: np.ndarray
    gaze_x: np.ndarray
    gaze_y: np.ndarray
    brow_raise: np.ndarray
    background: np.ndarray
    background_slope: np.ndarray
    background_x: np.ndarray
    background_y: np.ndarray
    clothes: np.ndarray
    blur: np.ndarray
    noise: np.ndarray


def shot_of(uniform: np.ndarray) -> Shot:
    """float64 [B, 64] uniforms in (0, 1) -> Shot of B images."""
    gauss = np.clip(normals(uniform[:, :40]), -2.5, 2.5).T
    flat = uniform[:, 40:].T
    roll = 0.055 * gauss[3]
    angle = 2.0 * np.pi * flat[0]
    open_mouth = np.clip((flat[1] - 0.55) / 0.45, 0.0, 1.0) ** 1.5
    numbers = {
        "shift_x": 0.030 * gauss[0],
        "shift_y": 0.030 * gauss[1],
        "scale": 1.07 + 0.035 * gauss[2],
        "cosine": np.cos(roll),
        "sine": np.sin(roll),
        "yaw": 0.45 * gauss[4],
        "pitch": 0.40 * gauss[5],
        "light_x": 0.45 * gauss[6],
        "light_y": -0.25 + 0.25 * gauss[7],
        "light": 0.34 + 0.16 * flat[2],
        "exposure": 1.0 + 0.09 * gauss[8],
        "contrast": 1.0 + 0.07 * gauss[9],
        "smile": np.clip(0.35 + 0.5 * gauss[10], -0.35, 1.4),
        "mouth_open": open_mouth,
        "eye_open": np.clip(1.0 + 0.14 * gauss[11], 0.55, 1.3),
        "gaze_x": 0.018 * gauss[12],
        "gaze_y": 0.008 * gauss[13],
        "brow_raise": 0.014 * gauss[14],
        "background_x": np.cos(angle),
        "background_y": np.sin(angle),
        "blur": 0.75 * flat[3] ** 2,
        "noise": 0.004 + 0.010 * flat[4],
    }
    cast = 1.0 + 0.035 * np.stack([gauss[15], 0.4 * gauss[16], -gauss[15]])
    grey = 0.25 + 0.6 * flat[5]
    colours = {
        "cast": cast,
        "background": np.clip(grey + 0.26 * (flat[6:9] - 0.5), 0.02, 0.98),
        "background_slope": 0.22 * (flat[9] - 0.5) + 0.14 * (flat[10:13] - 0.5),
        "clothes": np.clip(0.12 + 0.55 * flat[13] + 0.35 * (flat[14:17] - 0.5), 0.03, 0.97),
    }
    shaped = {name: value.astype(np.float32)[:, None, None] for name, value in numbers.items()}
    shaped |= {name: value.astype(np.float32)[:, :, None, None] for name, value in colours.items()}
    return Shot(**shaped)
