"""Training of PLG-MI's conditional GAN: hinge loss, and the target's own loss of what is generated.

LetheSec/PLG-MI-Attack, train_cgan.py: in every step first the generator is updated, then the discriminator several
times. The generator is in train mode in all of it, so its batch norm's averages move with every batch of fakes, six
times a step; the spectral norm moves with every pass through the discriminator, eleven times. The last weights count.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from smoothsweep.core.attacks.gan.conditional_config import ConditionalConfig
from smoothsweep.core.attacks.gan.conditional_generator import ConditionalGenerator
from smoothsweep.core.attacks.optimisation.losses import Protocol as AttackProtocol
from smoothsweep.core.attacks.optimisation.losses import attack_loss
from smoothsweep.core.attacks.plg.augment import Distortion, distort
from smoothsweep.core.attacks.plg.config import ConditionalTraining
from smoothsweep.core.attacks.plg.discriminator import ProjectionDiscriminator
from smoothsweep.core.attacks.plg.draws import Fakes, Reals
from smoothsweep.core.devices import repeatable_kernels
from smoothsweep.core.errors import TrainingDiverged
from smoothsweep.core.seeds import derive_seed
from smoothsweep.core.training.gan_pair import GanPair, descend, fresh_pair

Logits = Callable[[Tensor], Tensor]
"""images [N, 3, R, R] in [-1, 1] -> the target's logits [N, C], differentiable."""


class StepDraws(Protocol):
    """Where a step's random numbers and real images come from; `core.attacks.plg.draws.Draws` has them."""

    def for_generator(self, step: int) -> Fakes: ...

    def for_critic(self, step: int, update: int) -> tuple[Fakes, Reals]: ...


@dataclass(kw_only=True)
class ConditionalPair(GanPair[ConditionalTraining]):
    """Everything that changes. losses: of every step [hinge of G, inversion, mean hinge of D]."""

    KIND: ClassVar[str] = "conditional gan checkpoint"

    protocol: AttackProtocol

    def identity(self) -> dict[str, Any]:
        """The protocol, too: the target's loss depends on it."""
        return {**super().identity(), "protocol": self.protocol}


def new_state(
    config: ConditionalConfig,
    recipe: ConditionalTraining,
    protocol: AttackProtocol,
    device: torch.device,
) -> ConditionalPair:
    """Fresh networks, whose weights follow from the recipe's seed, and their optimisers."""
    seed = derive_seed(recipe.seed, "plg weights")
    pair = fresh_pair(
        lambda: ConditionalGenerator(config),
        lambda: ProjectionDiscriminator(config),
        recipe,
        seed=seed,
        device=device,
    )
    return ConditionalPair(config=config, recipe=recipe, protocol=protocol, **pair)


def train(
    state: ConditionalPair,
    draws: StepDraws,
    logits: Logits,
    *,
    checkpoint_every: int = 0,
    on_checkpoint: Callable[[int, dict[str, Any]], None] = lambda step, checkpoint: None,
    on_step: Callable[[int, list[float]], None] = lambda step, losses: None,
) -> None:
    """Take the steps that are left.

    on_checkpoint: each checkpoint_every steps (0: never), but not after the last.

    Raises TrainingDiverged with the step when a loss is not finite.
    """
    with repeatable_kernels():
        while state.step < state.recipe.steps:
            losses = _update_generator(state, draws.for_generator(state.step), logits)
            critic = [
                _update_discriminator(state, fakes, reals)
                for fakes, reals in (
                    draws.for_critic(state.step, update) for update in range(state.recipe.critic_steps)
                )
            ]
            row = torch.stack([*losses, torch.stack(critic).mean()]).tolist()
            if not all(math.isfinite(value) for value in row):
                losses_text = "generator {:.3g}, inversion {:.3g}, discriminator {:.3g}".format(*row)
                raise TrainingDiverged(f"conditional GAN training diverged at step {state.step}: {losses_text}")
            state.losses.append(row)
            state.step += 1
            on_step(state.step, row)
            if checkpoint_every and state.step % checkpoint_every == 0 and state.step < state.recipe.steps:
                on_checkpoint(state.step, state.checkpoint())


def _update_generator(state: ConditionalPair, fakes: Fakes, logits: Logits) -> tuple[Tensor, Tensor]:
    """[hinge loss, inversion loss] of the step. The discriminator takes no gradients, but moves its spectral norm."""
    labels = fakes.labels.to(state.device)
    state.discriminator.requires_grad_(False)
    made = state.generator(fakes.z.to(state.device), labels)
    hinge = generator_hinge(state.discriminator(made, labels))
    loss_of = attack_loss(state.recipe.loss, state.protocol)
    inversion = loss_of(logits(target_images(made, fakes.distortion, state.config.output)), labels).mean()
    descend(state.generator_adam, hinge + state.recipe.inversion_weight * inversion)
    state.discriminator.requires_grad_(True)
    return hinge.detach(), inversion.detach()


def _update_discriminator(state: ConditionalPair, fakes: Fakes, reals: Reals) -> Tensor:
    """The hinge loss. Fakes come without gradients; the published ones leave some, which are not used."""
    labels = fakes.labels.to(state.device)
    with torch.no_grad():
        made = state.generator(fakes.z.to(state.device), labels)
    of_fakes = state.discriminator(made, labels)
    of_reals = state.discriminator(reals.images.to(state.device), reals.labels.to(state.device))
    loss = critic_hinge(of_fakes, of_reals)
    descend(state.discriminator_adam, loss)
    return loss.detach()


def generator_hinge(of_fakes: Tensor) -> Tensor:
    """What the generator lowers, of the discriminator's [B, 1]."""
    return -of_fakes.mean()


def critic_hinge(of_fakes: Tensor, of_reals: Tensor) -> Tensor:
    """What the discriminator lowers, of its own [B, 1]: nothing is won beyond a margin of 1 on either side."""
    return F.relu(1 - of_reals).mean() + F.relu(1 + of_fakes).mean()


def target_images(made: Tensor, distortion: Distortion | None, output: str) -> Tensor:
    """What the target is shown of generated images: distorted in [0, 1], then in [-1, 1], as every target here has it.

    Where tanh stands for [0, 1] ("unit"), what is below 0 stays below until a change of colours clamps it.
    """
    unit = made if output == "unit" else (made + 1) / 2
    return 2 * (unit if distortion is None else distort(unit, distortion)) - 1
