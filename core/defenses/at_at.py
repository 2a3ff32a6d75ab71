"""Anti-adversarial training, AT-AT (arXiv 2607.12354; ICLR 2026): steps too small to see lead to other classes.

Rule and settings as in BreuerLabs/Anti-Adversarial-Training (`defenses/adversarial_train.py`,
`configuration/classifier/defense/atat.yaml`): every image is moved towards a random wrong class by projected gradient
descent, and the network is trained to answer that class, so that its gradients lead an attack nowhere near a person.

Four departures: images and their moved copies go through the network as one batch (there in two, each with batch
statistics of its own); the running statistics do not see the passes of the descent (there they do, and follow a batch
with 0.52 where plain training has 0.1); the loss is a mean over the batch, not a sum; the network of the last epoch is
kept (there that of the best epoch).
"""

from __future__ import annotations

from collections import abc
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from smoothsweep.core.bounds import Count, Positive
from smoothsweep.core.checks import require
from smoothsweep.core.defenses.base import Defense, Step, StepLoss, hard_labels, over_outputs
from smoothsweep.core.defenses.strengths import Family, numbers
from smoothsweep.core.models.classifiers import LogitsWithAuxiliary
from smoothsweep.core.models.recipe import TrainingRecipe


@dataclass(frozen=True, kw_only=True)
class AtAt(Defense):
    """Add `weight` times the cross entropy of the moved images with the classes they were moved towards.

    Attributes:
        weight: Weight of that cross entropy in the loss.
        eps: Largest change of a pixel's channel, on images in [-1, 1].
        step: Change of a channel in each step of the descent, on the same scale.
        steps: Steps of the descent that moves an image.
    """

    cites: ClassVar[tuple[str, ...]] = ("torp2026reducing",)
    family: ClassVar[Family | None] = Family(
        name="AT-AT",
        word="AT-AT",
        parameter="weight",
        read=numbers("weight", usual=0.08),
        starts_plain=True,
        defaults={"eps": 5e-4, "step": 1e-4, "steps": 5},
    )

    weight: Positive = 0.08
    eps: Positive = 5e-4
    step: Positive = 1e-4
    steps: Count = 5

    def adjust_recipe(self, recipe: TrainingRecipe) -> TrainingRecipe:
        """Raises InputError under bf16, whose grain near 1 is coarser than eps: two of three pixels would not move."""
        require(recipe.precision == "fp32", "defense at_at", "a recipe with precision fp32", recipe.precision)
        return recipe

    def loss(self, step: Step) -> StepLoss:
        """Facts: towards_loss and towards_acc, cross entropy of the moved images with their classes and hits of them.

        The criterion of the unmoved images is smoothed as the recipe says, that of the moved ones never.
        """
        labels, n = hard_labels(step.labels), len(step.images)
        towards = other_classes(labels, step.model.num_classes, step.generator)
        moved = self.move_images(step.model, step.images, towards, step.generator)
        both = torch.cat([step.images, moved]).contiguous(memory_format=torch.channels_last)

        def losses_of(logits: Tensor) -> Tensor:
            pulled = F.cross_entropy(logits[n:], towards, reduction="none")
            return torch.cat([step.criterion(logits[:n], labels), pulled])

        losses, logits = over_outputs(step.forward(both), losses_of)
        pulled = losses[n:].mean()
        hits = (logits[n:].argmax(1) == towards).float().mean()
        facts = {"towards_loss": pulled.detach(), "towards_acc": hits}
        return StepLoss(losses[:n].mean() + self.weight * pulled, logits[:n], facts)

    def move_images(self, model: nn.Module, images: Tensor, towards: Tensor, generator: Generator) -> Tensor:
        """Images [n, 3, S, S] moved towards classes int64 [n] from a uniform start, still in [-1, 1].

        Leaves the parameters' gradients and the network's buffers as they were.
        """
        start = torch.rand(images.shape, generator=generator).to(images)
        moved = (images + self.eps * (2 * start - 1)).clamp(-1, 1)
        with torch.autocast(images.device.type, enabled=False), kept_buffers(model):
            for _ in range(self.steps):
                moved.requires_grad_()
                output = model(moved)
                logits = output.logits if isinstance(output, LogitsWithAuxiliary) else output
                (slope,) = torch.autograd.grad(F.cross_entropy(logits, towards), moved)
                ahead = moved.detach() - self.step * slope.sign()
                moved = torch.clamp(ahead, images - self.eps, images + self.eps).clamp(-1, 1)
        return moved


def other_classes(labels: Tensor, classes: int, generator: Generator) -> Tensor:
    """A class for every label int64 [n], never its own: uniform over all, and the next one where that hits the label.

    So the class behind the label comes twice as often as any other, as in the official code.
    """
    drawn = torch.randint(classes, labels.shape, generator=generator).to(labels.device)
    return torch.where(drawn == labels, (drawn + 1) % classes, drawn)


@contextmanager
def kept_buffers(model: nn.Module) -> abc.Generator[None]:
    """Passes through the network in training mode while this is open leave no trace in its running statistics."""
    before = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in before:
                buffer.copy_(value)
