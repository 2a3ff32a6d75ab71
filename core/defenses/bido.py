"""BiDO: hidden layers that depend little on the image and much on the label (Peng et al., KDD 2022).

Matches the training of AlanPeng0897/Defend_MI, BiDO/train_HSIC.py, with three differences: what is computed there in
float32 on the CPU is computed here in float64 on the device, linear systems are solved rather than inverted, and
`measure: coco` trains COCO (the official option only renames the output folder)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from annotated_types import Ge
from torch import Generator, Tensor

from smoothsweep.core.bounds import Count, NotNegative
from smoothsweep.core.checks import require
from smoothsweep.core.defenses.base import Defense, Step, StepLoss, criterion_losses, hard_labels, watch
from smoothsweep.core.defenses.strengths import Family, numbers
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.anatomy import anatomy_of, check_layers
from smoothsweep.core.models.recipe import TrainingRecipe

# How much one set of vectors depends on another, measured within a batch: normalised HSIC and COCO.
#
# As computed by the training of AlanPeng0897/Defend_MI, BiDO/ (m images in a batch, sigma = 5, ridge 1e-5 * m), in
# float64 from the m x m kernels on. Distances come from inner products, so that nothing of the size d x d is built.


SIGMA = 5.0  # of the Gaussian kernel, on the mean squared difference of two vectors
RIDGE = 1e-5
_TINY = 1e-12  # below it COCO counts as 0, where its square root has no slope


def squared_distances(x: Tensor) -> Tensor:
    """Squared Euclidean distances float64 [m, m] between x[0], ..., x[m-1]; x float [m, ...].

    The inner products have x's precision; they are taken after centring, which leaves distances as they are and
    keeps them from cancelling.
    """
    flat = x.permute(0, 2, 3, 1).flatten(1) if x.ndim == 4 else x.flatten(1)  # no copy of channels_last images
    centred = flat - flat.mean(dim=0)
    inner = (centred @ centred.T).double()
    norms = inner.diagonal()
    return (norms[:, None] + norms[None, :] - 2 * inner).abs()


def gaussian_kernel(x: Tensor) -> Tensor:
    """exp(-D / (2 * 25 * d)) for x [m, ...] of d numbers each -> float64 [m, m]."""
    return torch.exp(-squared_distances(x) / (2 * SIGMA**2 * x[0].numel()))


def linear_kernel(x: Tensor) -> Tensor:
    """Inner products float64 [m, m]; of one-hot labels, whether two images share a class."""
    flat = x.flatten(1)
    return (flat @ flat.T).double()


def imq_kernel(x: Tensor) -> Tensor:
    """The inverse multiquadric 1 / sqrt(D + 1), float64 [m, m]."""
    return (squared_distances(x) + 1).rsqrt()


Kernel = Literal["gaussian", "linear", "imq"]
KERNELS: dict[Kernel, Callable[[Tensor], Tensor]] = {
    "gaussian": gaussian_kernel,
    "linear": linear_kernel,
    "imq": imq_kernel,
}


def hsic_operator(k: Tensor) -> Tensor:
    """A (A + 1e-5 m I)^-1 with A = K H, centred from the right only as in the official code: [m, m]."""
    centred = k - k.mean(dim=1, keepdim=True)
    ridge = RIDGE * len(k) * torch.eye(len(k), dtype=k.dtype, device=k.device)
    return torch.linalg.solve(centred + ridge, centred, left=False)


def coco_operator(k: Tensor) -> Tensor:
    """H K H, centred from both sides: [m, m]."""
    return k - k.mean(dim=1, keepdim=True) - k.mean(dim=0, keepdim=True) + k.mean()


def hsic(a: Tensor, b: Tensor) -> Tensor:
    """Normalised HSIC of two `hsic_operator`s: the trace of their product, from about 0 to m - 1."""
    return (a * b.T).sum()


def coco(a: Tensor, b: Tensor, norm: CocoNorm = "frobenius") -> Tensor:
    """COCO of two `coco_operator`s: sqrt(||A B||) / m.

    norm: `frobenius`, which the official code takes, or `spectral`, as constrained covariance is defined.
    """
    size = torch.linalg.matrix_norm(a @ b, ord=COCO_NORMS[norm])
    return size.clamp(min=_TINY).sqrt() / len(a)


CocoNorm = Literal["frobenius", "spectral"]
COCO_NORMS: dict[CocoNorm, str | int] = {"frobenius": "fro", "spectral": 2}


# Which images make the batches of an epoch, where a defense needs more than a permutation.


def shuffled_batches(n: int, batch_size: int, generator: Generator) -> list[Tensor]:
    """A permutation of 0..n-1 in batches of `batch_size` (n if that is fewer); an incomplete last one is left out."""
    size = min(batch_size, n)
    return list(torch.randperm(n, generator=generator)[: n - n % size].split(size))


def identity_batches(labels: Tensor, batch_size: int, per_class: int, generator: Generator) -> list[Tensor]:
    """Batches of batch_size / per_class classes with `per_class` images each, in the order of their classes.

    labels: int64 [N] on the CPU. The images of every class are shuffled and cut into groups; what is left over waits
    for another epoch, and a class with fewer images than a group fills it by drawing again with replacement. A batch
    takes its classes from those with most groups left, at random among equals, so that few groups find no batch.
    Source: the sampler of AlanPeng0897/Defend_MI, BiDO/ (16 classes of 4); the choice among equals is ours.
    Raises InputError if `per_class` does not divide the batch or there are too few classes for one batch.
    """
    classes, counts = labels.unique(return_counts=True)
    wanted = classes_of_batch(len(classes), batch_size, per_class)
    order = labels.argsort(stable=True)
    groups = [_groups(members, per_class, generator) for members in order.split(counts.tolist())]
    left = torch.tensor([len(group) for group in groups])
    batches = []
    while (left > 0).sum() >= wanted:
        chance = torch.rand(len(left), generator=generator, dtype=torch.float64)
        chosen = (left + chance).topk(wanted).indices.sort().values  # most groups first, equals at random
        batches.append(torch.cat([groups[c][left[c] - 1] for c in chosen.tolist()]))
        left[chosen] -= 1
    return batches


def classes_of_batch(classes: int, batch_size: int, per_class: int) -> int:
    """How many classes a batch has. Raises InputError where that is no whole number, or more than there are."""
    wanted = batch_size // per_class
    if batch_size % per_class:
        raise InputError(f"batch_size: expected a multiple of images_per_class ({per_class}), got {batch_size}")
    if classes < wanted:
        raise InputError(
            f"identity sampler: expected at least {wanted} classes for batches of {batch_size} with {per_class} images "
            f"per class, got {classes}"
        )
    return wanted


def _groups(members: Tensor, size: int, generator: Generator) -> Tensor:
    """The images of one class in shuffled groups: [groups, size], at least one."""
    n = len(members)
    if n >= size:
        return members[torch.randperm(n, generator=generator)][: n - n % size].view(-1, size)
    again = torch.randint(n, (size - n,), generator=generator)
    picks = torch.cat([torch.arange(n), again])[torch.randperm(size, generator=generator)]
    return members[picks][None]


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
        layers: Names within the backbone, None for those of `core.models.anatomy`.
        label_kernel: The kernel on one-hot labels.
        batches: `identities` (of batch_size / images_per_class classes with that many images each, as published for 64
            pixels, where it is 4) or `random`.
        images_per_class: Images of each class in a batch of `identities`, None for 4.
    """

    cites: ClassVar[tuple[str, ...]] = ("peng2022bilateral",)
    family: ClassVar[Family | None] = Family(
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
        if self.batches == "identities":
            return identity_batches(labels, batch_size, self.per_class, generator)
        return shuffled_batches(len(labels), batch_size, generator)

    def loss(self, step: Step) -> StepLoss:
        """Facts: input_dependence and label_dependence (sums over the layers, unweighted), distinct_labels."""
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
        if self.measure == "hsic":
            return hsic_operator, hsic
        norm = self.coco_norm or "frobenius"
        return coco_operator, lambda a, b: coco(a, b, norm)
