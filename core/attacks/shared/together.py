"""Classes side by side in one pass: when they may be, and whether each keeps the bits that it has by itself.

Whether networks give a row the same bits in a larger pass is a matter of the machine's kernels. So it is tried on the
networks, for the first, the middle and the last class of a pass.
"""

from __future__ import annotations

import torch
from torch import Tensor

from smoothsweep.core.attacks.optimisation.descent import Descent, StepGradient
from smoothsweep.core.attacks.shared.execution import Execution


def is_default_execution(run: Execution) -> bool:
    """Whether networks run as they do without a word of the user: what is computed at once is then ours to choose."""
    config = run.config
    return config.precision == "fp32" and not config.compile and config.rows_per_batch is None


def sample_positions(classes: int) -> list[int]:
    """The first, the middle and the last of so many: kernels treat the ends of a pass otherwise than the rest."""
    return sorted({0, classes // 2, classes - 1})


def same_bits(first: Tensor, other: Tensor) -> bool:
    """Whether two tensors are the same to the bit, what is not a number included."""
    if first.shape != other.shape or first.dtype != other.dtype:
        return False
    return torch.equal(*(tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (first, other)))


def same_tensors(first: Descent | StepGradient, other: Descent | StepGradient) -> bool:
    """Whether all tensors of both are the same to the bit."""
    return all(same_bits(part, getattr(other, name)) for name, part in vars(first).items())


def descent_rows(descent: Descent, rows: slice) -> Descent:
    """Some rows of a descent, as a descent."""
    return Descent(
        w=descent.w[rows],
        last_evaluated=descent.last_evaluated[rows],
        loss=descent.loss[:, rows],
        image_cosine=descent.image_cosine[:, rows],
        latent_cosine=descent.latent_cosine[:, rows],
        frozen=descent.frozen[rows],
    )
