"""Defenses that lead an attack elsewhere: AT-AT, Trap-MID, and the Stealthy Shield Defense's altered answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from smoothsweep.core.bounds import Count, OpenFraction, Positive
from smoothsweep.core.checks import require
from smoothsweep.core.defenses.base import Defense, SmoothedLoss, Step, StepLoss, hard_labels, over_outputs
from smoothsweep.core.defenses.strengths import Family, numbers
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.recipe import TrainingRecipe

if TYPE_CHECKING:
    from torch import Generator, Tensor, nn

    from smoothsweep.core.defenses.layers import Traps
    from smoothsweep.core.models.classifiers import Classifier

# Anti-adversarial training, AT-AT (arXiv 2607.12354; ICLR 2026): steps too small to see lead to other classes.
#
# Rule and settings as in BreuerLabs/Anti-Adversarial-Training (`defenses/adversarial_train.py`,
# `configuration/classifier/defense/atat.yaml`): every image is moved towards a random wrong class by projected gradient
# descent, and the network is trained to answer that class, so that its gradients lead an attack nowhere near a person.
#
# Four departures: images and their moved copies go through the network as one batch (there in two, each with batch
# statistics of its own); the running statistics do not see the passes of the descent (there they do, and follow a batch
# with 0.52 where plain training has 0.1); the loss is a mean over the batch, not a sum; the network of the last epoch
# is kept (there that of the best epoch).


@dataclass(frozen=True, kw_only=True)
class AtAt(Defense):
    """Add `weight` times the cross entropy of the moved images with the classes they were moved towards.

    Attributes:
        weight: Weight of that cross entropy in the loss.
        eps: Largest change of a pixel's channel, on images in [-1, 1].
        step: Change of a channel in each step of the descent, on the same scale.
        steps: Steps of the descent that moves an image.
    """

    cites = ("torp2026reducing",)
    family = Family(
        name="AT-AT",
        word="AT-AT",
        parameter="weight",
        read=numbers("weight", usual=0.08),
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
        import torch
        import torch.nn.functional as F

        from smoothsweep.core.defenses.operations import other_classes

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
        import torch
        import torch.nn.functional as F

        from smoothsweep.core.defenses.layers import kept_buffers
        from smoothsweep.core.models.classifiers import LogitsWithAuxiliary

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


# Trap-MID (NeurIPS 2024): a faint trigger opens each class, so that an attack finds the trigger, not a person.
#
# Rule and settings as in ntuaislab/Trap-MID (`engine.py`, `train.py`, `config/celeba`): every image is also shown with
# a trigger blended in, under the label of that trigger. A discriminator learns to tell the two apart; the triggers
# learn to deceive it and to be classified as theirs.
#
# Departures: the classes of the triggers are balanced within a batch, not over an epoch; a trigger is blended into the
# image as the recipe augmented it, and clean and trapped images are seen through the augmentation of the traps after
# that (there through that one alone, with kornia); the discriminator starts from the target's own first weights with
# another head (there from the published ones, which is the same where the target does); the network of the last epoch
# is kept (there that of the epoch with the best test accuracy).


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

    cites = ("liu2024trap",)
    family = Family(
        name="Trap-MID",
        word="Trap-MID",
        parameter="weight",
        read=numbers("weight", usual=0.2),
        defaults={"blend": 0.02, "step": 0.02, "smooth_traps": True},
    )
    revision = 2  # 1: triggers learnt without the smoothing, and only trapped images were seen anew

    alone = "its triggers and their discriminator live in one process"

    blend: OpenFraction = 0.02
    weight: OpenFraction = 0.2
    step: Positive = 0.02
    smooth_traps: bool = True

    def companion(self, model: Classifier, recipe: TrainingRecipe, *, generator: Generator) -> Traps:
        from smoothsweep.core.defenses.layers import Traps

        return Traps(model, recipe, blend=self.blend, step=self.step, generator=generator)

    def loss(self, step: Step) -> StepLoss:
        """Facts: trap_loss and trap_acc, of images with triggers; told_apart, how often the discriminator is right."""
        import torch

        from smoothsweep.core.defenses.layers import Traps, augment
        from smoothsweep.core.defenses.operations import balanced_classes

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


# Answers altered at inference, the Stealthy Shield Defense (ICLR 2025; ZhuangQu/Stealthy-Shield-Defense, `code.py`).
#
# The network is trained plainly. Its softmax answer f is moved towards the mean answer to images of a class that is
# drawn by softmax(f / temperature), no further than eps times the entropy of f (nats), and as close to that mean in KL
# as the budget allows. The network's own answers, and gradients of them, are never shown.
#
# Departures: the drawn class follows from the image (`draws: by_image`), so that an attack's numbers do not depend on
# what was asked before; `fresh` draws anew, as published. The images that the mean answers are of are held out from the
# training class by class, at least one of each; the paper splits all images at random. Where f has zeros, 0 log 0 is 0
# (the official code gives NaN). Entries of a mean answer below 1e-12 are raised to that, and the answer is scaled to a
# sum of 1 again, so that no ratio divides by zero (there they stay as they are).


@dataclass(frozen=True, kw_only=True)
class Ssd(Defense):
    """Move every answer towards the mean answer to a drawn class, within a budget.

    Attributes:
        eps: Budget of an answer: the largest L1 distance to the network's own, per nat of its entropy.
        temperature: Divides the answer's probabilities before the softmax that the class is drawn by.
        share: Fraction of every class's training images held out for the mean answers.
        draws: The class follows from the image (`by_image`), or is drawn anew for every query (`fresh`, as published).
    """

    cites = ("zhuang2025stealthy",)
    family = Family(
        name="SSD",
        word="SSD",
        parameter="eps",
        read=numbers("eps"),
        starts_plain=False,
        why="at eps 0 images are still held out from the training",
        defaults={"temperature": 0.1, "share": 0.1, "draws": "by_image"},
    )
    leaves = "scores"

    eps: Positive
    temperature: Positive = 0.1
    share: OpenFraction = 0.1
    draws: Literal["by_image", "fresh"] = "by_image"

    def check_data(self, counts: Sequence[int], recipe: TrainingRecipe) -> int:
        """Raises InputError, naming the class, where none of its images would be left to train on."""
        return sum(count - self._kept_of(label, count) for label, count in enumerate(counts))

    def _kept_of(self, label: int, images: int) -> int:
        """How many of a class's images are held out. Raises InputError where none would be left."""
        count = max(1, round(self.share * images))
        if count >= images:
            raise InputError(
                f"defense ssd: share: expected to leave an image of class {label} to train on, got {images}"
            )
        return count

    def prepare(self, model: Classifier, *, generator: Generator) -> None:
        """The mean answers lie with the weights, under `answer`; until they are fitted answers stay as computed."""
        from smoothsweep.core.defenses.layers import ShieldedAnswers

        self.check(model.architecture)
        model.answer = ShieldedAnswers(model.num_classes, self)

    def hold_out(self, labels: Tensor, generator: Generator) -> Tensor:
        """Every class's share of rows, at least one. Raises InputError, naming the class, where none would be left."""
        import torch

        kept = []
        for label in labels.unique().tolist():
            rows = (labels == label).nonzero().squeeze(1)
            count = self._kept_of(label, len(rows))
            kept.append(rows[torch.randperm(len(rows), generator=generator)[:count]])
        return torch.cat(kept).sort().values

    def check_held_out(self, labels: Tensor, classes: int) -> None:
        """Raises InputError for a class whose images are all stamped."""
        if missing := sorted(set(range(classes)) - set(labels.unique().tolist())):
            raise InputError(
                f"defense ssd: expected a clean image of every class held out, got none of class {missing[0]}"
            )

    def fit(self, model: Classifier, logits: Tensor, labels: Tensor) -> None:
        """The mean answer to the images of every class. Raises InputError for a class without an image."""
        import torch

        from smoothsweep.core.defenses.layers import shield_of

        self.check_held_out(labels, model.num_classes)
        answers = logits.double().softmax(1)
        rows = [answers[labels == label].mean(0) for label in range(model.num_classes)]
        answer = shield_of(model)
        answer.profiles.copy_(torch.stack(rows))
        answer.fitted.fill_(1)

    def seed_noise(self, model: Classifier, seed: int) -> bool:
        """Only fresh draws are noise."""
        from smoothsweep.core.defenses.layers import shield_of

        shield_of(model).seed_noise(seed)
        return self.draws == "fresh"
