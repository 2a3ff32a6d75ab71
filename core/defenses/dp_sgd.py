"""Differentially private training, DP-SGD (Abadi et al., CCS 2016), accounted for by Opacus (Yousefpour et al., 2021).

Every image's gradient is clipped to `clip`, the sum gets Gaussian noise of `noise` times `clip`, and is divided by the
expected batch. Batches are drawn as the accountant assumes: every image enters each of them with the same probability.
The guarantee is one for images: a person with k of them has about k times the epsilon, and the person is what an
inversion is about.

BatchNorm mixes the images of a batch, which no clipping undoes, so Opacus refuses it. As there, BatchNorm2d becomes
GroupNorm of gcd(32, channels) groups; here it keeps its weights (there they are new). BatchNorm1d becomes LayerNorm,
for small groups of flat features leave signs alone. The recipe's optimizer takes the private gradient as any other.
Gradients of single images come from `torch.func`, not from Opacus's hooks, which networks that overwrite a layer's
output do not allow; the two agree (tested).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from smoothsweep.core.bounds import Positive
from smoothsweep.core.checks import require
from smoothsweep.core.defenses.base import Defense, Step, StepLoss, criterion_losses, hard_labels
from smoothsweep.core.defenses.strengths import Family, numbers
from smoothsweep.core.models.recipe import TrainingRecipe

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from smoothsweep.core.models.classifiers import Classifier

_LEAST_BATCH = 32  # expected; below it a batch of fewer than two images, which the loop leaves out, is not negligible


@dataclass(frozen=True, kw_only=True)
class DpSgd(Defense):
    """Clip every image's gradient and add Gaussian noise to their sum.

    Attributes:
        noise: Standard deviation of the noise over `clip` (Opacus: noise_multiplier).
        clip: Largest Euclidean norm of an image's gradient.
    """

    cites = ("abadi2016deep", "yousefpour2021opacus")
    family = Family(
        name="DP-SGD",
        word="DP-SGD",
        parameter="noise",
        read=numbers("noise"),
        starts_plain=False,
        why="without noise the clipping remains",
        defaults={"clip": 1.0},
    )
    alone = "the noise is drawn once, for the clipped gradients of the whole batch"

    noise: Positive
    clip: Positive = 1.0

    def adjust_recipe(self, recipe: TrainingRecipe) -> TrainingRecipe:
        """Raises InputError under bf16, and where Opacus, which states the epsilon, is not installed."""
        require(recipe.precision == "fp32", "defense dp_sgd", "a recipe with precision fp32", recipe.precision)
        installed = find_spec("opacus") is not None
        require(installed, "defense dp_sgd", "opacus beside smoothsweep (pip install 'smoothsweep[dp]')", None)
        return recipe

    def check_data(self, counts: Sequence[int], recipe: TrainingRecipe) -> int:
        """Raises InputError for a batch of more images than there are: none is drawn with a probability above 1."""
        self._check_batch(sum(counts), recipe.batch_size)
        return sum(counts)

    def _check_batch(self, images: int, batch_size: int) -> None:
        fits = batch_size <= images
        require(fits, "defense dp_sgd", f"a batch_size of at most the {images} images", batch_size)

    def prepare(self, model: Classifier, *, generator: Generator) -> None:
        """No norm looks at more than one image."""
        from torch import nn

        from smoothsweep.core.defenses.layers import norm_of_one, replace_module

        self.check(model.architecture)
        for name, module in list(model.named_modules()):
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                replace_module(model, name, norm_of_one(module))

    def sampler(self, labels: Tensor, batch_size: int, generator: Generator) -> list[Tensor]:
        """Poisson batches: as many as a permutation has, each image in each with probability batch_size / N."""
        import torch

        n = len(labels)
        self._check_batch(n, batch_size)
        chosen = torch.rand(steps_of_epoch(n, batch_size), n, generator=generator, dtype=torch.float64) < batch_size / n
        return [row.nonzero().squeeze(1) for row in chosen]

    def loss(self, step: Step) -> StepLoss:
        """The criterion; its backward pass leaves the private gradient. Facts: clipped, the share of clipped images."""
        import torch

        from smoothsweep.core.defenses.operations import clipped_sums

        labels = hard_labels(step.labels)
        with torch.no_grad():
            losses, logits = criterion_losses(step, step.forward(step.images))
        named = {name: p for name, p in step.model.named_parameters() if p.requires_grad}
        sums, norms = clipped_sums(step, labels, named, self.clip)
        carrier = losses.new_zeros(())
        for name, parameter in named.items():
            noise = torch.randn(parameter.shape, generator=step.generator).to(parameter)
            private = (sums[name] + self.noise * self.clip * noise) / step.batch_size
            carrier = carrier + (parameter * private).sum()
        loss = losses.mean() + (carrier - carrier.detach())  # of the criterion's value, and the private gradient
        return StepLoss(loss, logits, {"clipped": (norms > self.clip).float().mean()})

    def guarantees(self, recipe: TrainingRecipe, *, images: int, epochs: int) -> Mapping[str, float | None]:
        """dp_epsilon at delta = 1 / images, by Renyi accounting; None where batches are too small to be counted."""
        if recipe.batch_size < _LEAST_BATCH:
            return {"dp_epsilon": None}
        steps = epochs * steps_of_epoch(images, recipe.batch_size)
        return {"dp_epsilon": epsilon(self.noise, recipe.batch_size / images, steps, delta=1 / images)}


def steps_of_epoch(images: int, batch_size: int) -> int:
    """How many batches an epoch has: those of a permutation, the last shorter one counted as a whole."""
    return math.ceil(images / batch_size)


def epsilon(noise: float, rate: float, steps: int, *, delta: float) -> float:
    """What Opacus's RDP accountant states for this many steps at a sampling rate in (0, 1]."""
    from opacus.accountants import RDPAccountant  # takes seconds, and is an extra

    accountant = RDPAccountant()
    accountant.history = [(noise, rate, steps)]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Optimal order is the")  # a looser bound is one all the same
        return accountant.get_epsilon(delta)
