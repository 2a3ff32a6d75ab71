"""Gradient descent on a batch of latents, row by row: a row that breaks is stopped, its neighbours go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class StepGradient:
    """What one step needs.

    Attributes:
        loss: [B].
        latent: Gradient like w [B, ...].
        image: Gradient at the images [B, ...].
    """

    loss: Tensor
    latent: Tensor
    image: Tensor


@dataclass(frozen=True, kw_only=True)
class Descent:
    """Where a descent over B latents ended, and what was recorded on its way.

    Attributes:
        w: Last iterate, like the start.
        last_evaluated: The one before it, of which loss and gradient were last taken.
        loss: [steps, B], before each update, NaN once a row is frozen.
        image_cosine, latent_cosine: [steps - 1, B], between the gradients of neighbouring steps, NaN where one of them
            is zero or was not taken.
        frozen: bool [B].
    """

    w: Tensor
    last_evaluated: Tensor
    loss: Tensor
    image_cosine: Tensor
    latent_cosine: Tensor
    frozen: Tensor


def descend(
    w0: Tensor,
    gradient_at: Callable[[Tensor, int], StepGradient],
    *,
    steps: int,
    lr_at: Callable[[int], float],
    betas: tuple[float, float],
    weight_decay: float = 0.0,
    project: Callable[[Tensor], Tensor] | None = None,
    on_step: Callable[[int, Tensor], None] | None = None,
) -> Descent:
    """`steps` Adam steps (a fresh state, eps 1e-8) from w0 [B, ...]; returns the last iterate. Otherwise as `walk`."""

    def adam(w: Tensor) -> torch.optim.Optimizer:
        return torch.optim.Adam([w], lr=lr_at(0), betas=betas, weight_decay=weight_decay)

    return walk(w0, gradient_at, adam, steps=steps, lr_at=lr_at, project=project, on_step=on_step)


def walk(
    w0: Tensor,
    gradient_at: Callable[[Tensor, int], StepGradient],
    optimiser: Callable[[Tensor], torch.optim.Optimizer],
    *,
    steps: int,
    lr_at: Callable[[int], float],
    project: Callable[[Tensor], Tensor] | None = None,
    on_step: Callable[[int, Tensor], None] | None = None,
) -> Descent:
    """`steps` steps from w0 [B, ...] by the optimiser made for the leaf; returns the last iterate.

    gradient_at(w, step) is given a leaf that requires gradients. project: where every step ends; the optimiser's own
    state does not hear of it. A row whose loss or gradient is not finite goes back to its last iterate where both were,
    stays there and is reported in `frozen`; nothing is copied to the host during the descent. on_step(step, loss [B])
    is called before each update.
    """
    w = w0.detach().clone().requires_grad_(True)
    mover = optimiser(w)
    alive = torch.ones(len(w), dtype=torch.bool, device=w.device)
    good = w.detach().clone()
    losses, images, latents = [], [], []
    unit_image = unit_latent = None
    for step in range(steps):
        gradient = gradient_at(w, step)
        alive = alive & gradient.loss.isfinite() & gradient.latent.flatten(1).isfinite().all(1)
        losses.append(gradient.loss.masked_fill(~alive, torch.nan))
        previous_image, previous_latent = unit_image, unit_latent
        unit_image, unit_latent = (_unit_rows(g, alive) for g in (gradient.image, gradient.latent))
        if previous_image is not None and previous_latent is not None:
            images.append((unit_image * previous_image).sum(1))
            latents.append((unit_latent * previous_latent).sum(1))
        if on_step is not None:
            on_step(step, losses[-1])
        good = torch.where(_like(alive, w), w.detach(), good)
        _update(mover, w, gradient.latent.masked_fill(~_like(alive, w), 0.0), lr_at(step))
        with torch.no_grad():  # momentum and weight decay move a row even without a gradient
            moved = w if project is None else project(w)
            w.copy_(torch.where(_like(alive, w), moved, good))
    empty = good.new_empty(0, len(good))
    return Descent(
        w=w.detach(),
        last_evaluated=good,
        loss=torch.stack(losses),
        image_cosine=torch.stack(images) if images else empty,
        latent_cosine=torch.stack(latents) if latents else empty,
        frozen=~alive,
    )


def _update(optimiser: torch.optim.Optimizer, w: Tensor, gradient: Tensor, lr: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = lr
    w.grad = gradient
    optimiser.step()


def _unit_rows(gradient: Tensor, alive: Tensor) -> Tensor:
    # NaN for rows without a direction. Divided by the largest entry first: the gradients of a saturated
    # target are so small that their squares vanish in single precision.
    flat = gradient.detach().flatten(1)
    flat = flat / flat.abs().amax(1, keepdim=True)
    return (flat / flat.norm(dim=1, keepdim=True)).masked_fill(~alive[:, None], torch.nan)


def _like(mask: Tensor, other: Tensor) -> Tensor:
    return mask.view(-1, *[1] * (other.ndim - 1))
