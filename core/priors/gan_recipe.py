"""How a StyleGAN2 is trained: the numbers that make two trainings the same."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge

from smoothsweep.core.bounds import Beta, Count, Fraction, NotNegative, Positive
from smoothsweep.core.checks import require
from smoothsweep.core.declared import check_fields
from smoothsweep.core.errors import InputError

DEFAULT_ADA_TARGET = 0.6
DEFAULT_ADA_KIMG = 500.0


@dataclass(frozen=True, kw_only=True)
class GanRecipe:
    """Counts are in thousands of real images shown to the discriminator (kimg), as in the literature.

    Attributes:
        kimg: Length of the training, in thousands of real images.
        batch_size: Images of a step, over all workers together.
        lr: Adam's learning rate, of both networks.
        betas: Adam's two decay rates.
        r1_gamma: Weight of the gradient penalty on real images, which is added every r1_interval (16) steps.
        ema_kimg: Half-life of the moving average of the generator; during the start it is at most ema_rampup times what
            was seen so far.
        style_mixing: Share of images whose w changes at a random place.
        augmentation: "none"; "light" distorts every image the discriminator sees; "adaptive" distorts with a
            probability that is steered by how many real images the discriminator judges real.
        ada_target, ada_kimg: Settings of "adaptive" alone: the mean sign of the logits of real images to stay near
            (None: 0.6), and in how many kimg the probability may move from 0 to 1 (None: 500).
    """

    kimg: Positive = 200.0
    batch_size: Annotated[Count, Ge(4)] = 16
    lr: Positive = 0.002
    r1_gamma: NotNegative = 1.0
    augmentation: Literal["none", "light", "adaptive"] = "light"
    betas: tuple[Beta, Beta] = (0.0, 0.99)
    r1_interval: Count = 16
    ema_kimg: Positive = 10.0
    ema_rampup: Positive = 0.05
    style_mixing: Fraction = 0.0
    ada_target: float | None = None
    ada_kimg: Positive | None = None

    def __post_init__(self) -> None:
        check_fields(self, "gan recipe: ")
        used = self.augmentation == "adaptive" or (self.ada_target, self.ada_kimg) == (None, None)
        require(used, "gan recipe: ada_target, ada_kimg", "them with augmentation adaptive alone", self.augmentation)

    @property
    def steps(self) -> int:
        return math.ceil(self.kimg * 1000 / self.batch_size)

    def adjusted_probability(self, probability: float, mean_sign: float, images: int) -> float:
        """The adaptive probability after `images` more images whose real logits had this mean sign."""
        target = DEFAULT_ADA_TARGET if self.ada_target is None else self.ada_target
        kimg = DEFAULT_ADA_KIMG if self.ada_kimg is None else self.ada_kimg
        direction = (mean_sign > target) - (mean_sign < target)
        return min(max(probability + direction * images / (kimg * 1000), 0.0), 1.0)

    def ema_keep(self, step: int) -> float:
        """The weight of the old average when step (0-based) has just updated the generator."""
        half_life = min(self.ema_kimg * 1000, self.ema_rampup * (step + 1) * self.batch_size)
        return 0.5 ** (self.batch_size / half_life)


def check_batch(recipe: GanRecipe, group: int | None, world_size: int) -> None:
    """Raise InputError unless every worker's share of a batch falls into whole minibatch-std groups (None: one)."""
    share, rest = divmod(recipe.batch_size, world_size)
    group = share if group is None else min(group, share)
    if rest or not group or share % group:
        expected = f"a multiple of {world_size} workers x minibatch-std group {group}"
        raise InputError(f"gan training: batch_size: expected {expected}, got {recipe.batch_size}")
