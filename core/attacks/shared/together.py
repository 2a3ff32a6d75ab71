"""Whether classes may be computed together in one pass without changing a bit of any class's result.

It depends on the machine's kernels whether a network gives a row the same bits in a larger pass. So this is tested with
the networks themselves, on the first, the middle and the last class of a pass.
"""

from __future__ import annotations

import torch
from torch import Tensor

from smoothsweep.core.attacks.optimisation.descent import Descent, StepGradient
from smoothsweep.core.attacks.shared.execution import Execution


def is_default_execution(run: Execution) -> bool:
    """Whether the user left the execution at its defaults, so that the batching is ours to choose."""
    config = run.config
    return config.precision == "fp32" and not config.compile and config.rows_per_batch is None


def sample_positions(classes: int) -> list[int]:
    """Indices of the first, the middle and the last class: kernels may treat the ends of a pass differently."""
    return sorted({0, classes // 2, classes - 1})


def same_bits(first: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal bit by bit, NaN included."""
    if first.shape != other.shape or first.dtype != other.dtype:
        return False
    return torch.equal(*(tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (first, other)))


def same_tensors(first: Descent | StepGradient, other: Descent | StepGradient) -> bool:
    """Whether all tensors of both are equal bit by bit."""
    return all(same_bits(part, getattr(other, name)) for name, part in vars(first).items())


def descent_rows(descent: Descent, rows: slice) -> Descent:
    """The descent of these rows alone."""
    return Descent(
        w=descent.w[rows],
        last_evaluated=descent.last_evaluated[rows],
        loss=descent.loss[:, rows],
        image_cosine=descent.image_cosine[:, rows],
        latent_cosine=descent.latent_cosine[:, rows],
        frozen=descent.frozen[rows],
    )
