"""What defenses compute and draw: of images, labels, logits and the layers that they look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Generator, Tensor
from torch.func import functional_call, grad, vmap

from smoothsweep.core.defenses.base import Step, classes_of_batch, over_outputs

if TYPE_CHECKING:
    from smoothsweep.core.defenses.information import CocoNorm, Kernel


def box_mask(boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Boxes as `draw_boxes` gives them -> bool [n, H, W], true inside."""
    top, left, height, width = (column[:, None] for column in boxes.T)
    rows, columns = torch.arange(size[0]), torch.arange(size[1])
    inside_rows = (rows >= top) & (rows < top + height)
    inside_columns = (columns >= left) & (columns < left + width)
    return inside_rows[:, :, None] & inside_columns[:, None, :]


_LEAST = 1e-12  # of 1 - p, so that a gamma below 1 has a finite slope where p reaches 1


def focal_losses(logits: Tensor, targets: Tensor, gamma: float) -> Tensor:
    """Logits and targets [n, C] -> losses [n]."""
    log_p = torch.log_softmax(logits.float(), dim=1)
    rest = (-torch.expm1(log_p)).clamp(min=_LEAST)
    return -(targets * rest.pow(gamma) * log_p).sum(dim=1)


def entropy(logits: Tensor) -> Tensor:
    """Logits [n, C] -> entropies [n] in [0, log C]."""
    log_p = torch.log_softmax(logits, dim=1)
    return -(log_p.exp() * log_p).sum(dim=1)


def draw_shares(n: int, alpha: float, generator: Generator) -> Tensor:
    """n draws of Beta(alpha, alpha), float32 [n]; torch's own Beta takes no generator."""
    seed = int(torch.randint(2**63 - 1, (), generator=generator))
    return torch.from_numpy(np.random.default_rng(seed).beta(alpha, alpha, size=n)).float()


_AT_ONCE = 16  # images whose gradients are held at once: each is as large as the network
_LENGTH = 1e-6  # added to the divisor of the clipping, as in Opacus


def clipped_sums(
    step: Step, labels: Tensor, named: Mapping[str, Tensor], clip: float
) -> tuple[dict[str, Tensor], Tensor]:
    """The sum over the batch of every image's gradient, none longer than `clip`; and their lengths before, [n]."""

    def loss_of(parameters: Mapping[str, Tensor], image: Tensor, label: Tensor) -> Tensor:
        output = functional_call(step.model, dict(parameters), (image[None],))
        return over_outputs(output, lambda logits: step.criterion(logits, label[None]))[0].squeeze(0)

    values = {name: parameter.detach() for name, parameter in named.items()}
    each = vmap(grad(loss_of), in_dims=(None, 0, 0), randomness="different")
    sums, norms = {name: torch.zeros_like(value) for name, value in values.items()}, []
    for images, batch_labels in zip(step.images.split(_AT_ONCE), labels.split(_AT_ONCE), strict=True):
        gradients = each(values, images, batch_labels)
        length = torch.stack([part.flatten(1).square().sum(1) for part in gradients.values()]).sum(0).sqrt()
        factor = (clip / (length + _LENGTH)).clamp(max=1)
        for name, part in gradients.items():
            sums[name] += torch.einsum("n,n...->...", factor, part)
        norms.append(length)
    return sums, torch.cat(norms)


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


def _groups(members: Tensor, size: int, generator: Generator) -> Tensor:
    """The images of one class in shuffled groups: [groups, size], at least one."""
    n = len(members)
    if n >= size:
        return members[torch.randperm(n, generator=generator)][: n - n % size].view(-1, size)
    again = torch.randint(n, (size - n,), generator=generator)
    picks = torch.cat([torch.arange(n), again])[torch.randperm(size, generator=generator)]
    return members[picks][None]


def other_classes(labels: Tensor, classes: int, generator: Generator) -> Tensor:
    """A class for every label int64 [n], never its own: uniform over all, and the next one where that hits the label.

    So the class behind the label comes twice as often as any other, as in the official code.
    """
    drawn = torch.randint(classes, labels.shape, generator=generator).to(labels.device)
    return torch.where(drawn == labels, (drawn + 1) % classes, drawn)


def balanced_classes(n: int, classes: int, generator: Generator) -> Tensor:
    """A class for each of n images, int64 [n]: every class as often as any other, or once more."""
    rounds = [torch.randperm(classes, generator=generator) for _ in range(-(-n // classes))]
    return torch.cat(rounds)[:n]
