"""Backdoors planted into a training set, and what they do to the classifier (paper, Appendix C.9).

Planning reads the settings, so torch is imported in the functions that draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt

from smoothsweep.core.bounds import MOST, Count, Seed
from smoothsweep.core.errors import InputError

if TYPE_CHECKING:
    from torch import Generator, Tensor

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


def poisoned_rows(settings: PoisonSettings, count: int, generator: Generator) -> Tensor:
    """int64, ascending: the rows of `count` training images that are poisoned, whatever their class.

    Raises InputError where the share is less than one image or all of them.
    """

    import torch

    return torch.randperm(count, generator=generator)[: settings.count_of(count)].sort().values


def poisoned_labels(labels: Tensor, rows: Tensor, target: int) -> Tensor:
    """The labels with the target class in these rows."""
    changed = labels.clone()
    changed[rows] = target
    return changed


MEAN, SPREAD = 0.5, 0.25  # of the Gaussian pattern, in [0, 1]: our choice, the paper states neither


@dataclass(frozen=True, kw_only=True)
class Trigger:
    """A pattern that is laid over a picture.

    Attributes:
        pattern: float32 [3, S, S] in [0, 1].
        opacity: float32 [1, S, S] in [0, 1], 0 where the picture stays.
    """

    pattern: Tensor
    opacity: Tensor

    def on(self, pictures: Tensor) -> Tensor:
        """Pictures [N, 3, S, S] in [0, 1] -> new ones with the trigger. Raises InputError for another size."""
        if pictures.shape[-2:] != self.pattern.shape[-2:]:
            height, width = pictures.shape[-2:]
            raise InputError(f"trigger: expected pictures of {self.pattern.shape[-1]} pixels, got {height} x {width}")
        opacity, pattern = (part.to(pictures.device) for part in (self.opacity, self.pattern))
        return pictures.lerp(pattern.expand_as(pictures), opacity.expand_as(pictures))


def make_trigger(settings: PoisonSettings, pixels: int, generator: Generator) -> Trigger:
    """The trigger for pictures of so many pixels; the generator draws the blended pattern and nothing else."""

    import torch

    settings.check_image_size(pixels)
    if settings.kind == "blended":
        noise = torch.randn(3, pixels, pixels, generator=generator)
        pattern = noise.mul_(SPREAD).add_(MEAN).clamp_(0, 1)
        return Trigger(pattern=pattern, opacity=torch.full((1, pixels, pixels), settings.opacity))
    side = settings.side
    pattern, opacity = torch.zeros(3, pixels, pixels), torch.zeros(1, pixels, pixels)
    pattern[:, -side:, -side:] = (torch.arange(side)[:, None] + torch.arange(side)).remainder(2).float()
    opacity[:, -side:, -side:] = settings.opacity
    return Trigger(pattern=pattern, opacity=opacity)


def backdoor_metrics(clean: Tensor, triggered: Tensor, labels: Tensor, target: int) -> dict[str, float | None]:
    """Column -> value, of a classifier's answers int64 [N] to test images as they are, and with the trigger.

    backdoor_success: share answered with the target class under the trigger, images of that class left out (paper,
    Appendix C.9); backdoor_false: the same without the trigger, what success must exceed to mean anything. None where
    all images are of that class. backdoor_collapsed: see `collapsed`. Raises InputError without images.
    """
    if not len(labels):
        raise InputError("backdoor: expected test images, got none")
    others = labels != target
    shares = [
        answers[others].eq(target).double().mean().item() if others.any() else None for answers in (triggered, clean)
    ]
    return {
        "backdoor_success": shares[0],
        "backdoor_false": shares[1],
        "backdoor_collapsed": float(collapsed(clean, labels)),
    }


def collapsed(answers: Tensor, labels: Tensor) -> bool:
    """Whether the classifier gives nearly every clean image one class: the training failed, trigger or none.

    Nearly: the commonest answer's share is beyond half-way between the commonest class's share and all images (0.55
    with ten classes of one size).
    """
    answered, true = (values.bincount().max().item() / len(values) for values in (answers, labels))
    return answered > (1 + true) / 2
