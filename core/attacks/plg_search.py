"""PLG-MI on one class: Adam on latents of the conditional generator, the target's loss under two random views.

LetheSec/PLG-MI-Attack, reconstruct.py. No discriminator, no prior term, no clipping; the last latents count, and all
restarts are results. Protocol `paper` keeps what makes numbers there:

* five batches of 60 labels, all with the same starts: that of a class is row (class modulo 60) of its restart's draw;
* the loss is a batch mean. Adam makes nothing of the factor 1/60 but beside its epsilon;
* the order of the colour changes is drawn once for the 60 of a batch, anew in every restart, step and view;
* colours change in every view, for there ColorJitter has its default chance of 1; while the GAN was trained it had 0.5.

Under `clean` a class draws all of it by itself, and colours change as often as the generator was trained for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from smoothsweep.core.attacks.gan_networks import ConditionalGenerator, with_class
from smoothsweep.core.attacks.optimisation.descent import Descent, StepGradient, descend, target_logits
from smoothsweep.core.attacks.optimisation.losses import Protocol, attack_loss
from smoothsweep.core.attacks.plg_gan import CHANCE, Distortion, distort, draw_distortion
from smoothsweep.core.attacks.shared.view import GradientView
from smoothsweep.core.seeds import generator

if TYPE_CHECKING:
    from smoothsweep.core.attacks.plg_mi import PLGMI

REFERENCE_BATCH = 60  # labels that the official attack inverts together
VIEWS = 2  # per step
ADAM_BETAS = (0.9, 0.999)


def search(
    made: ConditionalGenerator,
    view: GradientView,
    attack: PLGMI,
    target_class: int,
    start: Tensor,
    views_at: Callable[[int], Sequence[Distortion]],
    protocol: Protocol,
) -> Descent:
    """The descent from z `start` [N, z_dim], all rows at once; its w are the last latents z, on the device.

    views_at: step -> how the target is shown the images of all rows, view by view.
    """
    execution, synthesize, loss_of = (
        view.execution,
        view.execution.synthesizer(made),
        attack_loss(attack.loss, protocol),
    )

    def gradient_of(z: Tensor, views: Sequence[Distortion], rows: slice) -> StepGradient:
        """Of some of the rows; their views go through the target in one pass."""
        z = z.detach().requires_grad_(True)
        images = synthesize(with_class(z, target_class))
        distorted = torch.cat([2 * distort((images + 1) / 2, one.of(rows)) - 1 for one in views])
        logits = target_logits(view.logits, distorted, None)
        labels = torch.full((len(distorted),), target_class, device=logits.device)
        losses = loss_of(logits, labels).unflatten(0, (len(views), -1)).sum(0)
        (at_image,) = torch.autograd.grad(losses.sum() / (REFERENCE_BATCH if protocol == "paper" else 1), images)
        (at_latent,) = torch.autograd.grad(images, z, grad_outputs=at_image)
        # Copies: a recorded graph (core.attacks.shared.execution) writes its results to the same place at every call.
        return StepGradient(loss=losses.detach(), latent=at_latent.clone(), image=at_image.clone())

    def probe(rows: int) -> None:
        with torch.enable_grad():
            gradient_of(start[:rows].to(execution.device), views_at(0), slice(0, rows))

    with execution.arithmetic():
        batch = execution.gradient_batch("inversion", (made, view.logits), probe, most=len(start))

        def gradient_at(z: Tensor, step: int) -> StepGradient:
            views = views_at(step)
            parts = batch.run(lambda rows: gradient_of(z[rows], views, rows), len(z))
            return StepGradient(**{name: torch.cat([getattr(p, name) for p in parts]) for name in vars(parts[0])})

        return descend(
            start.to(execution.device), gradient_at, steps=attack.steps, lr_at=lambda _: attack.lr, betas=ADAM_BETAS
        )


def starts(z_dim: int, restarts: int, target_class: int, *, seed: int, protocol: Protocol) -> Tensor:
    """Standard normal z [restarts, z_dim]."""
    if protocol == "clean":
        return torch.randn(restarts, z_dim, generator=generator(seed, target_class, "plg start"))
    draws = [generator(seed, "plg start", restart) for restart in range(restarts)]
    row = target_class % REFERENCE_BATCH
    return torch.stack([torch.randn(REFERENCE_BATCH, z_dim, generator=draw)[row] for draw in draws])


def draw_views(
    step: int, side: int, restarts: int, target_class: int, *, seed: int, protocol: Protocol
) -> list[Distortion]:
    """How the target is shown every restart's image of `side` pixels in the two views of a step."""
    views = []
    for place in range(VIEWS):
        stream = generator(seed, target_class, "plg views", step, place)
        drawn = draw_distortion(restarts, side, stream, jitter=1.0 if protocol == "paper" else CHANCE)
        if protocol == "paper":
            batch = target_class // REFERENCE_BATCH
            orders = [generator(seed, "plg order", batch, restart, step, place) for restart in range(restarts)]
            drawn = replace(drawn, order=torch.stack([torch.randperm(4, generator=order) for order in orders]))
        views.append(drawn)
    return views
