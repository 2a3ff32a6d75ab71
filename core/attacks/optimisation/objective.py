"""One step of latent optimisation: from latents to the gradients of the attack loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from smoothsweep.core.attacks.optimisation.crops import Crops, RowViews, apply_crops
from smoothsweep.core.attacks.optimisation.descent import StepGradient
from smoothsweep.core.devices import DeviceBatch
from smoothsweep.core.errors import InputError

Target = Callable[[Tensor], Tensor]
"""images float [N, 3, H, W] -> logits [N, C]; an nn.Module or a plain function."""

Answer = Any
"""Logits [N, C]; or, for a loss that looks at both, features [N, D] and logits."""

Transform = Callable[[Tensor], Tensor]
"""The fixed way from the prior's images [N, 3, R, R] to the target's input [N, 3, S, S], e.g. `Preprocess`.
"""


class Neighbours(Protocol):
    """Images around an image. views: how many."""

    @property
    def views(self) -> int: ...

    def of(self, images: Tensor, view: int, step: int, rows: slice) -> Tensor:
        """One neighbour of each of the images [N, 3, S, S], differentiable; rows: which candidates they show."""
        ...


@dataclass(frozen=True, kw_only=True)
class LatentObjective:
    """(w [B, ...], step) -> losses and gradients: synthesise, clip, transform, crop, target, loss.

    Attributes:
        target_class: The class of all rows, or int64 [B], that of each.
        first: Which of the candidates the first row is.
        views: The random crops of each step, None for no crop.
        loss: (what the target answers, targets) -> [B].
        scale: Factor on the gradient of each row's loss, [B] (the reciprocal size of its batch for the gradient of the
            batch mean).
        batch: How many rows are computed at once, None for all.
        discriminator: Full-size unclipped images -> logits, its term softplus(-D(image)) weighted by
            discriminator_weight and not part of the losses reported. The image gradient is taken at the output of
            `transform`, from the target's loss alone.
        neighbours: Images around what the target would be shown, over which loss and gradient are then means; None for
            those at the image itself.
    """

    synthesize: Callable[[Tensor], Tensor]
    target: Callable[[Tensor], Answer]
    transform: Transform
    target_class: int | Tensor
    loss: Callable[[Answer, Tensor], Tensor]
    views: RowViews | None
    first: int
    scale: Tensor
    batch: DeviceBatch | None
    clip: bool = False
    discriminator: Target | None = None
    discriminator_weight: float = 0.0
    neighbours: Neighbours | None = None

    def __call__(self, w: Tensor, step: int) -> StepGradient:
        if self.batch is None:
            try:
                return self._of_rows(w, step, slice(0, len(w)))
            except torch.OutOfMemoryError as error:
                raise InputError(
                    f"optimise.batch_size: expected a number of images that fits into device memory, got {len(w)}, "
                    "which the discriminator must see together"
                ) from error
        parts = self.batch.run(lambda rows: self._of_rows(w, step, rows), len(w))
        if len(parts) == 1:
            return parts[0]
        return StepGradient(**{name: torch.cat([getattr(p, name) for p in parts]) for name in vars(parts[0])})

    def _of_rows(self, w: Tensor, step: int, rows: slice) -> StepGradient:
        w = w[rows].detach().requires_grad_(True)
        images = self.synthesize(w)
        target_inputs = self.transform(images.clamp(-1, 1) if self.clip else images)
        span = slice(self.first + rows.start, self.first + rows.stop)
        crops = None if self.views is None else self.views.at(step, target_inputs, span)
        # Two half backward passes, through the target and then through the prior, cost what one would: no
        # parameter wants a gradient, and the gradient at the image is the quantity of the paper's eq. 4.
        if self.neighbours is None:
            losses = self._losses(target_inputs, crops, rows)
            (at_image,) = torch.autograd.grad(losses.sum(), target_inputs)
        else:
            losses, at_image = self._averaged(target_inputs, crops, self.neighbours, step, rows)
        scale = self.scale[rows]
        outputs, gradients = [target_inputs], [at_image * scale[:, None, None, None]]
        if self.discriminator is not None and self.discriminator_weight:
            realism = F.softplus(-self.discriminator(images)).flatten(1).mean(1)
            outputs.append(realism)
            gradients.append(self.discriminator_weight * scale)
        (at_latent,) = torch.autograd.grad(outputs, w, grad_outputs=gradients)
        # Copies: a recorded graph (core.attacks.shared.execution) writes its results to the same place at every call.
        return StepGradient(loss=losses.detach(), latent=at_latent.clone(), image=at_image.clone())

    def _losses(self, images: Tensor, crops: Crops | None, rows: slice) -> Tensor:
        wanted = self.target_class
        if isinstance(wanted, int):
            labels = torch.full((len(images),), wanted, device=images.device)
        else:
            labels = wanted[rows].to(images.device)
        return self.loss(target_logits(self.target, images, crops), labels)

    def _averaged(
        self, shown: Tensor, crops: Crops | None, neighbours: Neighbours, step: int, rows: slice
    ) -> tuple[Tensor, Tensor]:
        """Losses and gradient at `shown`, means over the neighbours of its cropped form.

        The gradients are brought back to one image before they are added up: those of a turned neighbour lie in a frame
        of their own. One neighbour after the other, so that memory is that of a single one.
        """
        seen = shown if crops is None else apply_crops(shown, crops, shown.shape[-1])
        span = slice(self.first + rows.start, self.first + rows.stop)
        leaf, total, losses = seen.detach(), torch.zeros_like(seen), shown.new_zeros(len(shown))
        for view in range(neighbours.views):
            leaf.requires_grad_(True)
            view_losses = self._losses(neighbours.of(leaf, view, step, span), None, rows)
            total = total + torch.autograd.grad(view_losses.sum(), leaf)[0]
            losses = losses + view_losses.detach()
        total = total / neighbours.views
        at_image = total if crops is None else torch.autograd.grad(seen, shown, grad_outputs=total)[0]
        return losses / neighbours.views, at_image


def target_logits(
    target: Callable[[Tensor], Answer], images: Tensor, crops: Crops | None, *, size: int | None = None
) -> Answer:
    """The target's logits [N, C] on the cropped images, resized to `size` (None: as large as the images).

    images: float [N, 3, S, S]. Without crops the images are shown as they are.
    """
    if crops is not None:
        images = apply_crops(images, crops, size or images.shape[-1])
    # Small convolutional targets are a fifth faster on CPUs in this layout.
    return target(images.contiguous(memory_format=torch.channels_last))
