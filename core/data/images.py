"""The one container for images in memory."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class ImageSet:
    """Images with their classes.

    Attributes:
        images: [N, 3, H, W], uint8, or float16 or float32 nominally in [-1, 1]: what a generator gives is not clipped,
            and training clips it after augmentation.
        labels: int64 [N], 0-based and contiguous.
        names: Class names, names[label].
    """

    images: Tensor
    labels: Tensor
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        known = self.images.dtype in (torch.uint8, torch.float16, torch.float32)
        if not known or self.images.ndim != 4 or self.images.shape[1] != 3:
            got = f"{self.images.dtype} {tuple(self.images.shape)}"
            raise ValueError(f"images: expected uint8, float16 or float32 [N, 3, H, W], got {got}")
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            got = f"{self.labels.dtype} {tuple(self.labels.shape)}"
            raise ValueError(f"labels: expected int64 [{len(self.images)}], got {got}")

    @property
    def num_classes(self) -> int:
        return len(self.names)

    @property
    def size(self) -> int:
        """Side length of the (square) images in pixels."""
        return int(self.images.shape[-1])

    def __len__(self) -> int:
        return len(self.images)

    def subset(self, index: Tensor) -> ImageSet:
        """The images at `index` (int64 [M] or bool [N]); the class names stay."""
        return ImageSet(images=self.images[index], labels=self.labels[index], names=self.names)
