"""Label smoothing with any factor up to 1, negative ones included.

Positive factors are Szegedy et al. (2016), negative ones Wei et al. (2022); the paper uses both (section 2.2,
Eqs. 2 and 3). torch's own `label_smoothing=` must not be used here: given class indices and a negative factor
it returns plain cross entropy without a word.
"""

from __future__ import annotations

import torch
from torch import Tensor

from smoothsweep.core.defenses.alpha import check_alpha

REDUCTIONS = ("mean", "sum", "none")


def smoothed_targets(labels: Tensor, num_classes: int, alpha: float) -> Tensor:
    """Target vectors (1 - alpha) * onehot + alpha / C, float32 [N, C] (Eq. 2). Every row sums to 1.

    labels: int64 [N] in [0, num_classes). For alpha < 0 the entries leave [0, 1]: no longer a distribution.
    Raises InputError for an alpha above 1 or not finite.
    """
    alpha = check_alpha(alpha)
    onehot = torch.nn.functional.one_hot(labels, num_classes).to(torch.float32)
    return (1 - alpha) * onehot + alpha / num_classes


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, alpha: float, *, reduction: str = "mean") -> Tensor:
    """Cross entropy against smoothed targets (Eq. 3), for every alpha in (-inf, 1].

    logits: float [N, C] (half precision is computed in float32); labels: int64 [N].
    Returns a scalar for reduction "mean" (over N) or "sum", [N] for "none". With alpha < 0 the loss has no
    lower bound. Matches losses/label_smoothing.py of LukasStruppek/Plug-and-Play-Attacks for alpha < 0 and
    torch's built-in criterion for alpha >= 0.
    Raises InputError for an alpha above 1 or not finite, ValueError for wrong shapes or an unknown reduction.
    """
    alpha = check_alpha(alpha)
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction: expected one of {', '.join(REDUCTIONS)}, got {reduction!r}")
    if logits.ndim != 2 or labels.shape != logits.shape[:1]:
        got = f"{tuple(logits.shape)}, {tuple(labels.shape)}"
        raise ValueError(f"expected logits [N, C] and labels [N], got {got}")
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    log_probabilities = torch.log_softmax(logits, dim=1)
    loss = -log_probabilities.gather(1, labels.unsqueeze(1)).squeeze(1)
    if alpha != 0:  # the uniform term would turn a logit of -inf into 0 * inf
        loss = (1 - alpha) * loss - alpha * log_probabilities.mean(dim=1)
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()
