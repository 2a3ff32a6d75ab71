"""Stripes instead of faces: a class is an angle. Planning reads this file, so no torch here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from smoothsweep.core.bounds import Count, Seed
from smoothsweep.core.data.base import DataKind

if TYPE_CHECKING:
    from smoothsweep.core.data.images import ImageSet


@dataclass(frozen=True, kw_only=True)
class Stripes(DataKind):
    """Striped pictures.

    Attributes:
        classes: Angles.
        train: Training pictures of each.
        test: Test pictures of each.
        size: Side in pixels.
        seed: Seed of their shifts.
    """

    classes: Count = 4
    train: Count = 8
    test: Count = 4
    size: Count = 32
    seed: Seed = 0

    @property
    def classes_known(self) -> int:
        """As stated."""
        return self.classes

    def training_counts(self) -> tuple[int, ...]:
        """As many of each class."""
        return (min(self.train, self.samples_per_class or self.train),) * self.classes

    def load(self, path: Path | None) -> tuple[ImageSet, ImageSet]:
        """Drawn anew."""
        return self._drawn("train", self.train), self._drawn("test", self.test)

    def _drawn(self, part: str, each: int) -> ImageSet:
        import torch

        from smoothsweep.core.data.images import ImageSet
        from smoothsweep.core.seeds import generator

        labels = torch.arange(self.classes).repeat_interleave(each)
        shift = torch.rand(len(labels), 1, 1, generator=generator(self.seed, part)) * 6.3
        angle = labels[:, None, None] * torch.pi / self.classes
        place = torch.arange(self.size)
        wave = (angle.cos() * place[None, :, None] + angle.sin() * place[None, None, :]) / 2 + shift
        grey = wave.sin().add(1).mul(127.5).to(torch.uint8)[:, None].expand(-1, 3, -1, -1).contiguous()
        return ImageSet(images=grey, labels=labels, names=tuple(f"angle {i}" for i in range(self.classes)))
