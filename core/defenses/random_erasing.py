"""Random erasing as a defense: the network never sees a whole face (MIDRE, TMLR 2025).

The operation is torchvision's RandomErasing (Zhong et al., AAAI 2020). The published setting erases in every image a
square of 10 to 40 (or 80) % of the area, filled with (0.485, 0.456, 0.406) after normalisation to [-1, 1]. Source:
ngoc-nguyen-0/MIDRE_TMLR, configs/ and utils/training_config_parser.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Ge, Gt, Le
from torch import Generator, Tensor

from smoothsweep.core.checks import require, require_range
from smoothsweep.core.defenses.base import Defense, Labels
from smoothsweep.core.defenses.strengths import Family, Strength, is_number, value_text
from smoothsweep.core.text import NBSP

Level = Annotated[float, Ge(-1), Le(1)]
PUBLISHED_COLOUR = (0.485, 0.456, 0.406)
_TRIES = 10  # torchvision draws at most ten boxes, then leaves the image whole


def _erased(parameters: Mapping[str, Any]) -> Strength:
    """The strength: the fraction of an image that is erased on average."""
    p, area = parameters.get("p", 1.0), parameters.get("area", (0.1, 0.4))
    if not (is_number(p) and isinstance(area, tuple) and len(area) == 2 and all(map(is_number, area))):
        return Strength(value="", order=None, used=())
    often = "" if p == 1 else f" p{NBSP}{value_text(p)}"
    value = f"{value_text(area[0])}{NBSP}to{NBSP}{value_text(area[1])}{often}"
    return Strength(value=value, order=(p * sum(area) / 2,), used=("p", "area"))


@dataclass(frozen=True, kw_only=True)
class RandomErasing(Defense):
    """Erase one rectangle of an image with probability `p`, drawn for every image on its own.

    Attributes:
        p: Probability that an image is erased.
        area: Smallest and largest fraction of the image's area, in (0, 1].
        aspect: Smallest and largest height over width, drawn evenly in the logarithm.
        fill: `constant` (by `colour`), `mean` (the image's own mean colour) or `random` (every pixel uniform in [-1,
            1]).
        colour: Red, green and blue in [-1, 1], with fill constant; None for the published (0.485, 0.456, 0.406).
    """

    cites: ClassVar[tuple[str, ...]] = ("tran2025defending", "zhong2020random")
    family: ClassVar[Family | None] = Family(
        name="Random erasing (MIDRE)",
        word="random erasing",
        parameter="area",
        read=_erased,
        starts_plain=True,
        defaults={"aspect": (1.0, 1.0), "fill": "constant"},
    )

    p: Annotated[float, Gt(0), Le(1)] = 1.0
    area: tuple[float, float] = (0.1, 0.4)
    aspect: tuple[float, float] = (1.0, 1.0)
    fill: Literal["constant", "mean", "random"] = "constant"
    colour: tuple[Level, Level, Level] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range("defense random_erasing: area", self.area, 0, 1)
        require_range("defense random_erasing: aspect", self.aspect, 0, math.inf)
        if self.colour is not None:
            require(self.fill == "constant", "defense random_erasing: colour", f"nothing with {self.fill}", self.colour)

    def alter_batch(self, images: Tensor, labels: Tensor, generator: Generator) -> tuple[Tensor, Labels]:
        """Images with their rectangles erased. Every image uses the same count of random numbers."""
        height, width = images.shape[-2:]
        boxes = self.draw_boxes(len(images), (height, width), generator)
        mask = box_mask(boxes, (height, width)).to(images.device)[:, None]
        return torch.where(mask, self._filling(images, generator), images), labels

    def draw_boxes(self, n: int, size: tuple[int, int], generator: Generator) -> Tensor:
        """Top, left, height, width in pixels, int64 [n, 4]; height 0 where an image stays whole."""
        u = torch.rand(n, 2 * _TRIES + 3, generator=generator, dtype=torch.float64)
        height, width = size
        pixels = height * width * (self.area[0] + (self.area[1] - self.area[0]) * u[:, :_TRIES])
        low, high = math.log(self.aspect[0]), math.log(self.aspect[1])
        aspect = torch.exp(low + (high - low) * u[:, _TRIES : 2 * _TRIES])
        h, w = (pixels * aspect).sqrt().round().long(), (pixels / aspect).sqrt().round().long()
        fits = (h < height) & (w < width)
        first = fits.to(torch.uint8).argmax(dim=1, keepdim=True)
        h, w = h.gather(1, first).squeeze(1), w.gather(1, first).squeeze(1)
        erased = fits.any(dim=1) & (u[:, -3] < self.p)
        top = (u[:, -2] * (height - h + 1)).long()
        left = (u[:, -1] * (width - w + 1)).long()
        return torch.stack([top, left, h, w], dim=1) * erased[:, None]

    def _filling(self, images: Tensor, generator: Generator) -> Tensor:
        if self.fill == "random":
            return (2 * torch.rand(images.shape, generator=generator) - 1).to(images)
        if self.fill == "mean":
            return images.mean(dim=(2, 3), keepdim=True)
        return images.new_tensor(self.colour or PUBLISHED_COLOUR)[:, None, None]


def box_mask(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Boxes as `draw_boxes` gives them -> bool [n, H, W], true inside."""
    top, left, height, width = (column[:, None] for column in boxes.T)
    rows, columns = torch.arange(size[0]), torch.arange(size[1])
    inside_rows = (rows >= top) & (rows < top + height)
    inside_columns = (columns >= left) & (columns < left + width)
    return inside_rows[:, :, None] & inside_columns[:, None, :]
