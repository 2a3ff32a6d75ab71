"""How a training set is poisoned. Apart from the doing, so that planning loads no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt

from smoothsweep.core.bounds import MOST, Count, Seed
from smoothsweep.core.errors import InputError

BADNETS_SIZE, BLENDED_STRENGTH = 9, 0.1
POISONED_ROWS = "poisoned rows"
"""Which images are poisoned follows from the seeds and this word: `generator(*seeds, word)` of
`core.seeds`."""


@dataclass(frozen=True, kw_only=True)
class PoisonSettings:
    """The defaults are the paper's (Appendix C.9); what it does not say is marked so.

    Attributes:
        kind: Badnets (a checkerboard of single black and white pixels, flush with the lower right corner; cell and
            margin are not stated) or blended (one fixed Gaussian pattern, clipped N(0.5, 0.25) of pictures in [0, 1];
            its mean and spread are not stated).
        share: Fraction of all training images that are poisoned, drawn without regard to their class (not stated).
        target: The class that poisoned images are labelled with.
        size: Side of the checkerboard in pixels, with badnets; None for 9.
        strength: Weight of the pattern in the image, with blended; None for 0.1.
        placed: Where the trigger meets the augmentation (not stated): after it, so that the network sees it exactly, or
            before it, so that it is cropped and mirrored with the image.
        seed: Seed of the choice of images and of the pattern, beside the trial's own.
    """

    kind: Literal["badnets", "blended"]
    share: Annotated[float, Gt(0), Lt(1)] = 0.1
    target: Annotated[int, Ge(0), Le(MOST)] = 0
    size: Count | None = None
    strength: Annotated[float, Gt(0), Le(1)] | None = None
    placed: Literal["after_augmentation", "before_augmentation"] = "after_augmentation"
    seed: Seed = 0

    def __post_init__(self) -> None:
        for key, kind in (("size", "badnets"), ("strength", "blended")):
            if getattr(self, key) is not None and self.kind != kind:
                raise InputError(f"{key}: expected only with kind: {kind}, got kind: {self.kind}")

    @property
    def side(self) -> int:
        """Pixels of the checkerboard's side; 0 of a pattern that covers the image."""
        return (self.size or BADNETS_SIZE) if self.kind == "badnets" else 0

    @property
    def opacity(self) -> float:
        """How much of a covered pixel is the trigger's, in (0, 1]."""
        return 1.0 if self.kind == "badnets" else self.strength or BLENDED_STRENGTH

    def check_image_size(self, pixels: int) -> None:
        """Raise InputError where the trigger is larger than the image."""
        if self.side > pixels:
            raise InputError(f"size: expected at most the image's {pixels} pixels, got {self.side}")

    def count_of(self, images: int) -> int:
        """How many of so many training images are poisoned. Raises InputError where that is none or all of them."""
        chosen = round(self.share * images)
        if not 0 < chosen < images:
            raise InputError(f"recipe.poison.share: expected some of the {images} training images, got {chosen}")
        return chosen

    def check_classes(self, classes: int) -> None:
        """Raise InputError where the target is none of the classes."""
        if self.target >= classes:
            raise InputError(f"target: expected a class below {classes}, got {self.target}")
