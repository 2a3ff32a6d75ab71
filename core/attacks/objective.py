"""One step of latent optimisation: from latents to the gradients of the attack loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from core.attacks.crops import Crops, Views, apply_crops
from core.attacks.descent import StepGradient
from core.priors.base import Prior

Target = Callable[[Tensor], Tensor]
"""images float [N, 3, H, W] -> logits [N, C]; an nn.Module or a plain function."""

Transform = Callable[[Tensor], Tensor]
"""The fixed way from the prior's images [N, 3, R, R] to the target's input [N, 3, S, S], e.g. `Preprocess`.
"""


@dataclass(frozen=True, kw_only=True)
class LatentObjective:
    """(w [B, ...], step) -> losses and gradients: synthesise, clip, transform, crop, target, loss.

    loss: (logits, targets) -> [B]; views: the random crops of each step, None for no crop; rows: which of the
    candidates these B are; mean: the gradient is that of the batch mean (else of each row's own loss);
    discriminator: full-size unclipped images -> logits, its term softplus(-D(image)) weighted by
    discriminator_weight and not part of the losses reported. The image gradient is taken at the output of
    `transform`, from the target's loss alone.
    """

    prior: Prior
    target: Target
    transform: Transform
    target_class: int
    loss: Callable[[Tensor, Tensor], Tensor]
    views: Views | None
    rows: slice
    clip: bool = False
    mean: bool = False
    discriminator: Target | None = None
    discriminator_weight: float = 0.0

    def __call__(self, w: Tensor, step: int) -> StepGradient:
        images = self.prior.synthesize(w)
        shown = self.transform(images.clamp(-1, 1) if self.clip else images)
        crops = None if self.views is None else self.views.at(step, shown).of(self.rows)
        logits = target_logits(self.target, shown, crops)
        labels = torch.full((len(w),), self.target_class, device=logits.device)
        losses = self.loss(logits, labels)
        # Two half backward passes, through the target and then through the prior, cost what one would: no
        # parameter wants a gradient, and the gradient at the image is the quantity of the paper's eq. 4.
        (at_image,) = torch.autograd.grad(losses.sum(), shown)
        outputs, scale = [shown], 1 / len(w) if self.mean else 1.0
        gradients = [at_image * scale]
        if self.discriminator is not None and self.discriminator_weight:
            realism = F.softplus(-self.discriminator(images)).flatten(1).mean(1)
            outputs.append(realism)
            gradients.append(torch.full_like(realism, self.discriminator_weight * scale))
        (at_latent,) = torch.autograd.grad(outputs, w, grad_outputs=gradients)
        return StepGradient(loss=losses.detach(), latent=at_latent, image=at_image)


def target_logits(target: Target, images: Tensor, crops: Crops | None, *, size: int | None = None) -> Tensor:
    """The target's logits [N, C] on the cropped images, resized to `size` (None: as large as the images).

    images: float [N, 3, S, S]. Without crops the images are shown as they are.
    """
    if crops is not None:
        images = apply_crops(images, crops, size or images.shape[-1])
    # Small convolutional targets are a fifth faster on CPUs in this layout.
    return target(images.contiguous(memory_format=torch.channels_last))
