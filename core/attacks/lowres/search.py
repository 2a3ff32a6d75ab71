"""The search for latents whose images the target takes for given classes, and which a discriminator takes for real."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from smoothsweep.core.attacks.gan.losses import realness
from smoothsweep.core.attacks.optimisation.descent import Descent, StepGradient, walk
from smoothsweep.core.attacks.shared.base import Reconstructions
from smoothsweep.core.attacks.shared.view import GradientView
from smoothsweep.core.priors.base import Decoder

IdentityLoss = Callable[[Tensor, Tensor], Tensor]
"""(images [N, 3, R, R] in [-1, 1], labels [N]) -> how little the target sees these classes, [N]."""

Realness = Callable[[Tensor], Tensor]
"""images [N, 3, R, R] in [0, 1] -> [N], large for what looks real."""


@dataclass(frozen=True, kw_only=True)
class Objective:
    """-realness + weight * identity, of every row by itself, and its gradients.

    Attributes:
        scale: Factor on every row's gradient, the reciprocal size of the batch whose mean the official code takes.
        latent: (the leaf, step) -> the generator's z [N, z_dim].
    """

    decoder: Callable[[Tensor], Tensor]
    realness: Realness
    identity: IdentityLoss
    labels: Tensor
    weight: float
    scale: float
    latent: Callable[[Tensor, int], Tensor]

    def __call__(self, leaf: Tensor, step: int) -> StepGradient:
        """As `core.attacks.optimisation.descent.walk` wants it; the image gradient is the identity loss's alone."""
        images = self.decoder(self.latent(leaf, step)[:, None])
        pixels = images.contiguous(memory_format=torch.channels_last)
        identity = self.identity(pixels, self.labels)
        # Two half passes, through the target and then through the generator, cost what one would.
        (at_image,) = torch.autograd.grad(identity.sum(), images)
        prior = -self.realness((images + 1) / 2)
        (at_leaf,) = torch.autograd.grad(
            [images, prior], leaf, [self.scale * self.weight * at_image, torch.full_like(prior, self.scale)]
        )
        return StepGradient(
            loss=(prior + self.weight * identity).detach(), latent=at_leaf.clone(), image=at_image.clone()
        )


def momentum(z0: Tensor, objective: Objective, *, steps: int, lr: float, momentum: float, clip: float) -> Descent:
    """GMI: Nesterov's momentum, every step clipped to [-clip, clip]; the velocity does not hear of the clipping."""

    def nesterov(z: Tensor) -> torch.optim.Optimizer:
        return torch.optim.SGD([z], lr=lr, momentum=momentum, nesterov=momentum > 0)

    return walk(z0, objective, nesterov, steps=steps, lr_at=lambda _: lr, project=lambda z: z.clamp(-clip, clip))


def distribution(start: Tensor, objective: Objective, *, steps: int, lr: float) -> Descent:
    """KED-MI: Adam on mean and log variance, start [N, 2, z_dim]."""
    return walk(start, objective, lambda leaf: torch.optim.Adam([leaf], lr=lr), steps=steps, lr_at=lambda _: lr)


def sampled(leaf: Tensor, noise: Tensor, clamp: float | None) -> Tensor:
    """z [N, z_dim] of mean and log variance [N, 2, z_dim], clamped within the graph; clamp None: not at all."""
    z = leaf[:, 0] + (leaf[:, 1] / 2).exp() * noise
    return z if clamp is None else z.clamp(-clamp, clamp)


class RealnessNetwork(nn.Module):
    """A discriminator with many outputs as one number. groups: images that are looked at together; None: all."""

    def __init__(self, discriminator: nn.Module, groups: int | None) -> None:
        super().__init__()
        self.discriminator, self.groups = discriminator, groups

    def forward(self, images: Tensor) -> Tensor:
        return realness(self.discriminator(images, self.groups)[1])


@lru_cache(maxsize=2)
def shared_realness(discriminator: nn.Module, groups: int | None) -> RealnessNetwork:
    """Return one object per discriminator, so that an `Execution` prepares it once for all classes."""
    return RealnessNetwork(discriminator, groups)


def make_reconstructions(
    view: GradientView,
    decoder: Decoder,
    z: Tensor,
    target_class: int,
    descent: Descent,
    rows: Tensor,
    *,
    best_first: bool,
) -> Reconstructions:
    """What is left of one class: its latents z [k, z_dim] with the target's confidence.

    rows: which rows of the descent are of this class. best_first: else they stay in the order they were drawn in.
    """
    with torch.no_grad(), view.execution.arithmetic():
        images = view.execution.synthesizer(decoder)(z[:, None])
    scores = view.scores(images)[:, target_class]
    order = scores.argsort(descending=True, stable=True) if best_first else torch.arange(len(z))
    return Reconstructions(
        w=z.detach().cpu()[order][:, None],
        scores=scores[order],
        rows={"draw": order},
        curves={"loss": descent.loss[:, rows].nanmean(1).cpu()},
        facts=descent_facts(descent, rows),
    )


def descent_facts(descent: Descent, rows: Tensor) -> Mapping[str, float]:
    """Facts of some rows of a descent, under the names that Plug & Play reports them by."""
    loss = descent.loss[:, rows].nanmean(1)
    return {
        "loss_first": float(loss[0]),
        "loss_last": float(loss[-1]),
        "gradient_cosine": float(descent.image_cosine[:, rows].nanmean()),
        "num_frozen": float(descent.frozen[rows].sum()),
    }
