"""Training of the GANs of GMI and KED-MI, as parts: trained once, kept on the way, resumed exactly.

The discriminator is updated in every step, the generator in every fifth. The last weights count. Both networks are in
training mode in all of it, so the generator's batch norms also move with the fakes of the discriminator's steps. Images
are in [0, 1]. Every step draws from a stream of its own, made of seed and step.

Sources: train_gan.py of AI-secure/GMI-Attack (Celeba/); k+1_gan.py and utils.py of SCccc21/Knowledge-Enriched-DMI.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from smoothsweep.core.attacks.gan_networks import Critic, MinibatchDiscriminator, PlainGenerator
from smoothsweep.core.attacks.optimisation.descent import Protocol
from smoothsweep.core.attacks.shared.base import AttackInputs, MadePart, PartContext
from smoothsweep.core.attacks.shared.view import GradientView, View
from smoothsweep.core.attacks.training_settings import GanTraining, PlainGanConfig
from smoothsweep.core.checks import present
from smoothsweep.core.data.images import resize_uint8
from smoothsweep.core.declared import build
from smoothsweep.core.devices import repeatable_kernels
from smoothsweep.core.errors import InputError, TrainingDiverged
from smoothsweep.core.seeds import derive_seed, generator

CHECKPOINTS = 20  # per training
PENALTY = 10.0  # weight of the gradient penalty
UNLABELLED = 0.5  # weight of the unlabelled part of KED-MI's discriminator loss
ENTROPY = 1e-4  # weight of the summed entropy
OFFICIAL_BATCH = 64  # images over which the official code sums it


class KeptState(ABC):
    """KIND: how a refusal begins. The fields that change: MODULES, networks and optimisers; VALUES, plain values;

    ROWS, lists of numbers or of as many numbers each, which a checkpoint holds as float64 tensors.
    """

    KIND: ClassVar[str]
    MODULES: ClassVar[tuple[str, ...]]
    VALUES: ClassVar[tuple[str, ...]] = ()
    ROWS: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What a checkpoint must have been made with to be gone on from: plain values by name."""

    def checkpoint(self) -> dict[str, Any]:
        """A copy of all of it: tensors and plain values only."""
        modules = {name: getattr(self, name).state_dict() for name in self.MODULES}
        values = {name: getattr(self, name) for name in self.VALUES}
        rows = {name: torch.tensor(getattr(self, name), dtype=torch.float64) for name in self.ROWS}
        return copy.deepcopy({**self.identity(), **modules, **values, **rows})

    def restore(self, checkpoint: dict[str, Any]) -> None:
        """Go on from a checkpoint, which stays as it is. Raises InputError for one of another training."""
        for name, expected in self.identity().items():
            if (value := checkpoint.get(name)) != expected:
                raise InputError(f"{self.KIND}: {name}: expected {expected}, got {value}")
        for name in self.MODULES:
            getattr(self, name).load_state_dict(copy.deepcopy(checkpoint[name]))
        for name in self.VALUES:
            setattr(self, name, copy.deepcopy(checkpoint[name]))
        for name in self.ROWS:
            setattr(self, name, checkpoint[name].tolist())


@dataclass(kw_only=True)
class GanPair(KeptState):
    """Everything that changes.

    Attributes:
        config, recipe: Dataclasses; `recipe.settings` are plain values, all that decides a step.
        step: How many steps were taken.
        losses: A row for each of them.
    """

    KIND: ClassVar[str] = "gan checkpoint"
    MODULES: ClassVar[tuple[str, ...]] = ("generator", "discriminator", "generator_adam", "discriminator_adam")
    VALUES: ClassVar[tuple[str, ...]] = ("step",)
    ROWS: ClassVar[tuple[str, ...]] = ("losses",)

    config: Any
    recipe: Any
    generator: nn.Module
    discriminator: nn.Module
    generator_adam: torch.optim.Adam
    discriminator_adam: torch.optim.Adam
    step: int = 0
    losses: list[list[float]] = field(default_factory=list)

    @classmethod
    def fresh(
        cls,
        config: Any,
        recipe: Any,
        generator: Callable[[Any], nn.Module],
        discriminator: Callable[[Any], nn.Module],
        *,
        seed: int,
        device: torch.device,
        **own: Any,
    ) -> Self:
        """Networks of `config` in training mode, whose weights follow from the seed, and their optimisers.

        own: the fields that a class of pairs has beside.
        """
        with torch.random.fork_rng(devices=[]):  # layers draw their own weights, from torch's generator
            torch.manual_seed(seed)
            pair = {"generator": generator(config), "discriminator": discriminator(config)}
        networks: dict[str, Any] = {name: network.to(device).train() for name, network in pair.items()}
        adams: dict[str, Any] = {
            f"{name}_adam": torch.optim.Adam(network.parameters(), lr=recipe.lr, betas=recipe.betas)
            for name, network in networks.items()
        }
        return cls(config=config, recipe=recipe, **networks, **adams, **own)

    @property
    def device(self) -> torch.device:
        """Where both networks are."""
        return next(self.generator.parameters()).device

    def identity(self) -> dict[str, Any]:
        """What both networks are, and how they are trained."""
        recipe = {**self.recipe.settings, "betas": list(self.recipe.betas)}
        return {"config": asdict(self.config), "recipe": recipe}


