"""One step of a training: the network's input as the defense alters it, the loss, what is counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from smoothsweep.core.defenses.base import Defense, MixedLabels, SmoothedLoss, Step
from smoothsweep.core.defenses.plain import LabelSmoothing
from smoothsweep.core.models.classifiers import Classifier
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.training.batches import Batch, alteration_generator, network_input

PLAIN = LabelSmoothing()


@dataclass(frozen=True, kw_only=True)
class EpochSettings:
    """What the steps of an epoch share.

    Attributes:
        alpha: The smoothing factor.
        epoch: Zero-based, of `recipe.epochs`.
        companion: The defense's, None where it has none.
    """

    recipe: TrainingRecipe
    defense: Defense = PLAIN
    alpha: float = 0.0
    epoch: int = 0
    seed: int = 0
    rank: int = 0
    companion: nn.Module | None = None


class StepResult(NamedTuple):
    """The loss of one part of a batch, with sums for the epoch's record.

    Attributes:
        loss: Scalar to call backward on.
        sums: float64 [4 + facts] over this part's images, of the loss, the hits, the logit gaps, of ones, and of every
            fact that the defense reports.
        facts: Their names, in this order.
    """

    loss: Tensor
    sums: Tensor
    facts: tuple[str, ...]


def batch_loss(model: nn.Module, batch: Batch, settings: EpochSettings, step: int = 0) -> StepResult:
    """The defense's loss of a batch; `model` may be wrapped for data-parallel training.

    With precision `bf16` the network's output is brought back to float32 for the loss. Of mixed labels the dominant
    one is counted.
    """
    recipe, defense = settings.recipe, settings.defense

    def forward(images: Tensor) -> Any:
        if recipe.precision == "fp32":
            return model(images)
        with torch.autocast(images.device.type, dtype=torch.bfloat16):
            return _in_float32(model(images))

    generator = alteration_generator(settings.seed, settings.epoch, step, settings.rank)
    images, labels = defense.alter_batch(network_input(batch, recipe.image_size), batch.labels, generator)
    loss, logits, facts = defense.loss(
        Step(
            model=cast("Classifier", getattr(model, "module", model)),
            forward=forward,
            images=images.contiguous(memory_format=torch.channels_last),
            labels=labels,
            criterion=SmoothedLoss(alpha=settings.alpha),
            epoch=settings.epoch,
            epochs=recipe.epochs,
            generator=generator,
            batch_size=recipe.batch_size,
            companion=settings.companion,
        )
    )
    sums = _sums(loss, logits, labels.dominant if isinstance(labels, MixedLabels) else labels, list(facts.values()))
    return StepResult(loss * batch.weight, sums, tuple(facts))


@torch.no_grad()
def _sums(loss: Tensor, logits: Tensor, labels: Tensor, facts: list[Tensor]) -> Tensor:
    logits = logits.detach().double()
    true = logits.gather(1, labels[:, None]).squeeze(1)
    gap = true - (logits.sum(dim=1) - true) / (logits.shape[1] - 1)
    hits = (logits.argmax(dim=1) == labels).double().sum()
    count = len(labels)
    means = [loss.detach().double() * count, hits, gap.sum(), hits.new_tensor(count)]
    return torch.stack([*means, *(fact.detach().to(hits) * count for fact in facts)])


def _in_float32(output: Any) -> Any:
    """What a network returned, tensors or (named) tuples of them, with every float tensor in float32."""
    if isinstance(output, Tensor):
        return output.float() if output.is_floating_point() else output
    if isinstance(output, tuple):
        items = [_in_float32(item) for item in output]
        return type(output)(*items) if hasattr(output, "_fields") else tuple(items)
    raise TypeError(f"precision bf16: expected a network that returns tensors or tuples of them, got {type(output)}")
