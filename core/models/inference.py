"""What a network is shown of images, and its logits, features and accuracy of whole sets."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from smoothsweep.core.checks import require_choice
from smoothsweep.core.data.images import ImageSet, resize, resize_uint8, to_unit
from smoothsweep.core.errors import InputError

CHANNELS = 3
_LARGEST = 1e6

Triple = tuple[float, float, float]
Channels = Literal["rgb", "bgr"]
"""The order in which a network gets the channels of a picture: red first, or blue first as OpenCV reads files."""
CHANNEL_ORDERS: tuple[Channels, ...] = get_args(Channels)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True, kw_only=True)
class Normalisation:
    """What a network is shown of pictures x in [0, 1]: (x - mean) / std, each channel (red, green, blue) by itself.

    The default maps to [-1, 1], as everything trained here and the publication's checkpoints have it. Raises InputError
    unless there are three finite means and three standard deviations > 0.

    Attributes:
        mean, std: Means and deviations of red, green and blue, whatever their order.
        channels: The order in which the network gets them.
    """

    mean: Triple = (0.5, 0.5, 0.5)
    std: Triple = (0.5, 0.5, 0.5)
    channels: Channels = "rgb"

    def __post_init__(self) -> None:
        require_choice("channels", self.channels, CHANNEL_ORDERS)
        for name, minimum in (("mean", -_LARGEST), ("std", 1 / _LARGEST)):
            values = getattr(self, name)
            fine = len(values) == CHANNELS and all(math.isfinite(v) and minimum <= v <= _LARGEST for v in values)
            if not fine:
                words = "three numbers" + (" > 0" if name == "std" else "")
                raise InputError(f"{name}: expected {words} (red, green, blue), got {', '.join(map(str, values))}")

    @classmethod
    def of_range(cls, low: float, high: float, *, channels: Channels = "rgb") -> Normalisation:
        """Pictures as numbers from `low` (black) to `high` (white). Raises InputError unless low < high, finite."""
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise InputError(f"input range: expected two numbers, the lower one first, got {low} and {high}")
        scale = 1 / (high - low)
        return cls(mean=(-low * scale, -low * scale, -low * scale), std=(scale, scale, scale), channels=channels)

    @property
    def ends(self) -> tuple[float, float] | None:
        """The numbers of black and white; None where the channels differ."""
        if len(set(self.mean)) > 1 or len(set(self.std)) > 1:
            return None
        return -self.mean[0] / self.std[0] + 0.0, (1 - self.mean[0]) / self.std[0]

    @property
    def is_ours(self) -> bool:
        """Whether it is [-1, 1], in which all images here are."""
        return self == Normalisation()


USUAL: dict[str, Normalisation] = {
    "inputs in [-1, 1]": Normalisation(),
    "inputs in [0, 1]": Normalisation.of_range(0, 1),
    "ImageNet mean/std": Normalisation(mean=IMAGENET_MEAN, std=IMAGENET_STD),
    "inputs in [0, 255]": Normalisation.of_range(0, 255),
}
"""What classifiers are usually trained with, by the words that a sentence uses for it."""

FURTHER: dict[str, Normalisation] = {
    **{f"BGR, {words}": replace(usual, channels="bgr") for words, usual in USUAL.items()},
    "inputs in [-0.5, 0.5]": Normalisation.of_range(-0.5, 0.5),
    "Caffe's BGR, means of ImageNet taken off [0, 255]": Normalisation(
        mean=(123.68 / 255, 116.779 / 255, 103.939 / 255), std=(1 / 255, 1 / 255, 1 / 255), channels="bgr"
    ),
    "BGR, means of VGGFace2 taken off [0, 255]": Normalisation(
        mean=(131.0912 / 255, 103.8827 / 255, 91.4953 / 255), std=(1 / 255, 1 / 255, 1 / 255), channels="bgr"
    ),
}
"""What fewer are trained with; tried after the usual ones, on fewer images."""


class FromUnitRange(nn.Module):
    """Images [N, 3, H, W] in [-1, 1], as everything here has them -> what `normalisation` makes of the same pictures.

    Differentiable and without parameters: it adds nothing to a state dictionary.
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, normalisation: Normalisation) -> None:
        super().__init__()
        mean, std = (torch.tensor(v, dtype=torch.float64) for v in (normalisation.mean, normalisation.std))
        for name, value in (("scale", 0.5 / std), ("shift", (0.5 - mean) / std)):
            self.register_buffer(name, value.float()[:, None, None], persistent=False)
        self.is_reversed = normalisation.channels == "bgr"

    def forward(self, images: Tensor) -> Tensor:
        scaled = images * self.scale + self.shift
        return scaled.flip(-3) if self.is_reversed else scaled


def input_layer(normalisation: Normalisation) -> nn.Module:
    """The layer in front of a network that was trained with it; for [-1, 1] one that changes no bit."""
    return nn.Identity() if normalisation.is_ours else FromUnitRange(normalisation)


BATCH_SIZE = 256

Network = nn.Module | Callable[[Tensor], Tensor]
"""images [N, 3, S, S] in [-1, 1] -> logits [N, C]."""


def evaluate_logits(
    model: Network,
    images: Tensor,
    *,
    image_size: int,
    batch_size: int = BATCH_SIZE,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Logits float32 [N, C] on the CPU for images [N, 3, H, W], in evaluation mode and without gradients.

    uint8 images that are larger are reduced in uint8 (what reading and resizing a picture file does), smaller ones
    enlarged in float, both exactly to `image_size`, as in training without augmentation. Float images, nominally in
    [-1, 1], are resized in float and not clipped, as the published evaluation does with generated images. One batch
    at a time is converted and moved, so `images` may be mapped from a file. The model's mode is restored. No images
    give float32 [0].
    """
    return _batched(model, model, images, image_size, batch_size, device)


def embed_images(model: Any, images: Tensor, *, image_size: int, device: torch.device | str = "cpu") -> Tensor:
    """The penultimate features float32 [N, D], otherwise like `evaluate_logits`; the model needs `embed`."""
    return _batched(model, model.embed, images, image_size, BATCH_SIZE, device)


def evaluate_accuracy(model: Network, data: ImageSet, *, image_size: int, device: torch.device | str = "cpu") -> float:
    """The share of images whose largest logit is that of their label, in [0, 1]."""
    logits = evaluate_logits(model, data.images, image_size=image_size, device=device)
    return (logits.argmax(dim=1) == data.labels.cpu()).double().mean().item()


@torch.no_grad()
def _batched(
    model: Network,
    function: Callable[[Tensor], Tensor],
    images: Tensor,
    image_size: int,
    batch_size: int,
    device: torch.device | str,
) -> Tensor:
    with evaluating(model):
        parts = [function(fit_images(chunk.to(device), image_size)).float().cpu() for chunk in images.split(batch_size)]
    return torch.cat(parts) if len(images) else torch.empty(0)


@contextmanager
def evaluating(model: Network) -> Generator[None]:
    """A network in evaluation mode, and afterwards in its own; what is no module of torch's has one mode."""
    if not isinstance(model, nn.Module):
        yield
        return
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def fit_images(images: Tensor, image_size: int) -> Tensor:
    """Images as in `ImageSet` -> float32 [N, 3, S, S], nominally in [-1, 1], as `evaluate_logits` shows them."""
    if images.dtype != torch.uint8:
        return resize(images.float(), image_size).contiguous(memory_format=torch.channels_last)
    reduced = resize_uint8(images, image_size) if images.shape[-1] > image_size else images
    return resize(to_unit(reduced), image_size).contiguous(memory_format=torch.channels_last)
