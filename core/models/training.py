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
from core.errors import InputError, TrainingDiverged
from core.models.batches import MIN_PER_RANK, Batch, network_input, network_seed
from core.models.classifiers import LogitsWithAuxiliary, check_image_size
from core.models.feeding import feed, place_images
from core.models.inference import embed_images, evaluate_accuracy, evaluate_logits
from core.models.recipe import TrainingRecipe, learning_rate, make_optimizer
from core.models.training_state import EpochRecord, restore_state, training_state

__all__ = [
    "EpochRecord",
    "TrainingRecipe",
    "batch_loss",
    "embed_images",
    "evaluate_accuracy",
    "evaluate_logits",
    "learning_rate",
    "train_classifier",
]

Loss = Callable[[Any, Tensor], Tensor]

_CHECK_EVERY = 16  # steps between looks at the loss on a GPU, where every look waits for the device
_AUXILIARY_WEIGHT = 1.0  # the published training adds the auxiliary loss in full


def train_classifier(
    model: nn.Module,
    data: ImageSet,
    recipe: TrainingRecipe,
    *,
    loss_of_epoch: Callable[[int], Loss],
    seed: int,
    device: torch.device | str = "cpu",
    rank: int = 0,
    world_size: int = 1,
    wrap: Callable[[nn.Module], nn.Module] | None = None,
    resume: Mapping[str, Any] | None = None,
    on_epoch: Callable[[EpochRecord, Callable[[], dict[str, Any]]], None] | None = None,
    evaluate: ImageSet | None = None,
    evaluate_every: int = 1,
    facts_of_epoch: Callable[[int], Mapping[str, float]] | None = None,
    device_share: float = 0.4,
) -> list[EpochRecord]:
    """Train `model` in place for `recipe.epochs` epochs and return one record per epoch, resumed ones included.

    model: images [N, 3, S, S] in [-1, 1] -> logits [N, C], or any output with a field `logits`.
    loss_of_epoch(epoch)(output, labels): the loss, a mean over the batch. It gets what the model returned; of a
        `LogitsWithAuxiliary` it gets both parts in turn, and the sum is minimised.
    world_size: with more than one rank every rank calls this with the same arguments inside an initialised process
        group, and `wrap` puts the model into DistributedDataParallel. `recipe.batch_size` is that of all ranks
        together.
    on_epoch(record, state): called after every epoch; `state()` copies model, optimizer and history to the CPU, and
        only if it is called. Its value, saved and loaded, is what `resume` takes.
    evaluate: held-out images; rank 0 measures the accuracy every `evaluate_every` epochs and after the last.
    facts_of_epoch: numbers to record with an epoch and to name if it diverges, such as the smoothing factor.
    device_share: the part of a GPU's free memory that the images may take. A larger set stays on the host, mapped from
        its file if it is, and a thread prepares the batches; the numbers are the same. 0 streams on any device.

    The images lie on the device in their own type. Images larger than `recipe.image_size` are reduced to it once,
    before the first epoch (batch by batch if streamed); smaller ones are enlarged by the crop of every step. The last,
    shorter batch of an epoch is kept, but a batch that would leave a rank fewer than two images is dropped. The model
    is switched to channels_last.

    Raises InputError if the data do not fit model or recipe; TrainingDiverged at a loss or weight that is not
    finite.
    """
    _check(model, data, recipe, rank, world_size, wrap, evaluate_every)
    device = torch.device(device)
    model.to(device=device, memory_format=torch.channels_last)
    wrapped = wrap(model) if wrap else model
    core = getattr(wrapped, "module", wrapped)
    optimizer = make_optimizer(core.parameters(), recipe)
    run = {"recipe": repr(recipe), "seed": seed, "world_size": world_size, "images": len(data)}
    records = restore_state(core, optimizer, run, resume) if resume is not None else []
    placed = place_images(data, recipe.image_size, device, device_share)

    for epoch in range(len(records), recipe.epochs):
        facts = dict(facts_of_epoch(epoch)) if facts_of_epoch else {}
        start = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(recipe, epoch)
        batches = feed(placed, recipe, device, seed=seed, epoch=epoch, rank=rank, world_size=world_size)
        with _reproducible(network_seed(seed, epoch, rank), device), closing(batches):
            sums = _run_epoch(wrapped, optimizer, batches, recipe, loss_of_epoch(epoch), epoch, facts)
        _check_weights(core, epoch, facts)
        record = _record(epoch, recipe, _sum_over_ranks(sums, world_size), time.perf_counter() - start, facts)
        last = epoch == recipe.epochs - 1
        if evaluate is not None and rank == 0 and (last or (epoch + 1) % evaluate_every == 0):
            accuracy = evaluate_accuracy(core, evaluate, image_size=recipe.image_size, device=device)
            record = dataclasses.replace(record, test_acc=accuracy)
        records.append(record)
        if on_epoch:
            on_epoch(record, lambda: training_state(core, optimizer, run, records))
    return records


