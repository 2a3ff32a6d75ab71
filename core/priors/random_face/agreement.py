"""How far a face embedder takes the images of a read-out for those of the whole generator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from smoothsweep.core.models.embedders import load_embedder
from smoothsweep.core.models.inference import evaluate_logits
from smoothsweep.core.priors.framing import ALIGNED
from smoothsweep.core.priors.mobilestylegan import MobileStyleGAN
from smoothsweep.core.priors.random_face.readout import LatentSample

IMAGE_INDICES = (195, 284, 635)
"""Left, top and side of the square of the 1024 pixels that is shown: eyes where aligned faces have them."""


def agreement(network: MobileStyleGAN, held: Sequence[LatentSample], judge: str, weights: Path) -> dict[str, Any]:
    """Agreement of the images of held-out latents: the mean cosine of a read-out's with its whole image and with the
    others', and the fraction that is nearest to its own."""
    embedder = load_embedder(judge, weights)
    with torch.no_grad():
        made = torch.cat([network.synthesize(seen.w[:, None]) for seen in held])
    size = 112
    ours = evaluate_logits(embedder, _face(_bytes(made), size), image_size=size)
    theirs = torch.cat([seen.picture for seen in held if seen.picture is not None])
    whole = evaluate_logits(embedder, _face(theirs, size), image_size=size)
    cosine = functional.normalize(ours) @ functional.normalize(whole).T
    same_face = cosine.diagonal()
    others = (cosine.sum() - same_face.sum()) / (cosine.numel() - len(same_face))
    nearest = (cosine.argmax(dim=1) == torch.arange(len(cosine))).float().mean()
    return {
        "judge": judge,
        "cosine_with_whole_image": round(float(same_face.mean()), 4),
        "cosine_with_other_images": round(float(others), 4),
        "nearest_is_own": round(float(nearest), 4),
    }


def _bytes(images: Tensor) -> Tensor:
    return images.add(1).mul(127.5).round().clamp(0, 255).byte()


def _face(images: Tensor, size: int) -> Tensor:
    """The tight square around the face, at `size` pixels."""
    left, top, side = (round(number * images.shape[-1] / ALIGNED) for number in IMAGE_INDICES)
    face = images[:, :, top : top + side, left : left + side].float()
    resized = functional.interpolate(face, size=(size, size), mode="bilinear", antialias=True, align_corners=False)
    return resized.round().clamp(0, 255).byte()
