"""Training a classifier: one loop for one process and for several, exact to resume.

Everything random in epoch e follows from (seed, e, step): the order of the images, their augmentation, and
what the network draws itself (dropout). So an interrupted training continues to the same weights, and the
ranks of a data-parallel training see together the batches that one process would see.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from core.data.images import ImageSet
from core.defenses.base import Defense
from core.errors import InputError, TrainingDiverged
from core.models.image_sizes import check_image_size
from core.models.inference import embed_images, evaluate_accuracy, evaluate_logits
from core.models.recipe import TrainingRecipe, learning_rate
from core.training.batches import MIN_PER_RANK, Batch, network_seed
from core.training.feeding import feed, place_images
from core.training.optimizers import make_optimizer
from core.training.state import EpochRecord, restore_state, training_state
from core.training.steps import PLAIN, EpochSettings, batch_loss

__all__ = [
    "EpochRecord",
    "TrainingRecipe",
    "embed_images",
    "evaluate_accuracy",
    "evaluate_logits",
    "learning_rate",
    "train_classifier",
]

_CHECK_EVERY = 16  # steps between looks at the loss on a GPU, where every look waits for the device
_TAKEN = {"alpha", "logit_gap", "top_logit_gap", *(field.name for field in dataclasses.fields(EpochRecord))}


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
) -> list[EpochRecord]:
    """Train `model` in place for `recipe.epochs` epochs and return one record per epoch, resumed ones included.

    model: images [N, 3, S, S] in [-1, 1] -> logits [N, C]; a `Classifier`, prepared, unless the defense is plain.
    defense: adjusts the recipe, chooses and alters the batches, and computes the loss; `defense.prepare(model)` is
        the caller's. Parameters that it froze are left out of the optimizer.
    alpha_of_epoch: the label smoothing factor of every zero-based epoch.
    world_size: with more than one rank every rank calls this with the same arguments inside an initialised process
        group, and `wrap` puts the model into DistributedDataParallel. `recipe.batch_size` is that of all ranks
        together.
    on_epoch(record, state): called after every epoch; `state()` copies model, optimizer and history to the CPU, and
        only if it is called. Its value, saved and loaded, is what `resume` takes.
    evaluate: held-out images; rank 0 measures the accuracy every `evaluate_every` epochs and after the last.
    stop_when(record): ends the training after this epoch. With it the accuracy is measured after every epoch.
    device_share: the part of a GPU's free memory that the images may take. A larger set stays on the host, mapped from
        its file if it is, and a thread prepares the batches; the numbers are the same. 0 streams on any device.

    The images lie on the device in their own type. Images larger than `recipe.image_size` are reduced to it once,
    before the first epoch (batch by batch if streamed); smaller ones are enlarged by the crop of every step. The last,
    shorter batch of an epoch is kept, but a batch that would leave a rank fewer than two images is dropped. The model
    is switched to channels_last.

    Raises InputError if data, model, recipe, defense and smoothing do not fit together; TrainingDiverged at a loss or
    weight that is not finite.
    """
    recipe = defense.adjust_recipe(recipe)
    _check(model, data, recipe, rank, world_size, wrap, evaluate_every)
    _check_smoothing(defense, recipe, alpha_of_epoch)
    device = torch.device(device)
    model.to(device=device, memory_format=torch.channels_last)
    wrapped = wrap(model) if wrap else model
    core = getattr(wrapped, "module", wrapped)
    optimizer = make_optimizer([p for p in core.parameters() if p.requires_grad], recipe)
    run = {"recipe": repr(recipe), "seed": seed, "world_size": world_size, "images": len(data)}
    run |= {} if defense == PLAIN else {"defense": repr(defense)}
    records = restore_state(core, optimizer, run, resume) if resume is not None else []
    placed = place_images(data, recipe.image_size, device, device_share)
    place = {"rank": rank, "world_size": world_size}
    every = 1 if stop_when else evaluate_every
    stopped = bool(records) and _stops(records[-1], stop_when, device, **place)

    while len(records) < recipe.epochs and not stopped:
        epoch, start = len(records), time.perf_counter()
        alpha = alpha_of_epoch(epoch)
        settings = EpochSettings(recipe=recipe, defense=defense, alpha=alpha, epoch=epoch, seed=seed, rank=rank)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(recipe, epoch)
        batches = feed(placed, recipe, device, seed=seed, epoch=epoch, **place, sampler=defense.sampler)
        with _reproducible(network_seed(seed, epoch, rank), device), closing(batches):
            sums, facts = _run_epoch(wrapped, optimizer, batches, settings)
        _check_weights(core, settings)
        record = _record(settings, _sum_over_ranks(sums, world_size), facts, time.perf_counter() - start)
        if evaluate is not None and rank == 0 and (epoch + 1 == recipe.epochs or (epoch + 1) % every == 0):
            accuracy = evaluate_accuracy(core, evaluate, image_size=recipe.image_size, device=device)
            record = dataclasses.replace(record, test_acc=accuracy)
        records.append(record)
        if on_epoch:
            on_epoch(record, lambda: training_state(core, optimizer, run, records))
        stopped = _stops(record, stop_when, device, **place)
    return records


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


def _check_smoothing(defense: Defense, recipe: TrainingRecipe, alpha_of_epoch: Callable[[int], float]) -> None:
    """Refuse smoothing in any epoch where the defense does not go with it."""
    reason = defense.combines_with_smoothing
    if reason is not None and any(alpha_of_epoch(epoch) for epoch in range(recipe.epochs)):
        raise InputError(f"defense {type(defense).__name__}: expected no label smoothing: {reason}")


def _stops(
    record: EpochRecord,
    stop_when: Callable[[EpochRecord], bool] | None,
    device: torch.device,
    *,
    rank: int,
    world_size: int,
) -> bool:
    """Whether this epoch was the last. Rank 0 alone has measured the accuracy, so it decides for all."""
    if stop_when is None:
        return False
    decision = torch.tensor(float(rank == 0 and stop_when(record)), device=device)
    if world_size > 1:
        torch.distributed.broadcast(decision, src=0)
    return bool(decision)


@contextmanager
def _reproducible(seed: int, device: torch.device) -> Iterator[None]:
    """Seed what the network draws itself, choose repeatable kernels, and leave torch's global state as it was."""
    with (
        torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
        torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True),
    ):
        torch.manual_seed(seed)
        yield


