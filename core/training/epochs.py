"""The epochs of a training on one rank, and what they share: one pass over its images after the other."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.defenses.base import Defense
from smoothsweep.core.devices import repeatable_kernels
from smoothsweep.core.errors import TrainingDiverged
from smoothsweep.core.models.classifiers import Classifier
from smoothsweep.core.models.inference import evaluate_accuracy
from smoothsweep.core.models.optimizers import make_optimizer
from smoothsweep.core.models.recipe import TrainingRecipe, learning_rate
from smoothsweep.core.training.batches import Batch, Stamp, companion_generator, network_seed, rank_batches
from smoothsweep.core.training.feeding import feed, place_images
from smoothsweep.core.training.state import EpochRecord, restore_state, training_state
from smoothsweep.core.training.steps import PLAIN, EpochSettings, batch_loss

_CHECK_EVERY = 16  # steps between looks at the loss on a GPU, where every look waits for the device
_TAKEN = {"alpha", "logit_gap", "top_logit_gap", *(field.name for field in dataclasses.fields(EpochRecord))}


class Epochs:
    """The model, maybe wrapped for several ranks, with its optimizer and the images where `place_images` puts them."""

    def __init__(
        self,
        model: nn.Module,
        data: ImageSet,
        recipe: TrainingRecipe,
        defense: Defense,
        *,
        seed: int,
        device: torch.device,
        rank: int,
        world_size: int,
        device_share: float,
        stamp: Stamp | None = None,
    ) -> None:
        self.model: nn.Module = model
        core: Any = getattr(model, "module", model)
        self.core: Classifier = core
        self.recipe, self.defense, self.device = recipe, defense, device
        self.seed, self.rank, self.world_size = seed, rank, world_size
        self.optimizer = make_optimizer([p for p in self.core.parameters() if p.requires_grad], recipe)
        self.companion = defense.companion(self.core, recipe, generator=companion_generator(seed))
        self.images, self.stamp = place_images(data, recipe.image_size, device, device_share), stamp
        self.identity = {"recipe": repr(recipe), "seed": seed, "world_size": world_size, "images": len(data)}
        self.identity |= {} if defense == PLAIN else {"defense": repr(defense)}
        self.identity |= {} if stamp is None else {"stamped": int(stamp.chosen.sum())}

    def state(self, records: list[EpochRecord]) -> dict[str, Any]:
        """What `restored` takes: model, optimizer, history and the defense's companion, copied to the CPU."""
        return training_state(self.core, self.optimizer, self.identity, records, self.companion)

    def restored(self, resume: Mapping[str, Any] | None) -> list[EpochRecord]:
        """Go on from such a state, and return its records. Raises InputError if it is of another training."""
        if resume is None:
            return []
        return restore_state(self.core, self.optimizer, self.identity, resume, self.companion)

    def run(self, epoch: int, alpha: float) -> EpochRecord:
        """Train through the zero-based epoch with this smoothing factor. Raises TrainingDiverged."""
        start, seed, rank = time.perf_counter(), self.seed, self.rank
        settings = EpochSettings(
            recipe=self.recipe,
            defense=self.defense,
            alpha=alpha,
            epoch=epoch,
            seed=seed,
            rank=rank,
            companion=self.companion,
        )
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.recipe, epoch)
        mine = rank_batches(
            self.images.images,
            self.images.labels,
            self.recipe,
            seed=seed,
            epoch=epoch,
            rank=rank,
            world_size=self.world_size,
            sampler=self.defense.sampler,
            stamp=self.stamp,
        )
        batches = feed(self.images, mine, self.recipe.image_size, self.device)
        with _reproducible(network_seed(seed, epoch, rank), self.device), closing(batches):
            sums, facts = _run_epoch(self.model, self.optimizer, batches, settings)
        _check_weights(self.core, settings)
        return _record(settings, _sum_over_ranks(sums, self.world_size), facts, time.perf_counter() - start)

    def measured(self, record: EpochRecord, held_out: ImageSet) -> EpochRecord:
        """The record with the accuracy on these images."""
        accuracy = evaluate_accuracy(self.core, held_out, image_size=self.recipe.image_size, device=self.device)
        return dataclasses.replace(record, test_acc=accuracy)

    def end_with(self, record: EpochRecord, stop_when: Callable[[EpochRecord], bool] | None) -> bool:
        """Whether this epoch was the last. Rank 0 alone has measured the accuracy, so it decides for all."""
        if stop_when is None:
            return False
        decision = torch.tensor(float(self.rank == 0 and stop_when(record)), device=self.device)
        if self.world_size > 1:
            torch.distributed.broadcast(decision, src=0)
        return bool(decision)


@contextmanager
def _reproducible(seed: int, device: torch.device) -> Generator[None]:
    """Seed what the network draws itself, choose repeatable kernels, and leave torch's global state as it was."""
    with (
        torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
        repeatable_kernels(),
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
