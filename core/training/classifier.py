"""Training a classifier: one loop for one process and for several, exact to resume.

Everything random in epoch e follows from (seed, e, step): the order of the images, their augmentation, and
what the network draws itself (dropout). So an interrupted training continues to the same weights, and the
ranks of a data-parallel training see together the batches that one process would see.

The images lie on the device in their own type. Images larger than `recipe.image_size` are reduced to it once, before
the first epoch (batch by batch if streamed); smaller ones are enlarged by the crop of every step. The last, shorter
batch of an epoch is kept, but a batch that would leave a rank fewer than two images is dropped. The model is switched
to channels_last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.defenses.base import Defense
from smoothsweep.core.devices import channels_last
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.image_sizes import check_image_size
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.training.batches import MIN_PER_RANK, Stamp
from smoothsweep.core.training.epochs import Epochs
from smoothsweep.core.training.state import EpochRecord
from smoothsweep.core.training.steps import PLAIN


def _no_smoothing(epoch: int) -> float:
    return 0.0


def train_classifier(
    model: nn.Module,
    data: ImageSet,
    recipe: TrainingRecipe,
    *,
    seed: int,
    defense: Defense = PLAIN,
    alpha_of_epoch: Callable[[int], float] = _no_smoothing,
    device: torch.device | str = "cpu",
    rank: int = 0,
    world_size: int = 1,
    wrap: Callable[[nn.Module], nn.Module] | None = None,
    resume: Mapping[str, Any] | None = None,
    on_epoch: Callable[[EpochRecord, Callable[[], dict[str, Any]]], None] | None = None,
    evaluate: ImageSet | None = None,
    evaluate_every: int = 1,
    stop_when: Callable[[EpochRecord], bool] | None = None,
    device_share: float = 0.4,
    stamp: Stamp | None = None,
) -> list[EpochRecord]:
    """Train `model` in place for `recipe.epochs` epochs and return one record per epoch, resumed ones included.

    Args:
        model: Images [N, 3, S, S] in [-1, 1] -> logits [N, C]; a `Classifier`, prepared, unless the defense is plain.
        defense: Adjusts the recipe, chooses and alters the batches, and computes the loss; `defense.prepare(model)` is
            the caller's. Parameters that it froze are left out of the optimizer.
        alpha_of_epoch: The label smoothing factor of every zero-based epoch.
        world_size: Number of ranks. With more than one every rank calls this with the same arguments inside an
            initialised process group. `recipe.batch_size` is that of all ranks together.
        wrap: Puts the model into DistributedDataParallel.
        on_epoch: Called with (record, state) after every epoch; `state()` copies to the CPU what `resume` takes.
        evaluate: Held-out images; rank 0 measures the accuracy every `evaluate_every` epochs and after the last.
        stop_when: Ends the training after an epoch; the accuracy is then measured after each.
        device_share: The part of a GPU's free memory that the images may take, 0 to stream on any device. A larger set
            stays on the host, and a thread prepares its batches; the numbers are the same.
        stamp: Laid over some of the images (their labels are the caller's), None over none.

    Raises InputError if these do not fit together, TrainingDiverged at a loss or weight that is not finite.
    """
    recipe = defense.adjust_recipe(recipe)
    _check(model, data, recipe, rank, world_size, wrap, evaluate_every)
    _check_defense(defense, recipe, alpha_of_epoch, world_size)
    device = torch.device(device)
    channels_last(model.to(device))
    epochs = Epochs(
        wrap(model) if wrap else model,
        data,
        recipe,
        defense,
        seed=seed,
        device=device,
        rank=rank,
        world_size=world_size,
        device_share=device_share,
        stamp=stamp,
    )
    records = epochs.restored(resume)
    held_out, every = evaluate if rank == 0 else None, 1 if stop_when else evaluate_every
    _run(epochs, records, alpha_of_epoch, held_out, every, on_epoch, stop_when)
    return records


def _run(
    epochs: Epochs,
    records: list[EpochRecord],
    alpha_of_epoch: Callable[[int], float],
    held_out: ImageSet | None,
    every: int,
    on_epoch: Callable[[EpochRecord, Callable[[], dict[str, Any]]], None] | None,
    stop_when: Callable[[EpochRecord], bool] | None,
) -> None:
    """Train through the epochs that `records` lacks and add theirs. held_out: measured after each `every` epochs and
    after the last, None to measure nothing."""
    last = epochs.recipe.epochs
    stopped = bool(records) and epochs.end_with(records[-1], stop_when)
    while len(records) < last and not stopped:
        record = epochs.run(len(records), alpha_of_epoch(len(records)))
        done = len(records) + 1
        if held_out is not None and (done == last or done % every == 0):
            record = epochs.measured(record, held_out)
        records.append(record)
        if on_epoch:
            on_epoch(record, lambda: epochs.state(records))
        stopped = epochs.end_with(record, stop_when)


def _check(
    model: nn.Module,
    data: ImageSet,
    recipe: TrainingRecipe,
    rank: int,
    world_size: int,
    wrap: Callable[[nn.Module], nn.Module] | None,
    evaluate_every: int,
) -> None:
    """Refuse what could not train, before anything is changed."""
    if not 0 <= rank < world_size:
        raise ValueError(f"rank: expected 0 <= rank < {world_size}, got {rank}")
    if evaluate_every < 1:
        raise ValueError(f"evaluate_every: expected at least 1, got {evaluate_every}")
    if world_size > 1 and (wrap is None or not torch.distributed.is_initialized()):
        raise ValueError(f"world_size {world_size}: expected a process group and `wrap`, got one process")
    if recipe.batch_size < MIN_PER_RANK * world_size or len(data) < MIN_PER_RANK * world_size:
        raise InputError(
            f"training: expected at least {MIN_PER_RANK} images per worker in a batch, got batch size "
            f"{recipe.batch_size} and {len(data)} images for {world_size} workers"
        )
    num_classes = getattr(model, "num_classes", None)
    if num_classes is not None and data.num_classes > num_classes:
        raise InputError(f"training: expected at most {num_classes} classes, got {data.num_classes} in the data")
    check_image_size(recipe.architecture, recipe.image_size)


def _check_defense(
    defense: Defense, recipe: TrainingRecipe, alpha_of_epoch: Callable[[int], float], world_size: int
) -> None:
    """Refuse several workers, and smoothing in any epoch, where the defense does not go with them."""
    if defense.alone is not None and world_size > 1:
        raise InputError(f"defense {type(defense).__name__}: expected one worker, got {world_size}: {defense.alone}")
    reason = defense.combines_with_smoothing
    if reason is not None and any(alpha_of_epoch(epoch) for epoch in range(recipe.epochs)):
        raise InputError(f"defense {type(defense).__name__}: expected no label smoothing: {reason}")
