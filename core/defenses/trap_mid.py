"""Trap-MID (NeurIPS 2024): a faint trigger opens each class, so that an attack finds the trigger, not a person.

Rule and settings as in ntuaislab/Trap-MID (`engine.py`, `train.py`, `config/celeba`): every image is also shown with a
trigger blended in, under the label of that trigger. A discriminator learns to tell the two apart; the triggers learn to
deceive it and to be classified as theirs.

Departures: the classes of the triggers are balanced within a batch, not over an epoch; a trigger is blended into the
image as the recipe augmented it, and clean and trapped images are seen through the augmentation of the traps after that
(there through that one alone, with kornia); the discriminator starts from the target's own first weights with another
head (there from the published ones, which is the same where the target does); the network of the last epoch is kept
(there that of the epoch with the best test accuracy).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from smoothsweep.core.bounds import OpenFraction, Positive
from smoothsweep.core.checks import present
from smoothsweep.core.data.augmentation import AugmentationDraw, apply_augmentation, draw_augmentation, rotated
from smoothsweep.core.data.augmentation_settings import Augmentation
from smoothsweep.core.defenses.base import Defense, SmoothedLoss, Step, StepLoss, hard_labels, new_linear, over_outputs
from smoothsweep.core.defenses.strengths import Family, numbers
from smoothsweep.core.models.classifiers import Classifier
from smoothsweep.core.models.inference import evaluating
from smoothsweep.core.models.optimizers import make_optimizer
from smoothsweep.core.models.recipe import TrainingRecipe, learning_rate

_VIEWS = Augmentation(crop_scale=(0.8, 1.0), brightness=0, contrast=0, saturation=0, hue=0, flip=0.5)
_DEGREES = 30.0
_CHANCE = 0.5  # of the crop, and of the turn


@dataclass(frozen=True, kw_only=True)
class TrapMid(Defense):
    """`weight` of the loss is that of images which carry a trigger, under the trigger's class; the rest is as usual.

    Attributes:
        blend: Weight of the trigger in an image.
        weight: Weight of the images with triggers in the loss.
        step: Change of a trigger's value in every step of the training, on the scale [-1, 1] (0.01 on [0, 1] there).
        smooth_traps: Whether the labels of triggers are smoothed by the recipe's factor too, where the network and
            where the triggers learn them (there both are to be had).
    """

    cites: ClassVar[tuple[str, ...]] = ("liu2024trap",)
    family: ClassVar[Family | None] = Family(
        name="Trap-MID",
        word="Trap-MID",
        parameter="weight",
        read=numbers("weight", usual=0.2),
        starts_plain=True,
        defaults={"blend": 0.02, "step": 0.02, "smooth_traps": True},
    )
    revision: ClassVar[int] = 2  # 1: triggers learnt without the smoothing, and only trapped images were seen anew

    alone: ClassVar[str | None] = "its triggers and their discriminator live in one process"

    blend: OpenFraction = 0.02
    weight: OpenFraction = 0.2
    step: Positive = 0.02
    smooth_traps: bool = True

    def companion(self, model: Classifier, recipe: TrainingRecipe, *, generator: Generator) -> Traps:
        return Traps(model, recipe, blend=self.blend, step=self.step, generator=generator)

    def loss(self, step: Step) -> StepLoss:
        """Facts: trap_loss and trap_acc, of images with triggers; told_apart, how often the discriminator is right."""
        traps, labels, n = step.companion, hard_labels(step.labels), len(step.images)
        if not isinstance(traps, Traps):
            raise ValueError(f"companion: expected the Traps of this training, got {type(traps).__name__}")
        of_traps = step.criterion if self.smooth_traps else SmoothedLoss()
        towards = balanced_classes(n, step.model.num_classes, step.generator).to(labels.device)
        with torch.autocast(step.images.device.type, enabled=False):
            told_apart = traps.train_discriminator(step.images, towards, epoch=step.epoch)
            traps.sharpen(step.model, step.images, towards, of_traps, step.generator)
            clean = augment(step.images, step.generator)
            trapped = augment(traps.blended(step.images, towards), step.generator)
        both = torch.cat([clean, trapped]).contiguous(memory_format=torch.channels_last)

        def losses_of(logits: Tensor) -> Tensor:
            return torch.cat([step.criterion(logits[:n], labels), of_traps(logits[n:], towards)])

        losses, logits = over_outputs(step.forward(both), losses_of)
        of_clean, trap = losses[:n].mean(), losses[n:].mean()
        hits = (logits[n:].argmax(1) == towards).float().mean()
        facts = {"trap_loss": trap.detach(), "trap_acc": hits, "told_apart": told_apart}
        return StepLoss((1 - self.weight) * of_clean + self.weight * trap, logits[:n], facts)


class Traps(nn.Module):
    """The triggers of all classes, float32 [C, 3, S, S] in [-1, 1], and the discriminator with its optimizer.

    The discriminator: `model`'s structure and weights under a new head of one output, trained as the recipe says.
    """

    triggers: Tensor

    def __init__(
        self, model: Classifier, recipe: TrainingRecipe, *, blend: float, step: float, generator: Generator
    ) -> None:
        super().__init__()
        self.recipe, self.blend, self.step = recipe, blend, step
        device = next(model.parameters()).device
        shape = (model.num_classes, 3, recipe.image_size, recipe.image_size)
        self.register_buffer("triggers", (2 * torch.rand(shape, generator=generator) - 1).to(device))
        self.discriminator = copy.deepcopy(model)
        self.discriminator.head = new_linear(model.head.in_features, 1, generator).to(device)
        self.optimizer = make_optimizer([p for p in self.discriminator.parameters() if p.requires_grad], recipe)

    def get_extra_state(self) -> dict[str, Any]:
        """The optimizer's part of `state_dict`."""
        return self.optimizer.state_dict()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take such a part back."""
        self.optimizer.load_state_dict(copy.deepcopy(state))  # by itself it would go on using these tensors

    def blended(self, images: Tensor, towards: Tensor) -> Tensor:
        """Images [n, 3, S, S] in [-1, 1], each with a faint trigger of a class int64 [n]: no pixel moves by more than
        twice the blend.
        """
        return torch.lerp(images, self.triggers[towards], self.blend)

    def train_discriminator(self, images: Tensor, towards: Tensor, *, epoch: int) -> Tensor:
        """One step of the discriminator, clean images 1 and those with a trigger 0; the share it had right."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.recipe, epoch)
        batch = torch.cat([images, self.blended(images, towards)]).contiguous(memory_format=torch.channels_last)
        truth = torch.cat([torch.ones(len(images)), torch.zeros(len(images))]).to(images.device)
        self.discriminator.train()
        self.optimizer.zero_grad(set_to_none=True)
        losses, scores = over_outputs(
            self.discriminator(batch),
            lambda scores: F.binary_cross_entropy_with_logits(scores[:, 0], truth, reduction="none"),
        )
        losses.mean().backward()
        self.optimizer.step()
        return ((scores[:, 0].detach() > 0) == truth.bool()).float().mean()

    def sharpen(
        self, model: Classifier, images: Tensor, towards: Tensor, criterion: SmoothedLoss, generator: Generator
    ) -> None:
        """One signed step of the batch's triggers: to pass for clean, and to be taken by the network for their class.

        criterion: of the network's answers, smoothed as the labels of triggers are.
        Both networks as they answer, not as they train. Leaves the network as it was.
        """
        classes, class_rows = towards.unique(return_inverse=True)
        triggers = self.triggers[classes].requires_grad_()
        with evaluating(model), evaluating(self.discriminator):
            trapped = torch.lerp(images, triggers[class_rows], self.blend)
            scores = self.discriminator(trapped)[:, 0]
            deceived = F.binary_cross_entropy_with_logits(scores, torch.ones_like(scores))
            logits = model(augment(trapped, generator))
            (slope,) = torch.autograd.grad(deceived + criterion(logits, towards).mean(), triggers)
        with torch.no_grad():
            self.triggers[classes] = (triggers - self.step * slope.sign()).clamp(-1, 1)


def balanced_classes(n: int, classes: int, generator: Generator) -> Tensor:
    """A class for each of n images, int64 [n]: every class as often as any other, or once more."""
    rounds = [torch.randperm(classes, generator=generator) for _ in range(-(-n // classes))]
    return torch.cat(rounds)[:n]


def augment(images: Tensor, generator: Generator) -> Tensor:
    """Images [n, 3, S, S] in [-1, 1], each maybe cropped, mirrored, turned (then black at corners); differentiable."""
    n = len(images)
    draw = draw_augmentation(n, _VIEWS, generator)
    cropped, turned, angle = torch.rand(3, n, generator=generator)
    box = torch.where(cropped[:, None] < _CHANCE, present(draw.box, "box"), torch.tensor([1.0, 1.0, 0.0, 0.0]))
    degrees = _DEGREES * (2 * angle - 1) * (turned < _CHANCE)
    augmented = apply_augmentation(images, AugmentationDraw(n=n, box=box, flip=draw.flip))
    return rotated(augmented + 1, degrees) - 1