def _run_epoch(
    model: nn.Module, optimizer: torch.optim.Optimizer, batches: Iterator[Batch], settings: EpochSettings
) -> tuple[Tensor, tuple[str, ...]]:
    """One pass; returns the sums of `batch_loss` over this rank's images and the names of the facts among them."""
    model.train()
    sums, pending = [], []
    facts: tuple[str, ...] | None = None
    for step, batch in enumerate(batches):
        optimizer.zero_grad(set_to_none=True)
        value, part, names = batch_loss(model, batch, settings, step)
        facts = names if facts is None else facts
        if names != facts or _TAKEN & set(names):
            raise ValueError(f"facts: expected the same free names in every step, got {names} after {facts}")
        value.backward()
        optimizer.step()
        sums.append(part)
        pending.append(part[0])
        if value.device.type == "cpu" or len(pending) == _CHECK_EVERY:
            _check_losses(pending, step, settings)
            pending = []
    _check_losses(pending, len(sums) - 1, settings)
    return torch.stack(sums).sum(dim=0), facts or ()


def _check_losses(losses: list[Tensor], last_step: int, settings: EpochSettings) -> None:
    """Raise TrainingDiverged at the first loss that is not finite; the losses end with `last_step`."""
    if not losses:
        return
    for offset, value in enumerate(torch.stack(losses).tolist()):
        if not math.isfinite(value):
            step = last_step - len(losses) + 1 + offset
            raise TrainingDiverged(
                f"training diverged in epoch {settings.epoch}, step {step}: loss {value}, alpha {settings.alpha:g}"
            )


def _check_weights(model: nn.Module, settings: EpochSettings) -> None:
    """A gradient can overflow while the loss before it is still finite."""
    named = dict(model.named_parameters())
    finite = torch.stack([p.detach().isfinite().all() for p in named.values()]).tolist()
    for name, good in zip(named, finite, strict=True):
        if not good:
            raise TrainingDiverged(
                f"training diverged in epoch {settings.epoch}, last step: weight {name} is not finite, "
                f"alpha {settings.alpha:g}"
            )


def _sum_over_ranks(sums: Tensor, world_size: int) -> Tensor:
    if world_size > 1:
        torch.distributed.all_reduce(sums)
    return sums


def _record(settings: EpochSettings, sums: Tensor, facts: tuple[str, ...], seconds: float) -> EpochRecord:
    loss, hits, gap, count, *rest = sums.tolist()
    means = {name: value / count for name, value in zip(facts, rest, strict=True)}
    return EpochRecord(
        epoch=settings.epoch,
        lr=learning_rate(settings.recipe, settings.epoch),
        loss=loss / count,
        train_acc=hits / count,
        seconds=seconds,
        extra={"top_logit_gap": gap / count, "alpha": settings.alpha, **means},
    )
