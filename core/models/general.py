"""Features of pictures of anything, learnt without faces' labels and without any of ours: a judge of another family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SIDE = 224  # pixels
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class SwagViT(nn.Module):
    """The frozen ViT-B/16 of SWAG: a vision transformer that learnt to predict the hashtags of 3.6 billion pictures.

    Singh et al., arXiv 2201.08371; torchvision's `ViT_B_16_Weights.IMAGENET1K_SWAG_LINEAR_V1`, whose ImageNet head is
    left out, with its transforms: bicubic to 224 pixels, ImageNet's mean and deviation.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, *, layers: int = 12, heads: int = 12, width: int = 768, hidden: int = 3072) -> None:
        from torchvision.models import VisionTransformer

        super().__init__()
        network: Any = VisionTransformer(
            image_size=SIDE,
            patch_size=16,
            num_layers=layers,
            num_heads=heads,
            hidden_dim=width,
            mlp_dim=hidden,
        )
        network.heads = nn.Identity()
        self.network = network
        self.register_buffer("mean", torch.tensor(MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(STD).view(3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Images float [N, 3, S, S] in [-1, 1], any S -> the class token's features, float32 [N, width], length 1."""
        pictures = F.interpolate((images + 1) / 2, size=(SIDE, SIDE), mode="bicubic", antialias=True).clamp(0, 1)
        return F.normalize(self.network((pictures - self.mean) / self.std))


def swag_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The published state dict under our names; its ImageNet head is not needed."""
    return {f"network.{name}": value for name, value in state.items() if not name.startswith("heads.")}
