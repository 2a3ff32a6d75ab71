"""What a defense is: its parameters, and what it may change about a training.

Every defense is a frozen dataclass of its parameters that overrides the methods it needs; the others leave the
training as it is. docs/new-defense.md shows how to add one. Planning reads defenses, so that torch is loaded by what
computes alone: the layers that they build in are in `layers.py`, what they compute in `operations.py`.
"""

from __future__ import annotations

import re
from collections import abc
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, TypeAlias

from smoothsweep.core.declared import check_fields
from smoothsweep.core.defenses.schedules import check_alpha
from smoothsweep.core.defenses.strengths import Family
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.recipe import TrainingRecipe

if TYPE_CHECKING:
    from torch import Generator, Tensor, nn

    from smoothsweep.core.models.classifiers import Classifier, LogitsWithAuxiliary

# Label smoothing with any factor up to 1, negative ones included.
#
# Positive factors are Szegedy et al. (2016), negative ones Wei et al. (2022); the paper uses both (section 2.2, Eqs. 2
# and 3). torch's own `label_smoothing=` must not be used here: given class indices and a negative factor it returns
# plain cross entropy without a word.


def smoothed_targets(labels: Tensor, num_classes: int, alpha: float) -> Tensor:
    """Target vectors (1 - alpha) * onehot + alpha / C, float32 [N, C] (Eq. 2). Every row sums to 1.

    labels: int64 [N] in [0, num_classes). For alpha < 0 the entries leave [0, 1]: no longer a distribution.
    Raises InputError for an alpha above 1 or not finite.
    """
    import torch

    alpha = check_alpha(alpha)
    onehot = torch.nn.functional.one_hot(labels, num_classes).to(torch.float32)
    return (1 - alpha) * onehot + alpha / num_classes


def smoothed_cross_entropy(
    logits: Tensor, labels: Tensor, alpha: float, *, reduction: Literal["mean", "none"] = "mean"
) -> Tensor:
    """Cross entropy against smoothed targets (Eq. 3), for every alpha in (-inf, 1].

    logits: float [N, C] (half precision is computed in float32); labels: int64 [N].
    Returns a scalar for reduction "mean" (over N), [N] for "none". With alpha < 0 the loss has no
    lower bound. Matches losses/label_smoothing.py of LukasStruppek/Plug-and-Play-Attacks for alpha < 0 and
    torch's built-in criterion for alpha >= 0.
    Raises InputError for an alpha above 1 or not finite, ValueError for wrong shapes.
    """
    import torch

    alpha = check_alpha(alpha)
    if logits.ndim != 2 or labels.shape != logits.shape[:1]:
        got = f"{tuple(logits.shape)}, {tuple(labels.shape)}"
        raise ValueError(f"expected logits [N, C] and labels [N], got {got}")
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    log_probabilities = torch.log_softmax(logits, dim=1)
    loss = -log_probabilities.gather(1, labels.unsqueeze(1)).squeeze(1)
    if alpha != 0:  # the uniform term would turn a logit of -inf into 0 * inf
        loss = (1 - alpha) * loss - alpha * log_probabilities.mean(dim=1)
    return loss.mean() if reduction == "mean" else loss


_AUXILIARY_WEIGHT = 1.0  # the published training adds the auxiliary loss in full


@dataclass(frozen=True, kw_only=True)
class MixedLabels:
    """Every image belongs to two classes.

    Attributes:
        first, second: int64 [n].
        share: Share of the first class, float32 [n] in [0, 1].
    """

    first: Tensor
    second: Tensor
    share: Tensor

    @property
    def dominant(self) -> Tensor:
        """The class with the larger share, int64 [n]: what a training accuracy is counted against."""
        import torch

        return torch.where(self.share >= 0.5, self.first, self.second)


Labels: TypeAlias = "Tensor | MixedLabels"


@dataclass(frozen=True, kw_only=True)
class SmoothedLoss:
    """The criterion of an epoch: cross entropy against labels smoothed by `alpha`, one value per image."""

    alpha: float = 0.0

    def __call__(self, logits: Tensor, labels: Labels) -> Tensor:
        """Logits [n, C] and labels -> losses [n]. Linear in the target, so that mixed labels mix the losses."""
        if isinstance(labels, MixedLabels):
            share = labels.share.to(logits.device)
            return share * self(logits, labels.first) + (1 - share) * self(logits, labels.second)
        return smoothed_cross_entropy(logits, labels, self.alpha, reduction="none")

    def targets(self, labels: Tensor, num_classes: int) -> Tensor:
        """The smoothed target vectors [n, C]; they leave [0, 1] for alpha < 0."""
        return smoothed_targets(labels, num_classes, self.alpha)


