"""Defenses that lead an attack elsewhere: AT-AT, Trap-MID, and the Stealthy Shield Defense's altered answers."""

from __future__ import annotations

import copy
import hashlib
from collections import abc
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from smoothsweep.core.bounds import Count, OpenFraction, Positive
from smoothsweep.core.checks import present, require
from smoothsweep.core.data.augmentation import AugmentationDraw, apply_augmentation, draw_augmentation, rotated
from smoothsweep.core.data.augmentation_settings import Augmentation
from smoothsweep.core.defenses.base import (
    Defense,
    OwnNoise,
    SmoothedLoss,
    Step,
    StepLoss,
    hard_labels,
    new_linear,
    over_outputs,
)
from smoothsweep.core.defenses.strengths import Family, numbers
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import Classifier, LogitsWithAuxiliary, UnalteredLogits
from smoothsweep.core.models.inference import evaluating
from smoothsweep.core.models.recipe import TrainingRecipe, learning_rate, make_optimizer

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


_LEAST = 1e-12  # of a mean answer's entries, so that no ratio divides by zero
_UNLIKELY = 1e-37  # of an answer's entries, so that its logarithm is finite in float32


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
        self.check(model.architecture)
        model.answer = ShieldedAnswers(model.num_classes, self)

    def hold_out(self, labels: Tensor, generator: Generator) -> Tensor:
        """Every class's share of rows, at least one. Raises InputError, naming the class, where none would be left."""
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
        self.check_held_out(labels, model.num_classes)
        answers = logits.double().softmax(1)
        rows = [answers[labels == label].mean(0) for label in range(model.num_classes)]
        answer = _shield_of(model)
        answer.profiles.copy_(torch.stack(rows))
        answer.fitted.fill_(1)

    def seed_noise(self, model: Classifier, seed: int) -> bool:
        """Only fresh draws are noise."""
        _shield_of(model).seed_noise(seed)
        return self.draws == "fresh"


def _shield_of(model: Classifier) -> ShieldedAnswers:
    if not isinstance(model.answer, ShieldedAnswers):
        raise ValueError(f"answer: expected that of defense ssd, got {type(model.answer).__name__}")
    return model.answer


class ShieldedAnswers(OwnNoise, UnalteredLogits):
    """Logits [n, C] and the images they belong to -> log of the altered answers float32 [n, C], without gradients.

    profiles: float32 [C, C], the mean answers, one row for each true class. In training mode, and before these are
    fitted, logits stay as they are. Evaluation mode starts fresh draws anew.
    """

    leaves = Ssd.leaves
    profiles: Tensor
    fitted: Tensor

    def __init__(self, classes: int, settings: Ssd) -> None:
        super().__init__()
        self.settings = settings
        self.register_buffer("profiles", torch.zeros(classes, classes))
        self.register_buffer("fitted", torch.zeros((), dtype=torch.uint8))
        self.seed_noise(0)

    def forward(self, logits: Tensor, images: Tensor) -> Tensor:
        """The answers that are shown in the network's place."""
        if self.training or not self.fitted:
            return logits
        with torch.no_grad(), torch.autocast(logits.device.type, enabled=False):
            answers = logits.double().softmax(1)
            likely = torch.softmax(answers / self.settings.temperature, 1).cumsum(1)
            drawn = torch.searchsorted(likely, self._uniform(images).to(likely.device)[:, None], right=True).squeeze(1)
            towards = self.profiles[drawn.clamp(max=logits.shape[1] - 1)].double()
            budget = self.settings.eps * entropy(answers)
            return move_towards(answers, towards, budget).clamp(min=_UNLIKELY).log().float()

    def _uniform(self, images: Tensor) -> Tensor:
        """A number in [0, 1) for every image, float64 [n] on the CPU."""
        if self.settings.draws == "fresh":
            return torch.rand(len(images), generator=self.noise, dtype=torch.float64)
        pictures = images.detach().float().add(1).mul(127.5).round().clamp(0, 255).to(torch.uint8).cpu().contiguous()
        digests = [hashlib.blake2b(picture.numpy().tobytes(), digest_size=8).digest() for picture in pictures]
        return torch.tensor([(int.from_bytes(digest) >> 11) * 2.0**-53 for digest in digests], dtype=torch.float64)


def entropy(answers: Tensor) -> Tensor:
    """Entropy in nats, [n, C] -> [n]; zeros count as nothing."""
    return -torch.xlogy(answers, answers).sum(1)


def move_towards(answers: Tensor, towards: Tensor, budget: Tensor) -> Tensor:
    """The p nearest to `towards` q in KL(p || q) whose L1 distance to the answer f is at most the budget [n].

    answers, towards: probabilities float64 [n, C]. p is q within reach, else f clipped to [low q, high q], where low
    and high move half of the budget each.
    """
    towards = towards.clamp(min=_LEAST)
    towards = towards / towards.sum(1, keepdim=True)
    half = (budget / 2)[:, None]
    ratios, order = (answers / towards).sort(dim=1)
    f, q = answers.gather(1, order), towards.gather(1, order)
    low = _level(f, q, ratios, half, up=True)
    high = _level(f.flip(1), q.flip(1), ratios.flip(1), half, up=False)
    clipped = torch.minimum(torch.maximum(answers, low * towards), high * towards)
    within = (answers - towards).abs().sum(1, keepdim=True) <= 2 * half
    return torch.where(within, towards, clipped)


def _level(f: Tensor, q: Tensor, ratios: Tensor, mass: Tensor, *, up: bool) -> Tensor:
    """The multiple of q [n, 1] to which entries must be filled up, or cut down, so that `mass` is moved.

    Args:
        f, q, ratios: [n, C], in the order in which entries are reached.
    """
    sign = 1.0 if up else -1.0
    sums_f, sums_q = f.cumsum(1), q.cumsum(1)
    moved = sign * (ratios * sums_q - sums_f)  # when the level stands at the entry's own ratio
    reached = (moved < mass).sum(1, keepdim=True).clamp(min=1) - 1
    return (sums_f.gather(1, reached) + sign * mass) / sums_q.gather(1, reached)
