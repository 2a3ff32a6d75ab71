"""The one container for images in memory."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class ImageSet:
    """Images with their classes.

    images: uint8 [N, 3, H, W]; labels: int64 [N], 0-based and contiguous; names: class names, names[label].
    """

    images: Tensor
    labels: Tensor
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.ndim != 4 or self.images.shape[1] != 3:
            raise ValueError(f"images: expected uint8 [N, 3, H, W], got {self.images.dtype} {tuple(self.images.shape)}")
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
