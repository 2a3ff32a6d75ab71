"""Logits, features and accuracy of whole image sets."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from smoothsweep.core.data.images import ImageSet, resize, resize_uint8, to_unit

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