@dataclass(frozen=True, kw_only=True)
class Step:
    """What a defense sees of a training step.

    The model may be asked beside `forward`, by what leaves the parameters' gradients and the running statistics alone.

    Attributes:
        model: The classifier itself, for its layers and modules.
        forward: One call of it as it is trained (through DistributedDataParallel, in the recipe's precision, output in
            float32), to be used exactly once.
        images, labels: [n, 3, S, S] in [-1, 1] and as `alter_batch` left them.
        criterion: Label smoothing at this epoch's factor, per image.
        epoch: Zero-based, of `epochs`.
        batch_size: The recipe's, of all ranks.
        generator: The CPU's, after what `alter_batch` drew. What a network draws itself comes from torch's global
            generator, which the training loop seeds.
        companion: What the defense trains beside the network, if it has one, on its device.
    """

    model: Classifier
    forward: Callable[[Tensor], Tensor | LogitsWithAuxiliary]
    images: Tensor
    labels: Labels
    criterion: SmoothedLoss
    epoch: int
    epochs: int
    generator: Generator
    batch_size: int
    companion: nn.Module | None = None


class StepLoss(NamedTuple):
    """The loss of one training step.

    Attributes:
        loss: Scalar to call backward on; logits [n, C].
        facts: Detached scalars to average over an epoch and record.
    """

    loss: Tensor
    logits: Tensor
    facts: Mapping[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Defense:
    """Plain training; a defense overrides what it changes. Parameters are checked by their types (`core.bounds`).

    Attributes:
        combines_with_smoothing: None if it may be trained under any smoothing schedule, else the reason why not.
        readouts: Ways to read a trained network whose answers are noisy.
        usual_readouts: Protocol -> the one of them where a sweep names none.
        noiseless: The one of them without noise.
        leaves: The most that an attacker can be shown, less than gradients where answers are altered at inference.
        alone: Why it takes one worker, None where it does not.
        revision: Raised where the same parameters train to other numbers, so that recipes with this defense alone are
            trained again.
        cites: Its sources, as `core.citations` has them.
        family: What pages call it and how its strength reads, None for the names of its kind and parameters.
    """

    cites: ClassVar[tuple[str, ...]] = ()
    family: ClassVar[Family | None] = None
    revision: ClassVar[int] = 1
    alone: ClassVar[str | None] = None
    combines_with_smoothing: ClassVar[str | None] = None
    readouts: ClassVar[tuple[str, ...]] = ()
    usual_readouts: ClassVar[Mapping[str, str]] = {}
    noiseless: ClassVar[str | None] = None
    leaves: ClassVar[Literal["labels", "scores", "gradients"]] = "gradients"

    def __post_init__(self) -> None:
        """Refuse a parameter that is not what its type says; a defense adds what no type can say."""
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(self).__name__).lower()
        check_fields(self, f"defense {name}: ")

    def check(self, architecture: str) -> None:
        """Raise InputError if the defense cannot be applied to this architecture; needs no model."""

    def adjust_recipe(self, recipe: TrainingRecipe) -> TrainingRecipe:
        """The recipe to train with. Raises InputError if the two contradict each other."""
        return recipe

    def check_data(self, counts: Sequence[int], recipe: TrainingRecipe) -> int:
        """How many of the training images, of which there are `counts` by class, are trained on.

        Raises InputError if the defense cannot be trained on them under this recipe; needs no image.
        """
        return sum(counts)

    def prepare(self, model: Classifier, *, generator: Generator) -> None:
        """Change the network in place, before training and again before saved weights are loaded.

        The structure must follow from the parameters and the architecture alone; `generator` (CPU) is for the initial
        weights of new layers only.
        """
        self.check(model.architecture)

    def sampler(self, labels: Tensor, batch_size: int, generator: Generator) -> list[Tensor] | None:
        """The batches of an epoch as indices into `labels` (int64 [N] on the CPU); None: a common permutation.

        Data-parallel ranks take contiguous parts of every batch.
        """
        return None

    def alter_batch(self, images: Tensor, labels: Tensor, generator: Generator) -> tuple[Tensor, Labels]:
        """Images [n, 3, S, S] in [-1, 1] on any device, after augmentation, and their labels; `generator` is the CPU's.

        Returns new tensors and leaves its arguments as they are.
        """
        return images, labels

    def companion(self, model: Classifier, recipe: TrainingRecipe, *, generator: Generator) -> nn.Module | None:
        """What is trained beside the network and not given away with it, at the start of a training; None if nothing.

        model: prepared, before its first step, on the device of the training. The companion is of the training's
        checkpoints, whole by its `state_dict`, and of no weights. `loss` changes it, in place.
        """
        return None

    def hold_out(self, labels: Tensor, generator: Generator) -> Tensor | None:
        """Rows (int64, of labels int64 [N]) that are not trained on, because `fit` learns from them; None for none."""
        return None

    def check_held_out(self, labels: Tensor, classes: int) -> None:
        """Raise InputError where nothing can be learned from images of these labels (int64 [N], of so many classes):
        those held out, without those that carry a trigger. Needs no image."""

    def fit(self, model: Classifier, logits: Tensor, labels: Tensor) -> None:
        """Learn from the trained network's logits [n, C] of the images that were held out, into buffers of its."""

    def guarantees(self, recipe: TrainingRecipe, *, images: int, epochs: int) -> Mapping[str, float | None]:
        """Numbers that the whole training has by construction, as metrics: `images` trained on for `epochs`."""
        return {}

    def read(self, model: Classifier, readout: str | None, *, protocol: str, seed: int) -> None:
        """Choose how a trained network answers: one of `readouts`, None for what the protocol says. seed: of its noise.

        Raises InputError for a readout that it does not have.
        """
        if readout is not None:
            raise InputError(f"readout: expected none of a network whose answers are not noisy, got {readout!r}")

    def seed_noise(self, model: Classifier, seed: int) -> bool:
        """Start the noise of a trained network anew; whether its answers are noisy at all, as it is read now."""
        return False

    def loss(self, step: Step) -> StepLoss:
        """The loss of a step; calls `step.forward` once."""
        losses, logits = criterion_losses(step, step.forward(step.images))
        return StepLoss(losses.mean(), logits, {})


