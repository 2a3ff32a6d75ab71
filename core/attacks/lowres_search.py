"""The search for latents whose images the target takes for given classes, and which a discriminator takes for real."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from smoothsweep.core.attacks.optimisation.descent import Descent, StepGradient, feature_pull, walk
from smoothsweep.core.attacks.ppa.pool import best_first
from smoothsweep.core.attacks.shared.base import AttackInputs, MadePart, PartContext, Reconstructions
from smoothsweep.core.attacks.shared.view import GradientView
from smoothsweep.core.checks import present
from smoothsweep.core.data.images import resize_uint8
from smoothsweep.core.priors.base import Decoder
from smoothsweep.core.seeds import generator

MOST_IMAGES = 5050  # that the mean feature is taken over: 101 batches of 50 in the official code
ROWS = 64  # images at once

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


@dataclass(frozen=True, kw_only=True)
class Identity:
    """How little the target, and what was distilled from it, see the wanted classes in images; each image by itself.

    The mean over target and students of a loss: cross-entropy, as in GMI and KED-MI, or, in LOMMA
    (sutd-visual-computing-group/Re-thinking_MI, attack.py), minus the logit of the class, not normalised over the
    others. mean: of the target's features on public images, to which those of the images are pulled with
    `feature_weight`; None for no pull. The published code draws a feature from the estimated distribution, and then
    overwrites it by the mean. The pull is not divided by the number of models.
    """

    view: GradientView
    students: Sequence[Callable[[Tensor], Tensor]] = ()
    raw_logit: bool = False
    mean: Tensor | None = None
    feature_weight: float = 1.0

    def __call__(self, images: Tensor, labels: Tensor) -> Tensor:
        features, logits = (None, self.view.logits(images)) if self.mean is None else self.view.features(images)
        models = [logits, *(student(images) for student in self.students)]
        loss = torch.stack([self._of(answer, labels) for answer in models]).mean(0)
        if features is None or self.mean is None:
            return loss
        return loss + self.feature_weight * feature_pull(features, self.mean)

    def _of(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.raw_logit:
            return -logits.gather(1, labels[:, None]).squeeze(1)
        return F.cross_entropy(logits, labels, reduction="none")


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


def realness(logits: Tensor) -> Tensor:
    """log D(x) of KED-MI's discriminator, [B, C] -> [B]: D = exp(L) / (exp(L) + 1) with L the log of the summed exp."""
    mass = logits.logsumexp(1)
    return mass - F.softplus(mass)


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


def left_of_class(
    view: GradientView, decoder: Decoder, w: Tensor, target_class: int, descent: Descent, *, places: str, in_order: bool
) -> Reconstructions:
    """What is left of one class: latents w [k, 1, w_dim] with the target's confidence in their images as they are.

    descent: of this class alone; places: the row that says which of w each was; in_order: they stay so, else the best
    comes first.
    """
    with torch.no_grad(), view.execution.arithmetic():
        images = view.execution.synthesizer(decoder)(w)
    scores = view.scores(images)[:, target_class]
    order = torch.arange(len(w)) if in_order else best_first(scores)
    return Reconstructions(
        w=w.detach().cpu()[order],
        scores=scores[order],
        rows={places: order},
        curves={"loss": descent.curve},
        facts=descent.facts,
    )


def make_public_features(
    settings: Mapping[str, Any], inputs: AttackInputs, view: GradientView, part_context: PartContext
) -> MadePart:
    """mean, std [D] of the target's penultimate features over at most 5,050 public images (the unbiased std is not
    used, as in the published code)."""
    public = present(inputs.public, "public")
    chosen = torch.randperm(len(public), generator=generator("public features"))[:MOST_IMAGES]
    images, features = resize_uint8(public[chosen], view.image_size), []
    with torch.no_grad(), view.execution.arithmetic():
        for batch in images.split(ROWS):
            features.append(view.features(batch.to(view.execution.device).float() / 127.5 - 1)[0].float().cpu())
    mean, std = moments(torch.cat(features))
    return MadePart(tensors={"mean": mean, "std": std}, facts={"public_images": float(len(images))})


def moments(features: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and unbiased standard deviation [D] of features [N, D]."""
    return features.mean(0), features.std(0)
