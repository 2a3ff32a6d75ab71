"""Everything that changes while a StyleGAN2 trains, and how it goes into a checkpoint and back."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from smoothsweep.core.errors import InputError, TrainingDiverged
from smoothsweep.core.priors.gan_recipe import GanRecipe
from smoothsweep.core.priors.stylegan2 import StyleGAN2, StyleGAN2Discriminator
from smoothsweep.core.priors.stylegan2_settings import StyleGAN2Config
from smoothsweep.core.training.kept_state import KeptState

ADA_INTERVAL = 4
"""Steps between two changes of the adaptive probability."""

NO_PENALTY = -1.0
"""Stands for R1 in a step that did not compute it; the penalty itself is never negative."""


@dataclass(kw_only=True)
class GanState(KeptState):
    """What a GAN's training carries from step to step beside its networks and optimisers.

    Attributes:
        average: The moving average of the generator.
        sign_sum: Sum over steps of the mean sign of real logits since the probability last changed.
        window: [loss_g, loss_d, r1, sign] of the steps since the last row of history.
    """

    KIND: ClassVar[str] = "gan checkpoint"
    MODULES: ClassVar[tuple[str, ...]] = (
        "generator",
        "discriminator",
        "average",
        "generator_adam",
        "discriminator_adam",
    )
    VALUES: ClassVar[tuple[str, ...]] = ("step", "augment_probability", "sign_sum", "window", "history")

    config: StyleGAN2Config
    recipe: GanRecipe
    seed: int
    device: torch.device
    generator: StyleGAN2
    discriminator: StyleGAN2Discriminator
    average: StyleGAN2
    generator_adam: torch.optim.Adam
    discriminator_adam: torch.optim.Adam
    step: int = 0
    augment_probability: float = 0.0
    sign_sum: float = 0.0
    window: list[list[float]] = field(default_factory=list)
    history: list[dict] = field(default_factory=list)

    def record(self, values: list[float]) -> None:
        """Note [loss_g, loss_d, r1, mean sign of the real logits] of this step and steer the augmentation."""
        if not all(math.isfinite(value) for value in values):
            losses = "loss_g {:.3g}, loss_d {:.3g}, r1 {:.3g}".format(*values)
            raise TrainingDiverged(f"GAN training diverged at step {self.step}: {losses}")
        self.window.append(values)
        self.sign_sum += values[3]
        if (self.step + 1) % ADA_INTERVAL == 0:
            if self.recipe.augmentation == "adaptive":
                self.augment_probability = self.recipe.adjusted_probability(
                    self.augment_probability, self.sign_sum / ADA_INTERVAL, ADA_INTERVAL * self.recipe.batch_size
                )
            self.sign_sum = 0.0

    def follow(self) -> None:
        """Move the average a little towards the generator that this step has updated."""
        share = 1 - self.recipe.ema_keep(self.step)
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.parameters()), list(self.generator.parameters()), share)

    def close_window(self, on_log: Callable[[dict], None] | None) -> None:
        """Turn the steps since the last row into a row of history."""
        penalties = [values[2] for values in self.window if values[2] != NO_PENALTY]
        loss_g, loss_d, _, sign = np.mean(self.window, axis=0).tolist()
        row = {
            "step": self.step,
            "kimg": self.step * self.recipe.batch_size / 1000,
            "loss_g": loss_g,
            "loss_d": loss_d,
            "r1": float(np.mean(penalties)) if penalties else None,
            "real_sign": sign,
            "augment_probability": self.augment_probability,
        }
        self.window = []
        self.history.append(row)
        if on_log is not None:
            on_log(row)

    def identity(self) -> dict[str, Any]:
        """All but the length of the training (kimg)."""
        numbers = {field.name: getattr(self.recipe, field.name) for field in fields(GanRecipe) if field.name != "kimg"}
        numbers["learning_rate"] = numbers.pop("lr")  # what checkpoints have always called it
        return {"config": asdict(self.config), "recipe": numbers, "seed": self.seed}


def new_state(
    config: StyleGAN2Config,
    recipe: GanRecipe,
    *,
    seed: int,
    device: torch.device,
    start: tuple[StyleGAN2, StyleGAN2Discriminator] | None,
) -> GanState:
    """The state before the first step: fresh networks from `seed`, or copies of those in `start`."""
    if start is None:
        start = StyleGAN2(config, seed=seed), StyleGAN2Discriminator(config, seed=seed)
    if any(network.config != config for network in start):
        raise InputError(f"start: expected networks of {config}, got {[network.config for network in start]}")
    generator = copy.deepcopy(start[0]).to(device).requires_grad_(True)
    discriminator = copy.deepcopy(start[1]).to(device).requires_grad_(True)
    # R1 adds a step to every r1_interval steps of the discriminator: its optimiser slows down in proportion.
    slowdown = recipe.r1_interval / (recipe.r1_interval + 1) if recipe.r1_gamma else 1.0
    return GanState(
        config=config,
        recipe=recipe,
        seed=seed,
        device=device,
        generator=generator,
        discriminator=discriminator,
        average=copy.deepcopy(generator).requires_grad_(False),
        generator_adam=_adam(generator, recipe, 1.0),
        discriminator_adam=_adam(discriminator, recipe, slowdown),
        augment_probability=1.0 if recipe.augmentation == "light" else 0.0,
    )


def _adam(network: nn.Module, recipe: GanRecipe, slowdown: float) -> torch.optim.Adam:
    first, second = recipe.betas
    betas = first**slowdown, second**slowdown
    return torch.optim.Adam(network.parameters(), lr=recipe.lr * slowdown, betas=betas)
