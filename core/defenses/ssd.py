"""Answers altered at inference, the Stealthy Shield Defense (ICLR 2025; ZhuangQu/Stealthy-Shield-Defense, `code.py`).

The network is trained plainly. Its softmax answer f is moved towards the mean answer to images of a class that is drawn
by softmax(f / temperature), no further than eps times the entropy of f (nats), and as close to that mean in KL as the
budget allows. The network's own answers, and gradients of them, are never shown.

Departures: the drawn class follows from the image (`draws: by_image`), so that an attack's numbers do not depend on
what was asked before; `fresh` draws anew, as published. The images that the mean answers are of are held out from the
training class by class, at least one of each; the paper splits all images at random. Where f has zeros, 0 log 0 is 0
(the official code gives NaN). Entries of a mean answer below 1e-12 are raised to that, and the answer is scaled to
a sum of 1 again, so that no ratio divides by zero (there they stay as they are).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from smoothsweep.core.bounds import OpenFraction, Positive
from smoothsweep.core.defenses.base import Defense
from smoothsweep.core.defenses.own_noise import OwnNoise
from smoothsweep.core.defenses.strengths import Family, numbers
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import Classifier, UnalteredLogits
from smoothsweep.core.models.recipe import TrainingRecipe

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

    cites: ClassVar[tuple[str, ...]] = ("zhuang2025stealthy",)
    family: ClassVar[Family | None] = Family(
        name="SSD",
        word="SSD",
        parameter="eps",
        read=numbers("eps"),
        starts_plain=False,
        why="at eps 0 images are still held out from the training",
        defaults={"temperature": 0.1, "share": 0.1, "draws": "by_image"},
    )
    leaves: ClassVar[Literal["labels", "scores", "gradients"]] = "scores"

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
