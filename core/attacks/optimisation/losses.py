"""What an attack minimises on the target's logits, one value per sample.

A new objective is one function and one entry of `ATTACK_LOSSES`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from smoothsweep.core.errors import InputError

Protocol = Literal["paper", "clean"]

_NO_LOGITS = 1e-20  # a row whose largest |logit| is below this counts as all zero


def poincare_loss(
    logits: Tensor,
    targets: Tensor,
    *,
    xi: float = 1e-4,
    norm: Literal["analytic", "computed"] = "analytic",
) -> Tensor:
    """Hyperbolic distance between the normalised logits and the (slightly shrunk) one-hot target.

    With u = logits / ||logits||_1 (raw, signed) and v = one-hot - xi clipped to [0, 1]: arcosh(1 + 2 ||u - v||^2 / ((1
    - ||u||^2)(1 - ||v||^2))). Paper appendix B.4, eq. 16.

    Args:
        logits: Float [N, C], any scale.
        targets: int64 [N].
        xi: How far v's largest entry lies below 1, in (0, 1).

    Returns float [N], in float32 at least. The value does not depend on the scale of the logits.

    `norm` says how the two factors of the denominator come about. "computed" subtracts squared norms from 1 in single
    precision, as `LukasStruppek/Plug-and-Play-Attacks` losses/poincare.py does: 1 - ||v||^2 is then 1.9999e-4 only up
    to rounding, which shifts the loss by about 2.2e-4. "analytic" uses xi (2 - xi) and a form of 1 - ||u||^2 without
    cancellation.

    Values and gradients are finite for finite logits: all-zero logits give u = 0 (the value of an undecided model,
    9.903), and 1 - ||u||^2 is not allowed below the machine epsilon (a single non-zero logit).
    """
    _check(logits, targets)
    if not 0 < xi < 1:
        raise InputError(f"xi: expected a number in (0, 1), got {xi}")
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    u = _unit_l1(logits)
    one_hot = F.one_hot(targets, logits.shape[1])
    v = (one_hot.to(torch.float32) - xi).clamp(0, 1) if norm == "computed" else one_hot.to(u.dtype) * (1 - xi)
    if norm == "computed":
        gap_u, gap_v = 1 - u.square().sum(1), 1 - v.square().sum(1)
    else:
        gap_u, gap_v = _one_minus_square_norm(u), torch.full_like(u[:, 0], xi * (2 - xi))
    gap_u = gap_u.clamp_min(torch.finfo(u.dtype).eps)
    excess = (2 * (u - v).square().sum(1) / (gap_u * gap_v)).clamp_min(torch.finfo(u.dtype).tiny)
    # arcosh(1 + e), in the form that stays exact for a small e
    return torch.log1p(excess + (excess * (excess + 2)).sqrt())


def cross_entropy_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """-log softmax(logits)[target] per sample (the variant of the paper's Fig. 7).

    logits: float [N, C]; targets: int64 [N]. Returns float [N].
    """
    _check(logits, targets)
    return F.cross_entropy(logits, targets, reduction="none")


def max_margin_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """The largest logit of another class minus the target's own (LetheSec/PLG-MI-Attack, losses.py).

    logits: float [N, C], C at least 2; targets: int64 [N]. Returns float [N]; it has no bottom, and never saturates.
    """
    _check(logits, targets)
    if logits.shape[1] < 2:
        raise InputError(f"logits: expected at least 2 classes for a margin, got {logits.shape[1]}")
    others = logits.scatter(1, targets[:, None], -torch.inf)
    return others.amax(1) - logits.gather(1, targets[:, None])[:, 0]


def logit_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Minus the target's logit, whatever the others are (sutd-visual-computing-group/Re-thinking_MI, attack.py).

    logits: float [N, C]; targets: int64 [N]. Returns float [N]; it has no bottom, and never saturates.
    """
    _check(logits, targets)
    return -logits.gather(1, targets[:, None])[:, 0]


def feature_pull(features: Tensor, mean: Tensor) -> Tensor:
    """Mean squared distance to `mean` [D] over the dimensions, [N] of features [N, D]: LOMMA's term beside a loss.

    sutd-visual-computing-group/Re-thinking_MI (attack.py) draws a feature from the estimated distribution, and then
    overwrites it by the mean; so the mean alone is used.
    """
    return (features - mean).square().mean(1)


ATTACK_LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross_entropy": cross_entropy_loss,
    "logit": logit_loss,
    "max_margin": max_margin_loss,
    "poincare": poincare_loss,
}


def attack_loss(name: str, protocol: Protocol) -> Callable[[Tensor, Tensor], Tensor]:
    """The loss called `name`: (logits [N, C], targets [N]) -> [N]. Raises InputError for another name.

    Under protocol paper the Poincaré loss has the rounding of the official code.
    """
    if name not in ATTACK_LOSSES:
        raise InputError(f"attack loss: expected one of {', '.join(sorted(ATTACK_LOSSES))}, got {name!r}")
    if name == "poincare" and protocol == "paper":
        return partial(poincare_loss, norm="computed")
    return ATTACK_LOSSES[name]


def _unit_l1(logits: Tensor) -> Tensor:
    # The result does not depend on the scale, so dividing by a constant first changes neither value nor
    # gradient; it only keeps the L1 norm of very large or very small logits inside the range of the type.
    largest = logits.detach().abs().amax(1, keepdim=True)
    empty = largest < _NO_LOGITS
    scaled = logits / largest.masked_fill(empty, 1)
    return scaled / scaled.abs().sum(1, keepdim=True).masked_fill(empty, 1)


def _one_minus_square_norm(u: Tensor) -> Tensor:
    # For ||u||_1 = 1 and r = the mass outside the largest entry: 1 - ||u||^2 = 2r - r^2 - (squares of the
    # rest).
    magnitude = u.abs()
    total = magnitude.detach().sum(1)
    rest = magnitude.scatter(1, magnitude.argmax(1, keepdim=True), 0.0)
    mass = rest.sum(1)
    gap = 2 * mass - mass.square() - rest.square().sum(1)
    return torch.where(total > 0.5, gap, 1 - magnitude.square().sum(1))


def _check(logits: Tensor, targets: Tensor) -> None:
    if logits.ndim != 2 or not logits.is_floating_point():
        raise InputError(f"logits: expected float [N, C], got {logits.dtype} {tuple(logits.shape)}")
    if targets.dtype != torch.int64 or targets.shape != logits.shape[:1]:
        raise InputError(f"targets: expected int64 [{len(logits)}], got {targets.dtype} {tuple(targets.shape)}")
