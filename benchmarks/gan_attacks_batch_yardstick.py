"""GMI's and KED-MI's search, and LOMMA's on both, as the official scripts run it: a batch of classes at once.

Re-stated from attack.py of AI-secure/GMI-Attack (Celeba/), SCccc21/Knowledge-Enriched-DMI and
sutd-visual-computing-group/Re-thinking_MI: one latent of every class of a batch in a pass, the restarts one after the
other, one backward pass through modules in eval mode whose weights collect gradients that nobody uses. The loss is the
mean over the batch; both of its terms are read in every step, as the scripts do for their log. What a search leaves is
shown to the target, as there. Left out is the evaluation model, which the scripts ask every 300 steps and at the end.
Random numbers are those of our attacks.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.gan_attacks_yardstick import Networks, Run, identity_loss
from smoothsweep.core.attacks.lowres.gmi import GMI
from smoothsweep.core.attacks.lowres.ked import KED
from smoothsweep.core.seeds import generator


def gmi_batch(networks: Networks, attack: GMI, classes: Sequence[int], seed: int) -> Run:
    """Latents [classes, selected, z_dim], the last of every restart."""
    starts, found, size, labels = [], [], networks.generator.z_dim, torch.tensor(classes)
    for restart in range(attack.selected):
        z = torch.stack([torch.randn(size, generator=generator(seed, c, "restart", restart)) for c in classes])
        starts.append(z.clamp(-attack.bound, attack.bound))
        velocity = torch.zeros_like(z)
        for _ in range(attack.steps):
            z = z.detach().requires_grad_(True)
            image = networks.generator(z)
            prior = -networks.discriminator(image).mean()
            identity = identity_loss(networks, attack, image, labels)
            (prior + attack.identity_weight * identity).backward()
            before, velocity = velocity, attack.momentum * velocity - attack.lr * z.grad
            moved = z.detach() - attack.momentum * before + (1 + attack.momentum) * velocity
            z = moved.clamp(-attack.bound, attack.bound)
            _read(prior, identity)
        found.append(z)
        _show(networks, z)
    return Run(start=torch.stack(starts, 1), z=torch.stack(found, 1))


def ked_batch(networks: Networks, attack: KED, classes: Sequence[int], seed: int) -> Run:
    """Latents [classes, selected, z_dim], drawn from the last means and variances."""
    size, labels = networks.generator.z_dim, torch.tensor(classes)
    mu = torch.zeros(len(classes), size, requires_grad=True)
    log_var = torch.full((len(classes), size), float(attack.start_log_variance), requires_grad=True)
    adam = torch.optim.Adam([mu, log_var], lr=attack.lr)

    def drawn(what: str, number: int) -> Tensor:
        noise = torch.stack([torch.randn(size, generator=generator(seed, c, what, number)) for c in classes])
        z = mu + torch.exp(0.5 * log_var) * noise
        return z if attack.clamp is None else z.clamp(-attack.clamp, attack.clamp)

    def draws() -> Tensor:
        return torch.stack([drawn("draw", number) for number in range(attack.selected)], 1).detach()

    start = draws()
    for step in range(attack.steps):
        image = networks.generator(drawn("step", step))
        mass = torch.logsumexp(networks.discriminator(image)[1], 1)
        prior = F.softplus(mass).mean() - mass.mean()
        identity = identity_loss(networks, attack, image, labels)
        adam.zero_grad()
        (prior + attack.identity_weight * identity).backward()
        adam.step()
        _read(prior, identity)
    z = draws()
    for number in range(attack.selected):
        _show(networks, z[:, number])
    return Run(start=start, z=z)


def _read(*terms: Tensor) -> None:
    """On a GPU this waits for the step."""
    for term in terms:
        term.item()


def _show(networks: Networks, z: Tensor) -> Tensor:
    return networks.target(2 * networks.generator(z) - 1)