def batch_loss(
    model: nn.Module, batch: Batch, image_size: int, loss: Loss, *, precision: str = "fp32"
) -> tuple[Tensor, Tensor]:
    """The loss to call backward on (a scalar) and the float64 sums [loss, hits, logit gaps, images] of this part.

    precision: as in `TrainingRecipe`; with `bf16` the network's output is brought back to float32 for the loss.
    """
    images = network_input(batch, image_size)
    if precision == "bf16":
        with torch.autocast(images.device.type, dtype=torch.bfloat16):
            output = _in_float32(model(images))
    else:
        output = model(images)
    labels = batch.labels
    if isinstance(output, LogitsWithAuxiliary):
        value = loss(output.logits, labels) + _AUXILIARY_WEIGHT * loss(output.auxiliary, labels)
    else:
        value = loss(output, labels)
    with torch.no_grad():
        logits = (output if isinstance(output, Tensor) else output.logits).detach().double()
        true = logits.gather(1, labels[:, None]).squeeze(1)
        gap = true - (logits.sum(dim=1) - true) / (logits.shape[1] - 1)
        hits = (logits.argmax(dim=1) == labels).double().sum()
        count = len(labels)
        sums = torch.stack([value.detach().double() * count, hits, gap.sum(), hits.new_tensor(count)])
    return value * batch.weight, sums


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


def _in_float32(output: Any) -> Any:
    """What a network returned, tensors or (named) tuples of them, with every float tensor in float32."""
    if isinstance(output, Tensor):
        return output.float() if output.is_floating_point() else output
    if isinstance(output, tuple):
        items = [_in_float32(item) for item in output]
        return type(output)(*items) if hasattr(output, "_fields") else tuple(items)
    raise TypeError(f"precision bf16: expected a network that returns tensors or tuples of them, got {type(output)}")


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
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterator[Batch],
    recipe: TrainingRecipe,
    loss: Loss,
    epoch: int,
    facts: Mapping[str, float],
) -> Tensor:
    """One pass; returns the sums of `batch_loss` over this rank's images."""
    model.train()
    sums, pending = [], []
    for step, batch in enumerate(batches):
        optimizer.zero_grad(set_to_none=True)
        value, part = batch_loss(model, batch, recipe.image_size, loss, precision=recipe.precision)
        value.backward()
        optimizer.step()
        sums.append(part)
        pending.append(part[0])
        if value.device.type == "cpu" or len(pending) == _CHECK_EVERY:
            _check_losses(pending, epoch, step, facts)
            pending = []
    _check_losses(pending, epoch, len(sums) - 1, facts)
    return torch.stack(sums).sum(dim=0)


def _check_losses(losses: list[Tensor], epoch: int, last_step: int, facts: Mapping[str, float]) -> None:
    """Raise TrainingDiverged at the first loss that is not finite; the losses end with `last_step`."""
    if not losses:
        return
    for offset, value in enumerate(torch.stack(losses).tolist()):
        if not math.isfinite(value):
            step = last_step - len(losses) + 1 + offset
            raise TrainingDiverged(f"training diverged in epoch {epoch}, step {step}: loss {value}{_told(facts)}")


def _check_weights(model: nn.Module, epoch: int, facts: Mapping[str, float]) -> None:
    """A gradient can overflow while the loss before it is still finite."""
    named = dict(model.named_parameters())
    finite = torch.stack([p.detach().isfinite().all() for p in named.values()]).tolist()
    for name, good in zip(named, finite, strict=True):
        if not good:
            raise TrainingDiverged(
                f"training diverged in epoch {epoch}, last step: weight {name} is not finite{_told(facts)}"
            )


def _told(facts: Mapping[str, float]) -> str:
    return "".join(f", {name} {value:g}" for name, value in facts.items())


def _sum_over_ranks(sums: Tensor, world_size: int) -> Tensor:
    if world_size > 1:
        torch.distributed.all_reduce(sums)
    return sums


def _record(
    epoch: int, recipe: TrainingRecipe, sums: Tensor, seconds: float, facts: Mapping[str, float]
) -> EpochRecord:
    loss, hits, gap, count = sums.tolist()
    return EpochRecord(
        epoch=epoch,
        lr=learning_rate(recipe, epoch),
        loss=loss / count,
        train_acc=hits / count,
        seconds=seconds,
        extra={"top_logit_gap": gap / count, **facts},
    )
