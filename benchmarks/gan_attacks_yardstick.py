"""GMI's and KED-MI's search, and LOMMA's on both, as the official loops go.

Re-stated from attack.py of AI-secure/GMI-Attack (Celeba/), SCccc21/Knowledge-Enriched-DMI and
sutd-visual-computing-group/Re-thinking_MI for a class alone: restart after restart, one backward pass through all of
it, networks whose weights want gradients that nobody uses. The loss is divided by `reference_batch`, as the mean over
the official batch does. Random numbers are those of our attacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from smoothsweep.core.attacks.lowres.gmi import GMI
from smoothsweep.core.attacks.lowres.ked import KED
from smoothsweep.core.attacks.lowres.lomma import Lomma
from smoothsweep.core.seeds import generator


@dataclass(frozen=True, kw_only=True)
class Networks:
    """In eval mode; discriminator: GMI's critic, or KED-MI's. mean: of LOMMA's pull, None without one."""

    generator: nn.Module
    discriminator: nn.Module
    target: nn.Module
    students: Sequence[nn.Module] = ()
    mean: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class Run:
    """Latents [selected, z_dim] in the order of their draws: what a loop came to, and what it would have left before
    its first step."""

    start: Tensor
    z: Tensor


def gmi_class(networks: Networks, attack: GMI, target_class: int, seed: int) -> Run:
    """The last latents of all restarts."""
    starts, found, size, label = [], [], networks.generator.z_dim, torch.tensor([target_class])
    for restart in range(attack.selected):
        z = torch.randn(1, size, generator=generator(seed, target_class, "restart", restart)).requires_grad_(True)
        starts.append(z.detach().clamp(-attack.bound, attack.bound))
        v = torch.zeros_like(z)
        for _ in range(attack.steps):
            image = networks.generator(z)
            prior = -networks.discriminator(image).mean()
            loss = prior + attack.identity_weight * identity_loss(networks, attack, image, label)
            if z.grad is not None:
                z.grad.zero_()
            (loss / attack.reference_batch).backward()
            before, v = v, attack.momentum * v - attack.lr * z.grad
            with torch.no_grad():
                z += -attack.momentum * before + (1 + attack.momentum) * v
                z.clamp_(-attack.bound, attack.bound)
        found.append(z.detach())
    return Run(start=torch.cat(starts), z=torch.cat(found))


def ked_class(networks: Networks, attack: KED, target_class: int, seed: int) -> Run:
    """Draws from the last mean and variance."""
    size, label = networks.generator.z_dim, torch.tensor([target_class])
    mu = torch.zeros(1, size, requires_grad=True)
    log_var = torch.full((1, size), float(attack.start_log_variance), requires_grad=True)
    adam = torch.optim.Adam([mu, log_var], lr=attack.lr)

    def drawn(what: str, number: int) -> Tensor:
        noise = torch.randn(size, generator=generator(seed, target_class, what, number))
        z = mu + torch.exp(0.5 * log_var) * noise
        return z if attack.clamp is None else z.clamp(-attack.clamp, attack.clamp)

    def draws() -> Tensor:
        return torch.cat([drawn("draw", number) for number in range(attack.selected)]).detach()

    start = draws()
    for step in range(attack.steps):
        image = networks.generator(drawn("step", step))
        mass = torch.logsumexp(networks.discriminator(image)[1], 1)
        prior = F.softplus(mass).mean() - mass.mean()
        loss = prior + attack.identity_weight * identity_loss(networks, attack, image, label)
        adam.zero_grad()
        (loss / attack.reference_batch).backward()
        adam.step()
    return Run(start=start, z=draws())


def identity_loss(networks: Networks, attack: GMI | KED, image: Tensor, labels: Tensor) -> Tensor:
    """The mean over images of cross-entropy; LOMMA's with its students: minus the logit over all models, and the pull
    of the features. labels: int64 [N], of the wanted classes."""
    shown = 2 * image - 1
    if not isinstance(attack, Lomma):
        return F.cross_entropy(networks.target(shown), labels)
    features = networks.target.embed(shown)
    answers = [networks.target.head(features), *(student(shown) for student in networks.students)]
    loss = sum(F.nll_loss(logits, labels) for logits in answers) / len(answers)
    return loss + attack.feature_weight * torch.mean((features - networks.mean) ** 2)