def descend(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    """One step down the loss."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


SoftLabels = Callable[[Tensor, int], Tensor]
"""(images [B, 3, R, R] in [0, 1], step) -> the target's probabilities [B, C]."""


@dataclass(frozen=True, kw_only=True)
class StepDraw:
    """What one step draws.

    Attributes:
        images: Batches [B, 3, R, R] in [0, 1].
        z, z_generator: [B, z_dim], of the two updates.
        mix: [B, 1, 1, 1].
    """

    images: tuple[Tensor, ...]
    z: Tensor
    z_generator: Tensor
    mix: Tensor


class PublicDraws:
    """Batches of public images uint8 [N, 3, R, R], in a fresh order in each epoch, what is left of one aside."""

    def __init__(self, images: Tensor, recipe: GanTraining, *, streams: int, device: torch.device) -> None:
        """streams: batches of a step, each in an order of its own."""
        self._images, self._recipe, self._streams, self._device = images, recipe, streams, device

    def at(self, step: int) -> StepDraw:
        """The draw of a zero-based step, on the device."""
        recipe, count = self._recipe, self._recipe.batch_size
        numbers = generator(recipe.seed, "gan", step)
        z, again = (torch.randn(count, recipe.z_dim, generator=numbers) for _ in range(2))
        mix = torch.rand(count, 1, 1, 1, generator=numbers)
        return StepDraw(
            images=tuple(self._batch(step, stream) for stream in range(self._streams)),
            z=z.to(self._device),
            z_generator=again.to(self._device),
            mix=mix.to(self._device),
        )

    def _batch(self, step: int, stream: int) -> Tensor:
        count = self._recipe.batch_size
        epoch, place = divmod(step, len(self._images) // count)
        rows = _order(len(self._images), self._recipe.seed, stream, epoch)[place * count : (place + 1) * count]
        return self._images[rows].to(self._device).float() / 255


@lru_cache(maxsize=8)
def _order(count: int, seed: int, stream: int, epoch: int) -> Tensor:
    return torch.randperm(count, generator=generator(seed, "gan order", stream, epoch))


@dataclass(frozen=True, kw_only=True)
class Wasserstein:
    """GMI: the critic's difference of means with a gradient penalty.

    Fakes come with gradients for the generator, without for the discriminator.
    """

    critic: nn.Module

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

    discriminator: nn.Module
    soft_labels: SoftLabels
    protocol: Protocol

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


def new_pair(
    config: PlainGanConfig, recipe: GanTraining, judge: Callable[[PlainGanConfig], nn.Module], device: torch.device
) -> GanPair:
    """judge: the discriminator. losses: of every step, its and the generator's, NaN where that rests."""
    seed = derive_seed(recipe.seed, "gan weights")
    return GanPair.fresh(config, recipe, PlainGenerator, judge, seed=seed, device=device)


def update_pair(pair: GanPair, objective: Wasserstein | InversionSpecific, draw: StepDraw) -> dict[str, float | None]:
    """One step. Returns the losses of both networks, None where the generator rests."""
    with torch.no_grad():
        fakes = pair.generator(draw.z)
    judged = objective.for_discriminator(fakes, draw, pair.step)
    descend(pair.discriminator_adam, judged)
    losses: dict[str, float | None] = {"discriminator": judged.item(), "generator": None}
    if (pair.step + 1) % pair.recipe.critic_steps == 0:
        pair.discriminator.requires_grad_(False)
        loss = objective.for_generator(pair.generator(draw.z_generator), draw)
        descend(pair.generator_adam, loss)
        pair.discriminator.requires_grad_(True)
        losses["generator"] = loss.item()
    return losses


def train_pair(
    pair: GanPair, update: Callable[[], Mapping[str, float | None]], *, steps: int, part_context: PartContext
) -> None:
    """Take the steps that are left of a training, which goes on from the state that was kept last.

    update: takes one step, and gives the losses by name, None of what rests. Raises TrainingDiverged with the step when
    one is not finite.
    """
    if (kept := part_context.last_state()) is not None:
        pair.restore(kept)
    with repeatable_kernels():
        while pair.step < steps:
            losses = update()
            for name, loss in losses.items():
                if loss is not None and not math.isfinite(loss):
                    raise TrainingDiverged(f"GAN training diverged at step {pair.step}: loss of the {name}: {loss:.3g}")
            pair.losses.append([math.nan if loss is None else loss for loss in losses.values()])
            pair.step += 1
            part_context.progress(pair.step / steps, f"step {pair.step}/{steps}")
            if pair.step % max(1, steps // CHECKPOINTS) == 0 and pair.step < steps:
                part_context.keep_state(pair.checkpoint())


def make_general_gan(
    settings: Mapping[str, Any], inputs: AttackInputs, view: View, part_context: PartContext
) -> MadePart:
    """The networks "generator" and "discriminator" (a critic); losses [steps, 2] as of `new_pair`."""
    recipe = build(GanTraining, settings, what="gan", prefix="attack.gan.")
    pair = new_pair(_config(recipe, view), recipe, Critic, view.execution.device)
    return _trained(pair, Wasserstein(critic=pair.discriminator), inputs, view, part_context, streams=1)


def make_specific_gan(
    settings: Mapping[str, Any], inputs: AttackInputs, view: GradientView, part_context: PartContext
) -> MadePart:
    """As `make_general_gan`, with a discriminator of the target's classes.

    Protocol `paper` asks the target in training mode, as the official code does, which never puts it into evaluation:
    its norms use the statistics of the public batch. `clean` asks it as everybody else does.
    """
    recipe = build(GanTraining, settings, what="gan", prefix="attack.gan.")
    pair = new_pair(_config(recipe, view, view.num_classes), recipe, MinibatchDiscriminator, view.execution.device)
    protocol = present(inputs.protocol, "protocol")

    def soft_labels(images: Tensor, step: int) -> Tensor:
        if protocol == "paper":
            return view.scores_in_training(2 * images - 1, derive_seed(recipe.seed, "teacher", step))
        return view.scores(2 * images - 1)

    objective = InversionSpecific(discriminator=pair.discriminator, soft_labels=soft_labels, protocol=protocol)
    return _trained(pair, objective, inputs, view, part_context, streams=3)


def _config(recipe: GanTraining, view: View, classes: int = 0) -> PlainGanConfig:
    return PlainGanConfig(resolution=view.image_size, z_dim=recipe.z_dim, width=recipe.width, classes=classes)


def _trained(
    pair: GanPair,
    objective: Wasserstein | InversionSpecific,
    inputs: AttackInputs,
    view: View,
    part_context: PartContext,
    *,
    streams: int,
) -> MadePart:
    images = resize_uint8(present(inputs.public, "public"), view.image_size)
    draws = PublicDraws(images, pair.recipe, streams=streams, device=view.execution.device)
    steps = pair.recipe.steps(len(images))
    with view.execution.arithmetic():
        train_pair(
            pair, lambda: update_pair(pair, objective, draws.at(pair.step)), steps=steps, part_context=part_context
        )
    losses = torch.tensor(pair.losses, dtype=torch.float32)
    networks = {"generator": pair.generator, "discriminator": pair.discriminator}
    return MadePart(
        tensors={"losses": losses},
        networks={name: network.eval().requires_grad_(False) for name, network in networks.items()},
        facts={"discriminator_loss": _final_loss(losses[:, 0]), "generator_loss": _final_loss(losses[:, 1])},
    )


def _final_loss(losses: Tensor) -> float | None:
    """Mean over the last twentieth of the steps that have one; None where none has."""
    taken = losses[losses.isfinite()]
    return taken[-max(1, len(taken) // CHECKPOINTS) :].mean().item() if len(taken) else None
