"""Defenses that limit what hidden layers tell of an image: BiDO and MID."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from annotated_types import Ge
from torch import Generator, Tensor, nn

from smoothsweep.core.bounds import Count, Fraction, NotNegative, Width
from smoothsweep.core.checks import require, require_choice
from smoothsweep.core.defenses.base import (
    Defense,
    OwnNoise,
    Step,
    StepLoss,
    criterion_losses,
    hard_labels,
    init_linear,
    new_linear,
    replace_module,
    watch,
)
from smoothsweep.core.defenses.strengths import Family, numbers
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.architectures import anatomy_of, check_layers
from smoothsweep.core.models.classifiers import Classifier
from smoothsweep.core.models.recipe import TrainingRecipe

# BiDO: hidden layers that depend little on the image and much on the label (Peng et al., KDD 2022).
#
# Matches the training of AlanPeng0897/Defend_MI, BiDO/train_HSIC.py, with three differences: what is computed there in
# float32 on the CPU is computed here in float64 on the device, linear systems are solved rather than inverted, and
# `measure: coco` trains COCO (the official option only renames the output folder).
#
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
_SHIFT = 5.0  # sigma = softplus(raw - 5): small at initialisation
_UNDERFLOW = -15.0  # below it log(softplus(x)) is x to float32 precision, and far below it softplus(x) is 0


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
        chosen = readout or self.usual_readouts[protocol]
        require_choice("readout", chosen, READOUTS)
        bottleneck_of(model).read(chosen, seed=seed)

    def seed_noise(self, model: Classifier, seed: int) -> bool:
        """Nothing is drawn where the mean is read."""
        head = bottleneck_of(model)
        head.seed_noise(seed)
        return head.readout != "mean"

    def loss(self, step: Step) -> StepLoss:
        """The criterion plus beta times the divergence; facts: kl (per image, unweighted), sigma_mean, beta."""
        head = bottleneck_of(step.model)
        with watch({"statistics": head.statistics}, lambda output: output) as seen:
            losses, logits = criterion_losses(step, step.forward(step.images))
        mu, raw = seen["statistics"].chunk(2, dim=1)
        divergence = gaussian_kl(mu, raw).mean()
        beta = self.beta_at(step.epoch, step.epochs)
        facts = {"kl": divergence.detach(), "sigma_mean": _sigma(raw.detach()).mean()}
        facts["beta"] = divergence.new_tensor(beta)
        return StepLoss(losses.mean() + beta * divergence, logits, facts)

    def beta_at(self, epoch: int, epochs: int) -> float:
        """The weight in a zero-based epoch; the rise is complete with the epoch that ends at `beta_warmup`."""
        done = (epoch + 1) / epochs
        return self.beta if done >= self.beta_warmup else self.beta * done / self.beta_warmup


class BottleneckHead(OwnNoise, nn.Linear):
    """Features [n, F] -> logits [n, C] through k noisy numbers; `weight` and `bias` are those of the last layer.

    In training mode the noise comes from torch's generator of the features' device, as dropout's does. Otherwise
    `readout` decides, and noise comes from the head's own generator. `eval()` starts that one anew, so that an
    evaluation between two epochs gives the same numbers in a training that was interrupted.
    """

    def __init__(self, features: int, k: int, classes: int, *, generator: Generator) -> None:
        with torch.random.fork_rng(devices=[]):  # Linear draws its own weights, which are replaced
            super().__init__(k, classes)
        init_linear(self, generator)
        self.in_features = features  # what it takes, as every head says
        self.k = k
        self.statistics = new_linear(features, 2 * k, generator)
        self.read("noisy")

    def read(self, readout: str, *, draws: int = 16, seed: int = 0) -> None:
        """Choose how the network is read outside training, and seed its noise.

        readout: `noisy` (as published: a fresh draw for every image in every call), `mean` (h = mu, deterministic), or
        `expectation` (the mean logits of `draws` noisy passes; more draws come closer to `mean`). Noise is drawn in the
        order of the calls: seed anew, with `seed_noise`, wherever results must not depend on what was computed before.
        """
        self.readout, self.draws = readout, draws
        self.seed_noise(seed)

    def forward(self, input: Tensor) -> Tensor:
        """[n, F] -> logits [n, C]."""
        mu, raw = self.statistics(input).chunk(2, dim=1)
        if self.training:
            return super().forward(mu + _sigma(raw) * torch.randn_like(mu))
        if self.readout == "mean":
            return super().forward(mu)
        # On the CPU, so that the numbers do not depend on the device.
        noise = torch.randn(mu.shape, generator=self.noise).to(device=mu.device, dtype=mu.dtype)
        if self.readout == "expectation":
            noise = noise / self.draws**0.5  # the last layer is linear: exactly the law of a mean of `draws` passes
        return super().forward(mu + _sigma(raw) * noise)


def gaussian_kl(mu: Tensor, raw: Tensor) -> Tensor:
    """KL of N(mu, sigma^2) to N(0, 1) with sigma = softplus(raw - 5), summed over k: [n, k] twice -> [n].

    Finite however small sigma is: its logarithm is not taken of a number that can underflow to 0.
    """
    sigma = _sigma(raw)
    return -0.5 * (1 + 2 * _log_sigma(raw) - mu.square() - sigma.square()).sum(dim=1)


def _sigma(raw: Tensor) -> Tensor:
    return F.softplus(raw - _SHIFT)


def _log_sigma(raw: Tensor) -> Tensor:
    """log(softplus(x)), where it would underflow by its expansion x - exp(x) / 2 (to 1e-14 below -15)."""
    x = raw - _SHIFT
    small = x < _UNDERFLOW
    usual = F.softplus(x.masked_fill(small, 0.0)).log()  # masked, or its gradient would be 0 * inf
    return torch.where(small, x - x.clamp(max=_UNDERFLOW).exp() / 2, usual)


def bottleneck_of(model: nn.Module) -> BottleneckHead:
    """The bottleneck of a classifier. Raises InputError if it has none."""
    head = getattr(model, "head", None)
    if not isinstance(head, BottleneckHead):
        raise InputError("readout: expected a classifier trained with defense mid, got one without a bottleneck")
    return head
