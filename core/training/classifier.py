"""Train a classifier: the loop over epochs and batches, one step, its records, and the state that it continues from."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.defenses.base import Defense, LabelSmoothing, MixedLabels, SmoothedLoss, Step
from smoothsweep.core.devices import channels_last, repeatable_kernels
from smoothsweep.core.errors import InputError, TrainingDiverged
from smoothsweep.core.models.architectures import check_image_size
from smoothsweep.core.models.classifiers import Classifier
from smoothsweep.core.models.inference import evaluate_accuracy
from smoothsweep.core.models.recipe import TrainingRecipe, learning_rate, make_optimizer
from smoothsweep.core.training.batches import (
    MIN_PER_RANK,
    Batch,
    Stamp,
    feed,
    network_input,
    place_images,
    rank_batches,
    training_generator,
    training_seed,
)


@dataclass(frozen=True, kw_only=True)
class EpochRecord:
    """One epoch: zero-based number, learning rate, mean training loss and accuracy (in training mode, augmented).

    Attributes:
        seconds: Wall-clock time without the held-out evaluation.
        test_acc: Accuracy on the held-out images, None when it was not measured in this epoch.
        extra: `top_logit_gap` (mean over the training images of the true class's logit minus the mean of the others),
            `alpha` (the epoch's smoothing factor) and the defense's facts, each a mean over the training images.
    """

    epoch: int
    lr: float
    loss: float
    train_acc: float
    seconds: float
    test_acc: float | None = None
    extra: dict[str, float] = field(default_factory=dict)


def _to_cpu(value: Any) -> Any:
    """A deep copy with every tensor on the CPU."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, Mapping):
        return {key: _to_cpu(item) for key, item in value.items()}
    return [_to_cpu(item) for item in value] if isinstance(value, list) else value


PLAIN = LabelSmoothing()


@torch.no_grad()
def _sums(loss: Tensor, logits: Tensor, labels: Tensor, facts: Iterable[Tensor]) -> Tensor:
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


# The epochs of a training on one rank, and what they share: one pass over its images after the other.


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
        self.companion = defense.companion(self.core, recipe, generator=training_generator(seed, "companion"))
        self.images, self.stamp = place_images(data, recipe.image_size, device, device_share), stamp
        self.identity = {"recipe": repr(recipe), "seed": seed, "world_size": world_size, "images": len(data)}
        self.identity |= {} if defense == PLAIN else {"defense": repr(defense)}
        self.identity |= {} if stamp is None else {"stamped": int(stamp.chosen.sum())}

    def state(self, records: list[EpochRecord]) -> dict[str, Any]:
        """What `restored` takes, copied to the CPU; plain enough for a `weights_only` load."""
        companion = {} if self.companion is None else {"companion": _to_cpu(self.companion.state_dict())}
        return {
            "model": _to_cpu(self.core.state_dict()),
            "optimizer": _to_cpu(self.optimizer.state_dict()),
            "epoch": len(records),
            "records": [dataclasses.asdict(record) for record in records],
            "run": dict(self.identity),
            **companion,
        }

    def restored(self, resume: Mapping[str, Any] | None) -> list[EpochRecord]:
        """Go on from such a state, and return its records. Raises InputError if it is of another training."""
        if resume is None:
            return []
        saved = resume["run"]
        for name in dict.fromkeys([*self.identity, *saved]):
            if (got := saved.get(name)) != (expected := self.identity.get(name)):
                raise InputError(f"resume: expected a state of {name} {expected}, got one of {got}")
        self.core.load_state_dict(resume["model"])
        self.optimizer.load_state_dict(resume["optimizer"])
        if self.companion is not None:
            self.companion.load_state_dict(resume["companion"])
        return [EpochRecord(**record) for record in resume["records"]]

    def run(self, epoch: int, alpha: float) -> EpochRecord:
        """Train through the zero-based epoch with this smoothing factor. Raises TrainingDiverged."""
        start, rate = time.perf_counter(), learning_rate(self.recipe, epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        mine = rank_batches(
            self.images.images,
            self.images.labels,
            self.recipe,
            seed=self.seed,
            epoch=epoch,
            rank=self.rank,
            world_size=self.world_size,
            sampler=self.defense.sampler,
            stamp=self.stamp,
        )
        batches = feed(self.images, mine, self.recipe.image_size, self.device)
        with _reproducible(training_seed(self.seed, "network", epoch, self.rank), self.device), closing(batches):
            sums, facts = self._steps(batches, epoch, alpha)
        self._check_weights(epoch, alpha)
        if self.world_size > 1:
            torch.distributed.all_reduce(sums)
        loss, hits, gap, count, *rest = sums.tolist()
        means = {name: value / count for name, value in zip(facts, rest, strict=True)}
        return EpochRecord(
            epoch=epoch,
            lr=rate,
            loss=loss / count,
            train_acc=hits / count,
            seconds=time.perf_counter() - start,
            extra={"top_logit_gap": gap / count, "alpha": alpha, **means},
        )

    def _steps(self, batches: Iterator[Batch], epoch: int, alpha: float) -> tuple[Tensor, tuple[str, ...]]:
        """The sums of `loss_of` over this rank's images, and the names of the facts among them."""
        self.model.train()
        sums, pending = [], []
        facts: tuple[str, ...] | None = None
        for step, batch in enumerate(batches):
            self.optimizer.zero_grad(set_to_none=True)
            value, part, names = self.loss_of(batch, epoch, alpha, step)
            facts = names if facts is None else facts
            if names != facts or _TAKEN & set(names):
                raise ValueError(f"facts: expected the same free names in every step, got {names} after {facts}")
            value.backward()
            self.optimizer.step()
            sums.append(part)
            pending.append(part[0])
            if value.device.type == "cpu" or len(pending) == _CHECK_EVERY:
                _check_losses(pending, step, epoch, alpha)
                pending = []
        _check_losses(pending, len(sums) - 1, epoch, alpha)
        return torch.stack(sums).sum(dim=0), facts or ()

    def loss_of(self, batch: Batch, epoch: int, alpha: float, step: int) -> tuple[Tensor, Tensor, tuple[str, ...]]:
        """The defense's loss of a batch, a scalar to call backward on; sums for the record; the names of the facts.

        sums: float64 [4 + facts] over this part's images, of the loss, the hits, the logit gaps, of ones, and of every
        fact that the defense reports. With precision `bf16` the network's output is brought back to float32 for the
        loss. Of mixed labels the dominant one is counted.
        """
        recipe, defense = self.recipe, self.defense

        def forward(images: Tensor) -> Any:
            if recipe.precision == "fp32":
                return self.model(images)
            with torch.autocast(images.device.type, dtype=torch.bfloat16):
                return _in_float32(self.model(images))

        generator = training_generator(self.seed, "alteration", epoch, step, self.rank)
        images, labels = defense.alter_batch(network_input(batch, recipe.image_size), batch.labels, generator)
        loss, logits, facts = defense.loss(
            Step(
                model=self.core,
                forward=forward,
                images=images.contiguous(memory_format=torch.channels_last),
                labels=labels,
                criterion=SmoothedLoss(alpha=alpha),
                epoch=epoch,
                epochs=recipe.epochs,
                generator=generator,
                batch_size=recipe.batch_size,
                companion=self.companion,
            )
        )
        counted = labels.dominant if isinstance(labels, MixedLabels) else labels
        return loss * batch.weight, _sums(loss, logits, counted, facts.values()), tuple(facts)

    def _check_weights(self, epoch: int, alpha: float) -> None:
        """A gradient can overflow while the loss before it is still finite."""
        named = dict(self.core.named_parameters())
        finite = torch.stack([p.detach().isfinite().all() for p in named.values()]).tolist()
        for name, good in zip(named, finite, strict=True):
            if not good:
                raise TrainingDiverged(
                    f"training diverged in epoch {epoch}, last step: weight {name} is not finite, alpha {alpha:g}"
                )

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


def _check_losses(losses: list[Tensor], last_step: int, epoch: int, alpha: float) -> None:
    """Raise TrainingDiverged at the first loss that is not finite; the losses end with `last_step`."""
    if not losses:
        return
    for offset, value in enumerate(torch.stack(losses).tolist()):
        if not math.isfinite(value):
            step = last_step - len(losses) + 1 + offset
            raise TrainingDiverged(f"training diverged in epoch {epoch}, step {step}: loss {value}, alpha {alpha:g}")


def train_classifier(
    model: nn.Module,
    data: ImageSet,
    recipe: TrainingRecipe,
    *,
    seed: int,
    defense: Defense = PLAIN,
    alpha_of_epoch: Callable[[int], float] = lambda epoch: 0.0,
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
    if recipe.batch_size < MIN_PER_RANK * world_size or len(data) < MIN_PER_RANK * world_size:
        raise InputError(
            f"training: expected at least {MIN_PER_RANK} images per worker in a batch, got batch size "
            f"{recipe.batch_size} and {len(data)} images for {world_size} workers"
        )
    num_classes = getattr(model, "num_classes", None)
    if num_classes is not None and data.num_classes > num_classes:
        raise InputError(f"training: expected at most {num_classes} classes, got {data.num_classes} in the data")
    check_image_size(recipe.architecture, recipe.image_size)
    if defense.alone is not None and world_size > 1:
        raise InputError(f"defense {type(defense).__name__}: expected one worker, got {world_size}: {defense.alone}")
    reason = defense.combines_with_smoothing
    if reason is not None and any(alpha_of_epoch(epoch) for epoch in range(recipe.epochs)):
        raise InputError(f"defense {type(defense).__name__}: expected no label smoothing: {reason}")
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
    records, every = epochs.restored(resume), 1 if stop_when else evaluate_every
    stopped = bool(records) and epochs.end_with(records[-1], stop_when)
    while len(records) < recipe.epochs and not stopped:
        record = epochs.run(len(records), alpha_of_epoch(len(records)))
        done = len(records) + 1
        if evaluate is not None and rank == 0 and (done == recipe.epochs or done % every == 0):
            accuracy = evaluate_accuracy(epochs.core, evaluate, image_size=recipe.image_size, device=device)
            record = dataclasses.replace(record, test_acc=accuracy)
        records.append(record)
        if on_epoch:
            on_epoch(record, lambda: epochs.state(records))
        stopped = epochs.end_with(record, stop_when)
    return records