def over_outputs(output: Tensor | LogitsWithAuxiliary, losses_of: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """The losses [n] of a network's output, those of an auxiliary head added, and its logits [n, C]."""
    from smoothsweep.core.models.classifiers import LogitsWithAuxiliary

    if isinstance(output, LogitsWithAuxiliary):
        return losses_of(output.logits) + _AUXILIARY_WEIGHT * losses_of(output.auxiliary), output.logits
    return losses_of(output), output


def criterion_losses(step: Step, output: Tensor | LogitsWithAuxiliary) -> tuple[Tensor, Tensor]:
    """`over_outputs` with the step's criterion."""
    return over_outputs(output, lambda logits: step.criterion(logits, step.labels))


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


def hard_labels(labels: Labels) -> Tensor:
    """Labels that a defense needs as one class per image. Raises ValueError for mixed ones."""
    if isinstance(labels, MixedLabels):
        raise ValueError("labels: expected one class per image, got mixed labels")
    return labels


@contextmanager
def watch(parts: Mapping[str, nn.Module], look: Callable[[Tensor], Tensor]) -> abc.Generator[dict[str, Tensor]]:
    """While it is open, every output [n, ...] of one of the `parts` of a network is given to `look`, in float32.

    Yields name -> what `look` made of it, with gradients. It looks before later layers overwrite the output in
    place, and outside autocast.
    """
    import torch

    seen: dict[str, Tensor] = {}

    def hook(name: str) -> Callable[[nn.Module, object, Tensor], None]:
        def keep(module: nn.Module, inputs: object, output: Tensor) -> None:
            with torch.autocast(output.device.type, enabled=False):
                seen[name] = look(output.float())

        return keep

    handles = [part.register_forward_hook(hook(name)) for name, part in parts.items()]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


@dataclass(frozen=True, kw_only=True)
class LabelSmoothing(Defense):
    """No parameters of its own: the factor and its schedule belong to every defense, and 0 is plain training."""

    cites: ClassVar[tuple[str, ...]] = ("szegedy2016rethinking", "struppek2024careful")
