"""How the official low-resolution attacks bring their images to a judge's size, each in its own way."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from smoothsweep.core.data.transforms import to_unit


def truncated_bytes(images: Tensor, size: int) -> Tensor:
    """Images [N, 3, R, R] in [-1, 1] cut to whole 8-bit steps, resized as Pillow does, and back to [-1, 1].

    GMI, KED, LOMMA, RLB-MI and BREP-MI: `low2high` of Knowledge-Enriched-DMI, utils.py. The result is on the images'
    device.
    """
    steps = images.detach().cpu().add(1).div(2).mul(255).clamp(0, 255).to(torch.uint8)
    pictures = [Image.fromarray(step.permute(1, 2, 0).contiguous().numpy()) for step in steps]
    resized = [np.array(picture.resize((size, size), Image.Resampling.BILINEAR)) for picture in pictures]
    return to_unit(torch.from_numpy(np.stack(resized)).permute(0, 3, 1, 2).contiguous()).to(images.device)


def aligned_corners(images: Tensor, size: int) -> Tensor:
    """Images [N, 3, R, R] resized in float, bilinear with aligned corners, without antialiasing, not clipped.

    PLG-MI: kornia's Resize as LetheSec/PLG-MI-Attack, reconstruct.py, uses it before accuracy is measured.
    """
    return F.interpolate(images, size=(size, size), mode="bilinear", align_corners=True)


ENLARGING: dict[str, Callable[[Tensor, int], Tensor]] = {
    "truncated_bytes": truncated_bytes,
    "aligned_corners": aligned_corners,
}
"""(images [N, 3, R, R] nominally in [-1, 1], side) -> images [N, 3, side, side], by the name of the way."""
