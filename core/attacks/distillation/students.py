"""LOMMA's students: classifiers that learn the target's scores of public images.

sutd-visual-computing-group/Re-thinking_MI, engine.py train_augmodel. The target is asked as everybody else asks it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from smoothsweep.core.attacks.distillation.config import Distillation, StudentConfig
from smoothsweep.core.attacks.distillation.training import DistillationState
from smoothsweep.core.errors import TrainingDiverged
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.seeds import derive_seed, generator
from smoothsweep.core.training.gan_pair import descend


class Student(nn.Module):
    """A classifier that is known by its `config`: images [N, 3, S, S] in [-1, 1] -> logits [N, C]."""

    def __init__(self, config: StudentConfig, *, pretrained: bool = False, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.classifier = build_classifier(
            config.architecture, config.classes, protocol="clean", pretrained=pretrained, seed=seed
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(images)


def distillation_loss(logits: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
    """KL(teacher | student), mean over the batch, divided by temperature^2 as published (others multiply).

    logits, teacher: [B, C]; the teacher's logits, or the logarithms of its scores, which differ by a constant.
    """
    wanted, student_log_probabilities = (teacher / temperature).log_softmax(1), (logits / temperature).log_softmax(1)
    terms = torch.where(wanted.isneginf(), 0.0, wanted.exp() * (wanted - student_log_probabilities))
    return terms.sum(1).mean() / temperature**2


@dataclass(kw_only=True)
class StudentState(DistillationState[Distillation]):
    """A distillation under way."""

    KIND: ClassVar[str] = "student checkpoint"

    def identity(self) -> dict[str, Any]:
        """How it is distilled."""
        return {"settings": {**self.settings.settings, "architectures": list(self.settings.architectures)}}


def distil(
    state: StudentState,
    batch_at: Callable[[int], Tensor],
    teacher: Callable[[Tensor], Tensor],
    settings: Distillation,
    *,
    steps: int,
    per_epoch: int,
    on_step: Callable[[StudentState], None] = lambda state: None,
) -> None:
    """Take the steps that are left. batch_at: step -> images; teacher: images -> as `distillation_loss` wants it.

    What the student draws itself (dropout, stochastic depth) follows from the seed and the step. Raises
    TrainingDiverged with the step when a loss is not finite.
    """
    while state.step < steps:
        images = batch_at(state.step)
        devices = [images.device] if images.device.type == "cuda" else []
        for group in state.sgd.param_groups:
            group["lr"] = settings.lr_at(state.step // per_epoch)
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(derive_seed(settings.seed, "distil", state.step))
            loss = distillation_loss(state.network(images), teacher(images), settings.temperature)
        if not loss.isfinite():
            raise TrainingDiverged(f"distillation diverged at step {state.step}: loss {loss.item():.3g}")
        descend(state.sgd, loss)
        state.losses.append(loss.item())
        on_step(state)


class PublicBatches:
    """Batches in [-1, 1] of public images uint8 [N, 3, S, S], each epoch in an order of its own."""

    def __init__(self, images: Tensor, settings: Distillation, device: torch.device) -> None:
        self._images, self._settings, self._device = images, settings, device
        self.per_epoch = len(images) // settings.batch_size

    def at(self, step: int) -> Tensor:
        """The batch of a zero-based step, on the device."""
        epoch, place = divmod(step, self.per_epoch)
        numbers, count = generator(self._settings.seed, "distil order", epoch), self._settings.batch_size
        rows = torch.randperm(len(self._images), generator=numbers)[place * count : (place + 1) * count]
        return self._images[rows].to(self._device).float() / 127.5 - 1
