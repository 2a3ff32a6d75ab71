"""Training of a surrogate: cross-entropy with the target's answers, on changed views of pictures and on themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from smoothsweep.core.attacks.distillation.training import DistillationState
from smoothsweep.core.attacks.optimisation.crops import apply_crops, draw_crop_per_image
from smoothsweep.core.attacks.surrogate.config import VIEWS, SurrogateTraining
from smoothsweep.core.errors import TrainingDiverged
from smoothsweep.core.seeds import derive_seed, generator


@dataclass(frozen=True, kw_only=True)
class SurrogateData:
    """What a surrogate learns from.

    Attributes:
        pictures: uint8 [N, 3, S, S].
        answers: float32 [N, C], a distribution each (of a label alone a one).
        weights: float32 [N], see `answer_weights`.
    """

    pictures: Tensor
    answers: Tensor
    weights: Tensor


def answer_weights(answers: Tensor, balance: float) -> Tensor:
    """The weight [N] of each of the answers [N, C]: (1 - b) / (1 - b^(n + 1)), n of its class; of mean 1.

    The official SMILE multiplies the mean loss of a batch by such weights, which weighs no picture against another.
    """
    decided = answers.argmax(1)
    counts = decided.bincount(minlength=answers.shape[1])[decided].double()
    weights = (1 - balance) / (1 - balance ** (counts + 1))
    return (weights / weights.mean()).float()


@dataclass(kw_only=True)
class SurrogateState(DistillationState):
    """A training under way."""

    KIND: ClassVar[str] = "surrogate checkpoint"

    settings: SurrogateTraining
    number: int

    def identity(self) -> dict[str, Any]:
        """How it is trained, and which of the networks it is."""
        settings = {**asdict(self.settings), "architectures": list(self.settings.architectures)}
        return {"settings": settings, "number": self.number}


def teach(
    state: SurrogateState,
    lesson: SurrogateData,
    device: torch.device,
    on_step: Callable[[SurrogateState], None] = lambda state: None,
) -> None:
    """Take the steps that are left. Every draw follows from the seed, the network's number and the step.

    Raises TrainingDiverged with the step when a loss is not finite.
    """
    settings, steps = state.settings, state.settings.steps(len(lesson.pictures))
    while state.step < steps:
        rows = _batch_rows(state, len(lesson.pictures))
        for group in state.sgd.param_groups:
            group["lr"] = settings.lr_at(state.step, steps)
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(derive_seed(settings.seed, "surrogate", state.number, state.step))
            loss = _loss(state, lesson, rows, device)
        if not loss.isfinite():
            raise TrainingDiverged(f"surrogate {state.number} diverged at step {state.step}: loss {loss.item():.3g}")
        state.sgd.zero_grad()
        loss.backward()
        state.sgd.step()
        state.losses.append(loss.item())
        on_step(state)


def _batch_rows(state: SurrogateState, count: int) -> Tensor:
    size = state.settings.batch_size
    epoch, place = divmod(state.step, count // size)
    order = torch.randperm(count, generator=generator(state.settings.seed, "surrogate order", state.number, epoch))
    return order[place * size : (place + 1) * size]


def _loss(state: SurrogateState, lesson: SurrogateData, rows: Tensor, device: torch.device) -> Tensor:
    """Loss on a view of each picture, and half of it on the pictures themselves where they are shown: in one pass."""
    pictures = lesson.pictures[rows].to(device).float() / 127.5 - 1
    source = generator(state.settings.seed, "surrogate view", state.number, state.step)
    views = draw_crop_per_image(VIEWS, len(rows), *pictures.shape[2:], source)
    changed = apply_crops(pictures, views, pictures.shape[-1])
    batch = torch.cat([pictures, changed]) if state.settings.shown == "both" else changed
    answers, weights = (
        part[rows].to(device).repeat(len(batch) // len(rows), *[1] * (part.ndim - 1))
        for part in (lesson.answers, lesson.weights)
    )
    per_picture = -(answers * state.network(batch).log_softmax(1)).sum(1)
    return (weights * per_picture).sum() / weights.sum()
