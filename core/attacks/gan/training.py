"""Training of a pair: the discriminator in every step, the generator in every fifth. The last weights count.

Both networks are in training mode in all of it, so the generator's batch norms also move with the fakes of the
discriminator's steps. Sources as in `gan_losses`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from smoothsweep.core.attacks.gan.config import GanTraining, PlainGanConfig
from smoothsweep.core.attacks.gan.draws import StepDraw
from smoothsweep.core.attacks.gan.losses import GanObjective
from smoothsweep.core.attacks.gan.networks import PlainGenerator
from smoothsweep.core.devices import repeatable_kernels
from smoothsweep.core.errors import TrainingDiverged
from smoothsweep.core.seeds import derive_seed
from smoothsweep.core.training.gan_pair import GanPair, descend, fresh_pair


class StepDraws(Protocol):
    """What `core.attacks.gan.draws.Draws` has."""

    def at(self, step: int) -> StepDraw: ...


def new_pair(
    config: PlainGanConfig,
    recipe: GanTraining,
    judge: Callable[[PlainGanConfig], nn.Module],
    device: torch.device,
) -> GanPair[GanTraining]:
    """Fresh networks, whose weights follow from the recipe's seed, and their optimisers. judge: the discriminator.

    losses: of every step, the discriminator's and the generator's, NaN where it rests.
    """
    seed = derive_seed(recipe.seed, "gan weights")
    pair = fresh_pair(lambda: PlainGenerator(config), lambda: judge(config), recipe, seed=seed, device=device)
    return GanPair(config=config, recipe=recipe, **pair)


def train_pair(
    state: GanPair[GanTraining],
    draws: StepDraws,
    objective: GanObjective,
    *,
    steps: int,
    checkpoint_every: int = 0,
    on_checkpoint: Callable[[dict[str, Any]], None] = lambda checkpoint: None,
    on_step: Callable[[int], None] = lambda step: None,
) -> None:
    """Take the steps that are left.

    on_checkpoint: each checkpoint_every steps (0: never), but not after the last.

    Raises TrainingDiverged with the step when a loss is not finite.
    """
    with repeatable_kernels():
        while state.step < steps:
            draw = draws.at(state.step)
            with torch.no_grad():
                fakes = state.generator(draw.z)
            judged = objective.for_discriminator(fakes, draw, state.step)
            descend(state.discriminator_adam, judged)
            row = [_finite(judged.detach(), "discriminator", state.step), math.nan]
            if (state.step + 1) % state.recipe.critic_steps == 0:
                row[1] = _update_generator(state, objective, draw)
            state.losses.append(row)
            state.step += 1
            on_step(state.step)
            if checkpoint_every and state.step % checkpoint_every == 0 and state.step < steps:
                on_checkpoint(state.checkpoint())


def _update_generator(state: GanPair[GanTraining], objective: GanObjective, draw: StepDraw) -> float:
    state.discriminator.requires_grad_(False)
    loss = objective.for_generator(state.generator(draw.z_generator), draw)
    descend(state.generator_adam, loss)
    state.discriminator.requires_grad_(True)
    return _finite(loss.detach(), "generator", state.step)


def _finite(loss: Tensor, of: str, step: int) -> float:
    value = loss.item()
    if not math.isfinite(value):
        raise TrainingDiverged(f"gan training diverged at step {step}: loss of the {of}: {value:.3g}")
    return value
