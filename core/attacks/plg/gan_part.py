"""PLG-MI's conditional GAN as a part: trained once per public set and target, kept on the way, resumed exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import torch

from smoothsweep.core.attacks.gan.conditional_config import ConditionalConfig
from smoothsweep.core.attacks.plg.config import ConditionalTraining
from smoothsweep.core.attacks.plg.draws import Draws
from smoothsweep.core.attacks.plg.training import ConditionalPair, new_state, train
from smoothsweep.core.attacks.shared.base import AttackInputs, MadePart, PartContext
from smoothsweep.core.attacks.shared.view import require_access
from smoothsweep.core.checks import present
from smoothsweep.core.data.images import resize_uint8
from smoothsweep.core.errors import InputError

if TYPE_CHECKING:
    from smoothsweep.core.attacks.shared.view import GradientView

CHECKPOINTS = 20  # per training
OUTPUT: dict[str, Literal["signed", "unit"]] = {"paper": "unit", "clean": "signed"}
"""What tanh stands for. The official generator ends in tanh, but its reals lie in [0, 1] and nothing maps one to the
other: it learns to leave half of tanh's range unused, and what it emits below 0 reaches target and judges as it is.
Protocol `paper` keeps that; under `clean` the reals lie in [-1, 1]."""


def make_gan(
    settings: Mapping[str, Any], inputs: AttackInputs, view: GradientView, part_context: PartContext
) -> MadePart:
    """The network "generator", and losses float32 [steps, 3]: hinge of the generator, inversion, hinge of the critic.

    Raises InputError for pseudo-labels of another number of classes than the target's, and for a target whose
    gradients are not to be had.
    """
    require_access(view, "gradients", "the conditional GAN of PLG-MI")
    index = inputs.parts["plg_labels"]["index"]
    if len(index) != view.num_classes:
        raise InputError(f"plg_labels: expected images of the target's {view.num_classes} classes, got {len(index)}")
    gan_settings: dict[str, Any] = {**settings, "betas": tuple(settings["betas"])}
    recipe = ConditionalTraining(**gan_settings)
    config = ConditionalConfig(
        classes=view.num_classes,
        resolution=view.image_size,
        z_dim=recipe.z_dim,
        width=recipe.width,
        output=OUTPUT[present(inputs.protocol, "protocol")],
    )
    state = new_state(config, recipe, present(inputs.protocol, "protocol"), view.execution.device)
    if (kept := part_context.last_state()) is not None:
        state.restore(kept)
    draws = Draws(
        resize_uint8(present(inputs.public, "public"), view.image_size),
        index,
        config,
        recipe,
        present(inputs.protocol, "protocol"),
    )
    with view.execution.arithmetic():
        train(
            state,
            draws,
            view.logits,
            checkpoint_every=max(1, recipe.steps // CHECKPOINTS),
            on_checkpoint=lambda step, checkpoint: part_context.keep_state(checkpoint),
            on_step=lambda step, losses: part_context.progress(step / recipe.steps, f"step {step}/{recipe.steps}"),
        )
    return _made(state)


def _made(state: ConditionalPair) -> MadePart:
    losses, generator = torch.tensor(state.losses), state.generator.eval().requires_grad_(False)
    last = losses[-max(1, len(losses) // CHECKPOINTS) :].mean(0)
    facts = {"generator_loss": last[0].item(), "inversion_loss": last[1].item(), "critic_loss": last[2].item()}
    return MadePart(tensors={"losses": losses}, networks={"generator": generator}, facts=facts)
