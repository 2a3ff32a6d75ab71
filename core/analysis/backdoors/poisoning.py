"""Which training images are poisoned."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from smoothsweep.core.analysis.backdoors.settings import PoisonSettings


def poisoned_rows(settings: PoisonSettings, count: int, generator: Generator) -> Tensor:
    """int64, ascending: the rows of `count` training images that are poisoned, whatever their class.

    Raises InputError where the share is less than one image or all of them.
    """
    return torch.randperm(count, generator=generator)[: settings.count_of(count)].sort().values


def poisoned_labels(labels: Tensor, rows: Tensor, target: int) -> Tensor:
    """The labels with the target class in these rows."""
    changed = labels.clone()
    changed[rows] = target
    return changed
