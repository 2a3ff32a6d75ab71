"""Pictures as PLG-MI's evaluation saves and reads them again before it measures distances and FID."""

from __future__ import annotations

import torch
from torch import Tensor

_LEAST_RANGE = 1e-5  # torchvision's: an image of one colour becomes black


def stretched(images: Tensor) -> Tensor:
    """Images float [N, 3, R, R], any range -> uint8 of the same shape, each stretched from 0 to 255 by itself.

    Its darkest value of all channels becomes 0, its brightest 255, rounded: torchvision's `save_image` with
    `normalize=True` (LetheSec/PLG-MI-Attack, utils.py save_tensor_images), and PNG loses nothing more. Nominal values
    in [0, 1], as there: those in [-1, 1] are mapped by the caller.
    """
    low, high = (extreme.view(-1, 1, 1, 1) for extreme in torch.aminmax(images.flatten(1), dim=1))
    return ((images - low) / (high - low).clamp_min(_LEAST_RANGE)).mul(255).add(0.5).clamp(0, 255).to(torch.uint8)
