"""The aligned crop of CelebA faces at high resolution, from pictures in the wild and their landmarks.

What it stands in for: LynnHo/HD-CelebA-Cropper (align.py, cropper.py) with face factor 0.65, 224 x 224 pixels, bicubic,
other options default, as Plug-and-Play-Attacks' README prescribes. That tool's current form (since 2020) fits a
similarity from a standard face to a picture's landmarks, by least squares in the picture, and samples the picture
there with OpenCV's bicubic kernel (a = -0.75), edge pixels repeated beyond the border, without antialiasing. In the
output the standard face is scaled by size x face factor, moved down by 0.25 of that, and centred at size // 2.

Inputs: pictures in the wild (CelebA's img_celeba; the aligned release of 178 x 218 pixels is too small) and either the
tool's own list of 68 landmarks (landmark.txt with standard_landmark_68pts.txt, a separate download), which is its
default, or CelebA's list_landmarks_celeba.txt with 5 landmarks and the standard face for 5 landmarks that the tool's
author publishes (LynnHo/Facial-Landmarks-of-Face-Datasets, standard_landmark_5pts.txt; it is the 68-point face reduced
to centres of eyes, nose tip and corners of the mouth). Both put eyes, nose and mouth at the same places of the output.

What remains uncertain: the authors of the attack do not say which release of the tool they used. Before 2020 it had a
5-point mean face of another scale, for which a factor of 0.65 gives faces about 0.7 times as large. The form here puts
67 pixels between the eyes, and the central 800 pixels of an FFHQ picture at 224 pixels have about 70, so this is the
form that fits the attack. The tool writes JPEG (quality 95) unless told otherwise; here nothing is compressed again.
OpenCV rounds sampling positions to 1/32 pixel; here they are exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from smoothsweep.core.data.decoding import UnreadablePicture
from smoothsweep.core.data.listing import Cut

CROP_SIZE = 224
FACE_FACTOR = 0.65

# Eyes, nose tip and corners of the mouth of the standard face: left eye, right eye, nose, left and right corner.
STANDARD_5 = np.array(
    [(-0.23105, -0.26400), (0.23073, -0.26231), (0.00402, 0.04893), (-0.17988, 0.22249), (0.18358, 0.22273)]
)

_DOWN = 0.25


def crop_target(standard: np.ndarray, *, size: int = CROP_SIZE, face_factor: float = FACE_FACTOR) -> np.ndarray:
    """Where the landmarks shall lie in the crop: float64 [k, 2], x and y in pixels (0 = centre of the first pixel)."""
    return (standard + np.array([0.0, _DOWN])) * size * face_factor + size // 2


def similarity(target: np.ndarray, landmarks: np.ndarray) -> np.ndarray:
    """The rotation, scale and shift that bring `target` closest to `landmarks` (both [k, 2]), as a matrix [2, 3].

    Least squares over all points, without reflection; the closed form in complex numbers. Raises UnreadablePicture if
    the landmarks all lie at one point.
    """
    x, y = (points[:, 0] + 1j * points[:, 1] for points in (target, landmarks))
    away = x - x.mean()
    turn = np.vdot(away, y - y.mean()) / np.vdot(away, away).real
    if not np.isfinite(turn) or abs(turn) < 1e-6:
        raise UnreadablePicture("landmarks that give no size of a face")
    shift = y.mean() - turn * x.mean()
    return np.array([[turn.real, -turn.imag, shift.real], [turn.imag, turn.real, shift.imag]])


def align_crop(image: Image.Image, landmarks: np.ndarray, target: np.ndarray, *, size: int = CROP_SIZE) -> Image.Image:
    """The face of an RGB picture as size x size pixels, so that `landmarks` [k, 2] come to lie at `target` [k, 2].

    Memory beyond the picture: some 200 bytes per output pixel, and 24 per pixel of what is used of the picture.
    """
    if min(image.size) < 2:
        raise UnreadablePicture(f"{image.width} x {image.height} pixels, too few for a face")
    matrix = similarity(target, landmarks)
    ys, xs = np.mgrid[:size, :size].astype(np.float64)
    places = np.stack([xs, ys, np.ones_like(xs)], axis=-1) @ matrix.T
    left, right = _span(places[..., 0], image.width)
    top, bottom = _span(places[..., 1], image.height)
    part = torch.from_numpy(np.asarray(image.crop((left, top, right, bottom))).copy()).permute(2, 0, 1)[None].float()
    # grid_sample wants -1 and 1 at the centres of the first and the last pixel.
    scale = np.array([2.0 / (right - left - 1), 2.0 / (bottom - top - 1)])
    grid = torch.from_numpy(((places - (left, top)) * scale - 1.0).astype(np.float32))[None]
    warped = F.grid_sample(part, grid, mode="bicubic", padding_mode="border", align_corners=True)
    pixels = warped[0].round_().clamp_(0, 255).to(torch.uint8).permute(1, 2, 0).contiguous()
    return Image.fromarray(pixels.numpy())


def aligned_cut(landmarks: Sequence[np.ndarray | None], target: np.ndarray, *, size: int = CROP_SIZE) -> Cut:
    """The cut of a listing that aligns picture i by landmarks[i]; a picture without any is unreadable."""

    def cut(index: int, image: Image.Image) -> Image.Image:
        points = landmarks[index]
        if points is None:
            raise UnreadablePicture("no landmarks")
        return align_crop(image, points, target, size=size)

    return cut


def _span(places: np.ndarray, length: int) -> tuple[int, int]:
    """First and one past the last pixel that bicubic sampling needs, at least two, inside the picture."""
    first = int(np.clip(np.floor(places.min()) - 1, 0, length - 2))
    return first, int(np.clip(np.floor(places.max()) + 3, first + 2, length))
