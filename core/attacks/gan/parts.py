"""The GANs of GMI and KED-MI as parts: trained once, kept on the way, resumed exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from smoothsweep.core.attacks.gan.config import GanTraining, PlainGanConfig
from smoothsweep.core.attacks.shared.base import AttackInputs, MadePart, Part, PartContext
from smoothsweep.core.checks import present
from smoothsweep.core.declared import build

if TYPE_CHECKING:
    from torch import Tensor, nn

    from smoothsweep.core.attacks.gan.losses import GanObjective
    from smoothsweep.core.attacks.shared.view import GradientView, View

CHECKPOINTS = 20  # per training
GENERAL, SPECIFIC = "general_gan", "specific_gan"


def general_gan(training: GanTraining) -> Part:
    """GMI's, one for all targets of an input size."""
    if training.imported is not None:
        return Part(name=GENERAL, needs=(), imported=training.imported)
    return Part(name=GENERAL, needs=("public",), settings=training.settings)


def specific_gan(training: GanTraining) -> Part:
    """KED-MI's, which a target's soft labels go into."""
    if training.imported is not None:
        return Part(name=SPECIFIC, needs=("target",), imported=training.imported)
    return Part(name=SPECIFIC, needs=("public", "target"), settings=training.settings)


def make_general_gan(
    settings: Mapping[str, Any], inputs: AttackInputs, view: View, part_context: PartContext
) -> MadePart:
    """The networks "generator" and "discriminator" (a critic); losses [steps, 2] as of
    `core.attacks.gan.training.new_pair`."""
    from smoothsweep.core.attacks.gan.losses import Wasserstein
    from smoothsweep.core.attacks.gan.networks import Critic

    return _trained(
        settings,
        inputs,
        view,
        part_context,
        judge=Critic,
        classes=0,
        streams=1,
        objective=lambda critic: Wasserstein(critic=critic),
    )


def make_specific_gan(
    settings: Mapping[str, Any], inputs: AttackInputs, view: GradientView, part_context: PartContext
) -> MadePart:
    """As `make_general_gan`, with a discriminator of the target's classes.

    Protocol `paper` asks the target in training mode, as the official code does, which never puts it into evaluation:
    its norms use the statistics of the public batch. `clean` asks it as everybody else does.
    """
    from smoothsweep.core.attacks.gan.losses import InversionSpecific
    from smoothsweep.core.attacks.gan.networks import MinibatchDiscriminator
    from smoothsweep.core.seeds import derive_seed

    seed = _recipe(settings).seed

    def soft_labels(images: Tensor, step: int) -> Tensor:
        if inputs.protocol == "paper":
            return view.scores_in_training(2 * images - 1, derive_seed(seed, "teacher", step))
        return view.scores(2 * images - 1)

    return _trained(
        settings,
        inputs,
        view,
        part_context,
        judge=MinibatchDiscriminator,
        classes=view.num_classes,
        streams=3,
        objective=lambda judge: InversionSpecific(
            discriminator=judge, soft_labels=soft_labels, protocol=present(inputs.protocol, "protocol")
        ),
    )


def _trained(
    settings: Mapping[str, Any],
    inputs: AttackInputs,
    view: View,
    part_context: PartContext,
    *,
    judge: Callable[[PlainGanConfig], nn.Module],
    classes: int,
    streams: int,
    objective: Callable[[Any], GanObjective],
) -> MadePart:
    import torch

    from smoothsweep.core.attacks.gan.draws import Draws
    from smoothsweep.core.attacks.gan.training import new_pair, train_pair
    from smoothsweep.core.data.images import resize_uint8

    recipe = _recipe(settings)
    config = PlainGanConfig(resolution=view.image_size, z_dim=recipe.z_dim, width=recipe.width, classes=classes)
    draws = Draws(
        resize_uint8(present(inputs.public, "public"), view.image_size),
        recipe,
        streams=streams,
        device=view.execution.device,
    )
    steps = recipe.steps(len(present(inputs.public, "public")))
    state = new_pair(config, recipe, judge, view.execution.device)
    if (kept := part_context.last_state()) is not None:
        state.restore(kept)
    with view.execution.arithmetic():
        train_pair(
            state,
            draws,
            objective(state.discriminator),
            steps=steps,
            checkpoint_every=max(1, steps // CHECKPOINTS),
            on_checkpoint=part_context.keep_state,
            on_step=lambda step: part_context.progress(step / steps, f"step {step}/{steps}"),
        )
    losses = torch.tensor(state.losses, dtype=torch.float32)
    pair = {"generator": state.generator, "discriminator": state.discriminator}
    return MadePart(
        tensors={"losses": losses},
        networks={name: network.eval().requires_grad_(False) for name, network in pair.items()},
        facts={"discriminator_loss": _final_loss(losses[:, 0]), "generator_loss": _final_loss(losses[:, 1])},
    )


def _recipe(settings: Mapping[str, Any]) -> GanTraining:
    return build(GanTraining, settings, what="gan", prefix="attack.gan.")


def _final_loss(losses: Tensor) -> float | None:
    """Mean over the last twentieth of the steps that have one; None where none has."""
    taken = losses[losses.isfinite()]
    return taken[-max(1, len(taken) // CHECKPOINTS) :].mean().item() if len(taken) else None
