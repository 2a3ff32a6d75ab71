"""What the GANs of GMI and of KED-MI minimise. Images are in [0, 1].

Sources: train_gan.py of AI-secure/GMI-Attack (Celeba/); k+1_gan.py and utils.py of SCccc21/Knowledge-Enriched-DMI.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from smoothsweep.core.attacks.gan.draws import StepDraw
from smoothsweep.core.attacks.gan.networks import Critic, MinibatchDiscriminator
from smoothsweep.core.attacks.optimisation.losses import Protocol as AttackProtocol

PENALTY = 10.0  # weight of the gradient penalty
UNLABELLED = 0.5  # weight of the unlabelled part of KED-MI's discriminator loss
ENTROPY = 1e-4  # weight of the summed entropy
OFFICIAL_BATCH = 64  # images over which the official code sums it

SoftLabels = Callable[[Tensor, int], Tensor]
"""(images [B, 3, R, R] in [0, 1], step) -> the target's probabilities [B, C]."""


class GanObjective(Protocol):
    """The losses of a pair; fakes come with gradients for the generator, without for the discriminator."""

    def for_discriminator(self, fakes: Tensor, draw: StepDraw, step: int) -> Tensor: ...

    def for_generator(self, fakes: Tensor, draw: StepDraw) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class Wasserstein:
    """GMI: the critic's difference of means with a gradient penalty."""

    critic: Critic

    def for_discriminator(self, fakes: Tensor, draw: StepDraw, step: int) -> Tensor:
        """mean D(fake) - mean D(real) + 10 times the penalty."""
        reals = draw.images[0]
        penalty = gradient_penalty(self.critic, reals, fakes, draw.mix)
        return self.critic(fakes).mean() - self.critic(reals).mean() + PENALTY * penalty

    def for_generator(self, fakes: Tensor, draw: StepDraw) -> Tensor:
        """-mean D(fake)."""
        return -self.critic(fakes).mean()


@dataclass(frozen=True, kw_only=True)
class InversionSpecific:
    """KED-MI: a discriminator that knows the target's soft labels, without a unit for fakes (their logit is 0).

    Of every step's images the first are labelled by the target, the second are real to the discriminator, the third to
    the generator. Protocol `paper` sums the entropy of a batch, as published, so that it weighs as much as there are
    images; `clean` takes the mean, weighted as at the official batch size.
    """

    discriminator: MinibatchDiscriminator
    soft_labels: SoftLabels
    protocol: AttackProtocol

    def for_discriminator(self, fakes: Tensor, draw: StepDraw, step: int) -> Tensor:
        """Soft cross-entropy plus half of what tells reals from fakes."""
        labelled, reals, _ = draw.images
        labels = self.soft_labels(labelled, step).to(labelled.device)
        of_labelled, of_reals, of_fakes = (self.discriminator(images)[1] for images in (labelled, reals, fakes))
        real_mass, fake_mass = of_reals.logsumexp(1), of_fakes.logsumexp(1)
        unlabelled = F.softplus(real_mass).mean() - real_mass.mean() + F.softplus(fake_mass).mean()
        return soft_cross_entropy(of_labelled, labels) + UNLABELLED * unlabelled

    def for_generator(self, fakes: Tensor, draw: StepDraw) -> Tensor:
        """Distance of the mean features of fakes and reals, and the entropy of the discriminator on fakes."""
        features, logits = self.discriminator(fakes)
        with torch.no_grad():
            wanted = self.discriminator(draw.images[2])[0].mean(0)
        entropy = entropy_sum(logits)
        if self.protocol == "clean":
            entropy = entropy * (OFFICIAL_BATCH / len(fakes))
        return (features.mean(0) - wanted).abs().mean() + ENTROPY * entropy


def gradient_penalty(critic: Callable[[Tensor], Tensor], reals: Tensor, fakes: Tensor, mix: Tensor) -> Tensor:
    """Mean of (norm of the gradient - 1)^2 at reals + mix (fakes - reals); mix [B, 1, 1, 1] in [0, 1]."""
    between = (reals + mix * (fakes - reals)).detach().requires_grad_(True)
    (gradient,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    return (gradient.flatten(1).norm(dim=1) - 1).square().mean()


def soft_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean over the batch; logits and probabilities [B, C]."""
    return -(labels * logits.log_softmax(1)).sum(1).mean()


def entropy_sum(logits: Tensor) -> Tensor:
    """The entropies of softmax(logits), summed over the batch."""
    return -(logits.softmax(1) * logits.log_softmax(1)).sum()


def realness(logits: Tensor) -> Tensor:
    """log D(x) of KED-MI's discriminator, [B, C] -> [B]: D = exp(L) / (exp(L) + 1) with L the log of the summed exp."""
    mass = logits.logsumexp(1)
    return mass - F.softplus(mass)
