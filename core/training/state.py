"""What a training records of its epochs, and the state that it continues from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from smoothsweep.core.errors import InputError


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


def training_state(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    run: Mapping[str, Any],
    records: list[EpochRecord],
    companion: nn.Module | None = None,
) -> dict[str, Any]:
    """Everything that resuming needs, copied to the CPU; plain enough for a `weights_only` load."""
    companion_state = {} if companion is None else {"companion": _to_cpu(companion.state_dict())}
    return {
        "model": _to_cpu(model.state_dict()),
        "optimizer": _to_cpu(optimizer.state_dict()),
        "epoch": len(records),
        "records": [dataclasses.asdict(record) for record in records],
        "run": dict(run),
        **companion_state,
    }


def _to_cpu(value: Any) -> Any:
    """A deep copy with every tensor on the CPU."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, Mapping):
        return {key: _to_cpu(item) for key, item in value.items()}
    return [_to_cpu(item) for item in value] if isinstance(value, list) else value


def restore_state(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    run: Mapping[str, Any],
    resume: Mapping[str, Any],
    companion: nn.Module | None = None,
) -> list[EpochRecord]:
    """Load a state of `training_state` and return its records. Raises InputError if it belongs to another training."""
    saved = resume["run"]
    for name in [*run, *(name for name in saved if name not in run)]:
        if saved.get(name) != run.get(name):
            raise InputError(f"resume: expected a state of {name} {run.get(name)}, got one of {saved.get(name)}")
    model.load_state_dict(resume["model"])
    optimizer.load_state_dict(resume["optimizer"])
    if companion is not None:
        companion.load_state_dict(resume["companion"])
    return [EpochRecord(**record) for record in resume["records"]]
