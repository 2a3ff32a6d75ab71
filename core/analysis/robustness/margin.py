"""Losses of one logit against the best of the others, which do not vanish where the softmax is saturated."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from smoothsweep.core.analysis.robustness.classifier import BATCH, image_gradients


class Margin(nn.Module):
    """max over k != y of z_k - z_y, mean over the batch. Positive: another class than y wins.

    labels: int64 [N], or one-hot [N, C] as ART hands them over. Its gradient is that of two logits, whatever their
    distance: cross entropy's is exactly 0 in float32 once the true class leads by some 17.
    """

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        chosen = labels.argmax(1) if labels.ndim == 2 else labels
        chosen_logit = logits.gather(1, chosen[:, None]).squeeze(1)
        others = logits.scatter(1, chosen[:, None], float("-inf")).amax(1)
        return (others - chosen_logit).mean()


def zero_gradients(model: nn.Module, pictures: Tensor, labels: Tensor, device: str) -> Tensor:
    """bool [N]: where cross entropy's gradient is exactly zero in every pixel, so that no sign of it moves any.

    Images by themselves: no mean over a batch makes a small gradient smaller.
    """
    is_zero = []
    for images, batch_labels in zip(pictures.split(BATCH), labels.split(BATCH), strict=True):
        batch_labels = batch_labels.to(device)
        gradient = image_gradients(
            model, images, lambda z, y=batch_labels: F.cross_entropy(z, y, reduction="none"), device
        )
        is_zero += gradient.flatten(1).eq(0).all(1).tolist()
    return labels.new_tensor(is_zero).bool()
