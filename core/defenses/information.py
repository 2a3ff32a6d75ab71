"""Defenses that limit what hidden layers tell of an image: BiDO and MID."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Ge

from smoothsweep.core.bounds import Count, Fraction, NotNegative, Width
from smoothsweep.core.checks import require, require_choice
from smoothsweep.core.defenses.base import (
    Defense,
    Step,
    StepLoss,
    classes_of_batch,
    criterion_losses,
    hard_labels,
    watch,
)
from smoothsweep.core.defenses.strengths import Family, numbers
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.architectures import anatomy_of, check_layers
from smoothsweep.core.models.recipe import TrainingRecipe

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from smoothsweep.core.models.classifiers import Classifier

# BiDO: hidden layers that depend little on the image and much on the label (Peng et al., KDD 2022).
#
# Matches the training of AlanPeng0897/Defend_MI, BiDO/train_HSIC.py, with three differences: what is computed there in
# float32 on the CPU is computed here in float64 on the device, linear systems are solved rather than inverted, and
# `measure: coco` trains COCO (the official option only renames the output folder).


Kernel = Literal["gaussian", "linear", "imq"]
CocoNorm = Literal["frobenius", "spectral"]


@dataclass(frozen=True, kw_only=True)
class Bido(Defense):
    """Criterion + sum over hidden layers of lambda_input * d(Z, X) - lambda_label * d(Z, Y).

    The label term grows with the number of distinct labels in a batch and saturates at one less, so that the two kinds
    of batches are two strengths of one lambda; the number is recorded. Data-parallel ranks measure their own part of a
    batch.

    Attributes:
        lambda_input: Weight of the dependence between hidden layers and image (the paper's lambda_x).
        lambda_label: Weight of that between hidden layers and label (lambda_y).
        measure: Measure of dependence, `hsic` (normalised) or `coco`.
        coco_norm: `frobenius` (as published) or `spectral` (as constrained covariance is defined).
        layers: Names within the backbone, None for those of `core.models.architectures`.
        label_kernel: The kernel on one-hot labels.
        batches: `identities` (of batch_size / images_per_class classes with that many images each, as published for 64
            pixels, where it is 4) or `random`.
        images_per_class: Images of each class in a batch of `identities`, None for 4.
    """

    cites = ("peng2022bilateral",)
    family = Family(
        name="BiDO",
        word="BiDO",
        parameter="lambda",
        read=numbers("lambda_input", "lambda_label"),
        starts_plain=False,
        why="at lambda 0 its batches remain",
        defaults={"measure": "hsic", "label_kernel": "linear", "batches": "identities"},
        words={("measure", "coco"): "COCO"},
    )

    lambda_input: NotNegative
    lambda_label: NotNegative
    measure: Literal["hsic", "coco"] = "hsic"
    coco_norm: CocoNorm | None = None
    layers: tuple[str, ...] | None = None
    label_kernel: Kernel = "linear"
    batches: Literal["identities", "random"] = "identities"
    images_per_class: Annotated[Count, Ge(2)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.coco_norm is not None:
            require(self.measure == "coco", "defense bido: coco_norm", "nothing with measure hsic", self.coco_norm)
        if self.images_per_class is not None:
            with_identities = self.batches == "identities"
            require(with_identities, "defense bido: images_per_class", "nothing if random", self.images_per_class)
        if self.layers is not None:
            distinct = len(self.layers) > 0 and len(set(self.layers)) == len(self.layers)
            require(distinct, "defense bido: layers", "at least one layer, none twice", self.layers)

    @property
    def per_class(self) -> int:
        """How many images of a class a batch of `identities` has; 4 as published if nothing else is asked."""
        return self.images_per_class or 4

    def layers_of(self, architecture: str) -> tuple[str, ...]:
        """The names of the layers that are measured."""
        return check_layers(architecture, self.layers or anatomy_of(architecture).hidden)

    def check(self, architecture: str) -> None:
        """Raises InputError for a layer that the architecture does not have."""
        self.layers_of(architecture)

    def adjust_recipe(self, recipe: TrainingRecipe) -> TrainingRecipe:
        """Return the recipe unchanged. Raises InputError where its batches cannot consist of whole groups."""
        if self.batches == "identities":
            fits = recipe.batch_size % self.per_class == 0 and recipe.batch_size > self.per_class
            expected = f"a batch_size of two or more times images_per_class ({self.per_class})"
            require(fits, "defense bido", expected, recipe.batch_size)
        return recipe

    def check_data(self, counts: Sequence[int], recipe: TrainingRecipe) -> int:
        """Raises InputError for fewer classes than a batch of `identities` has."""
        if self.batches == "identities":
            classes_of_batch(sum(count > 0 for count in counts), recipe.batch_size, self.per_class)
        return sum(counts)

    def sampler(self, labels: Tensor, batch_size: int, generator: Generator) -> list[Tensor]:
        """Whole batches only: both measures depend on the size of a batch."""
        from smoothsweep.core.defenses.operations import identity_batches, shuffled_batches

        if self.batches == "identities":
            return identity_batches(labels, batch_size, self.per_class, generator)
        return shuffled_batches(len(labels), batch_size, generator)

    def loss(self, step: Step) -> StepLoss:
        """Facts: input_dependence and label_dependence (sums over the layers, unweighted), distinct_labels."""
        import torch.nn.functional as F

        from smoothsweep.core.defenses.operations import KERNELS, gaussian_kernel

        labels = hard_labels(step.labels)
        distinct = len(labels.unique())
        if distinct < 2:
            raise InputError(f"defense bido: expected 2 or more classes in a batch, got {distinct}")
        operator, depend = self._measure()
        layers = self.layers_of(step.model.architecture)
        parts = {name: step.model.backbone.get_submodule(name) for name in layers}
        with watch(parts, gaussian_kernel) as seen:
            output = step.forward(step.images)
        losses, logits = criterion_losses(step, output)
        of_image = operator(gaussian_kernel(step.images))
        of_label = operator(KERNELS[self.label_kernel](F.one_hot(labels, step.model.num_classes).double()))
        hidden = [operator(k) for k in seen.values()]
        on_input = sum((depend(z, of_image) for z in hidden), start=of_image.new_zeros(()))
        on_label = sum((depend(z, of_label) for z in hidden), start=of_image.new_zeros(()))
        penalty = self.lambda_input * on_input - self.lambda_label * on_label
        facts = {"input_dependence": on_input.detach(), "label_dependence": on_label.detach()}
        facts["distinct_labels"] = of_image.new_tensor(float(distinct))
        return StepLoss(losses.mean() + penalty.to(losses.dtype), logits, facts)

    def _measure(self) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]]:
        """Kernel -> the statistics that the measure compares, and the measure itself."""
        from smoothsweep.core.defenses.operations import coco, coco_operator, hsic, hsic_operator

        if self.measure == "hsic":
            return hsic_operator, hsic
        norm = self.coco_norm or "frobenius"
        return coco_operator, lambda a, b: coco(a, b, norm)


# MID: a variational information bottleneck before the last layer (Wang et al., AAAI 2021).
#
# The structure and the loss are those of VGG16_vib and train_vib.py in AlanPeng0897/Defend_MI, BiDO/; the place within
# other architectures is that of the paper's Appendix B.5. Those codes draw the noise in every forward pass, at test
# time too: readout `noisy`. A white-box attacker need not accept that, hence two more readouts.


READOUTS = ("noisy", "mean", "expectation")
READOUT_OF_PROTOCOL = {
    "paper": "noisy",  # the official codes draw noise in every pass, tests and attacks included
    "clean": "mean",  # an attacker who holds the weights can leave the noise out
}


@dataclass(frozen=True, kw_only=True)
class Mid(Defense):
    """Features [n, F] -> h = mu + sigma * noise [n, k] -> logits, with `beta` times KL(h | N(0, 1)) in the loss.

    Attributes:
        beta: Weight of the KL divergence, a sum over k and a mean over the batch.
        k: Size of the bottleneck, None for half the features.
        beta_warmup: Fraction of the training in [0, 1] over which beta rises linearly to its value, 0 for none (as
            published).
    """

    cites = ("wang2021improving",)
    family = Family(
        name="MID",
        word="MID",
        read=numbers("beta", named=True),
        starts_plain=False,
        why="at beta 0 the bottleneck and its noise remain",
        defaults={"beta_warmup": 0.0},
    )
    readouts = READOUTS
    usual_readouts = READOUT_OF_PROTOCOL
    noiseless = "mean"

    beta: NotNegative
    k: Width | None = None
    beta_warmup: Fraction = 0.0

    def prepare(self, model: Classifier, *, generator: Generator) -> None:
        """Put the bottleneck between features and head; in the VGG it takes the place of the last BatchNorm1d."""
        from torch import nn

        from smoothsweep.core.defenses.layers import BottleneckHead, replace_module

        self.check(model.architecture)
        norm = anatomy_of(model.architecture).last_norm
        if norm is not None:
            replace_module(model.backbone, norm, nn.Identity())
        k = self.k or model.feature_dim // 2
        model.head = BottleneckHead(model.feature_dim, k, model.num_classes, generator=generator)

    def read(self, model: Classifier, readout: str | None, *, protocol: str, seed: int) -> None:
        """By itself noisy under `paper`, as published, and by the mean under `clean`; see `BottleneckHead.read`.

        Raises InputError for an unknown readout, or a network without a bottleneck.
        """
        from smoothsweep.core.defenses.layers import bottleneck_of

        chosen = readout or self.usual_readouts[protocol]
        require_choice("readout", chosen, READOUTS)
        bottleneck_of(model).read(chosen, seed=seed)

    def seed_noise(self, model: Classifier, seed: int) -> bool:
        """Nothing is drawn where the mean is read."""
        from smoothsweep.core.defenses.layers import bottleneck_of

        head = bottleneck_of(model)
        head.seed_noise(seed)
        return head.readout != "mean"

    def loss(self, step: Step) -> StepLoss:
        """The criterion plus beta times the divergence; facts: kl (per image, unweighted), sigma_mean, beta."""
        from smoothsweep.core.defenses.layers import bottleneck_of, gaussian_kl, sigma_of

        head = bottleneck_of(step.model)
        with watch({"statistics": head.statistics}, lambda output: output) as seen:
            losses, logits = criterion_losses(step, step.forward(step.images))
        mu, raw = seen["statistics"].chunk(2, dim=1)
        divergence = gaussian_kl(mu, raw).mean()
        beta = self.beta_at(step.epoch, step.epochs)
        facts = {"kl": divergence.detach(), "sigma_mean": sigma_of(raw.detach()).mean()}
        facts["beta"] = divergence.new_tensor(beta)
        return StepLoss(losses.mean() + beta * divergence, logits, facts)

    def beta_at(self, epoch: int, epochs: int) -> float:
        """The weight in a zero-based epoch; the rise is complete with the epoch that ends at `beta_warmup`."""
        done = (epoch + 1) / epochs
        return self.beta if done >= self.beta_warmup else self.beta * done / self.beta_warmup
