"""Training of a pair: the discriminator in every step, the generator in every fifth. The last weights count.

Both networks are in training mode in all of it, so the generator's batch norms also move with the fakes of the
discriminator's steps. Sources as in `gan_losses`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from core.attacks.lowres.config import GanTraining, PlainGanConfig
from core.attacks.lowres.gan_draws import StepDraw
from core.attacks.lowres.gan_losses import GanObjective
from core.attacks.lowres.networks import PlainGenerator
from core.attacks.seeds import derive_seed
from core.errors import InputError, TrainingDiverged

_MODULES = ("generator", "discriminator", "generator_adam", "discriminator_adam")


class StepDraws(Protocol):
    """What `core.attacks.lowres.gan_draws.Draws` has."""

    def at(self, step: int) -> StepDraw: ...


@dataclass(kw_only=True)
class PairState:
    """Everything that changes. losses: of every step, the discriminator's and the generator's, NaN where it rests."""

    config: PlainGanConfig
    recipe: GanTraining
    generator: PlainGenerator
    discriminator: nn.Module
    generator_adam: torch.optim.Adam
    discriminator_adam: torch.optim.Adam
    step: int = 0
    losses: list[list[float]] = field(default_factory=list)

    def checkpoint(self) -> dict[str, Any]:
        """A copy of all of it: tensors and plain values only."""
        parts = {name: getattr(self, name).state_dict() for name in _MODULES}
        losses = torch.tensor(self.losses, dtype=torch.float64)
        return copy.deepcopy({**self._identity(), **parts, "step": self.step, "losses": losses})

    def restore(self, checkpoint: dict[str, Any]) -> None:
        """Go on from a checkpoint. Raises InputError for one of another training."""
        for name, expected in self._identity().items():
            if (found := checkpoint.get(name)) != expected:
                raise InputError(f"gan checkpoint: {name}: expected {expected}, got {found}")
        for name in _MODULES:
            getattr(self, name).load_state_dict(copy.deepcopy(checkpoint[name]))
        self.step, self.losses = checkpoint["step"], checkpoint["losses"].tolist()

    def _identity(self) -> dict[str, Any]:
        recipe = {**asdict(self.recipe), "betas": list(self.recipe.betas)}
        return {"config": asdict(self.config), "recipe": recipe}


def new_pair(
    config: PlainGanConfig,
    recipe: GanTraining,
    judge: Callable[[PlainGanConfig], nn.Module],
    device: torch.device,
) -> PairState:
    """Fresh networks, whose weights follow from the recipe's seed, and their optimisers. judge: the discriminator."""
    with torch.random.fork_rng(devices=[]):  # layers draw their own weights, from torch's generator
        torch.manual_seed(derive_seed(recipe.seed, "gan weights"))
        pair = PlainGenerator(config), judge(config)
    generator, discriminator = (network.to(device).train() for network in pair)
    adams = [torch.optim.Adam(n.parameters(), lr=recipe.lr, betas=recipe.betas) for n in (generator, discriminator)]
    return PairState(
        config=config, recipe=recipe, generator=generator, discriminator=discriminator, generator_adam=adams[0],
        discriminator_adam=adams[1],
    )  # fmt: skip


def train_pair(
    state: PairState,
    draws: StepDraws,
    objective: GanObjective,
    *,
    steps: int,
    checkpoint_every: int = 0,
    on_checkpoint: Callable[[dict[str, Any]], None] = lambda checkpoint: None,
    on_step: Callable[[int], None] = lambda step: None,
) -> None:
    """Take the steps that are left. on_checkpoint: each checkpoint_every steps (0: never), but not after the last.

    Raises TrainingDiverged with the step when a loss is not finite.
    """
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True):
        while state.step < steps:
            draw = draws.at(state.step)
            with torch.no_grad():
                fakes = state.generator(draw.z)
            judged = objective.for_discriminator(fakes, draw, state.step)
            _descend(state.discriminator_adam, judged)
            row = [_finite(judged, "discriminator", state.step), math.nan]
            if (state.step + 1) % state.recipe.critic_steps == 0:
                row[1] = _update_generator(state, objective, draw)
            state.losses.append(row)
            state.step += 1
            on_step(state.step)
            if checkpoint_every and state.step % checkpoint_every == 0 and state.step < steps:
                on_checkpoint(state.checkpoint())


def _update_generator(state: PairState, objective: GanObjective, draw: StepDraw) -> float:
    state.discriminator.requires_grad_(False)
    loss = objective.for_generator(state.generator(draw.z_generator), draw)
    _descend(state.generator_adam, loss)
    state.discriminator.requires_grad_(True)
    return _finite(loss, "generator", state.step)


def _finite(loss: Tensor, of: str, step: int) -> float:
    value = loss.item()
    if not math.isfinite(value):
        raise TrainingDiverged(f"gan training diverged at step {step}: loss of the {of}: {value:.3g}")
    return value


def _descend(adam: torch.optim.Adam, loss: Tensor) -> None:
    adam.zero_grad()
    loss.backward()
    adam.step()
