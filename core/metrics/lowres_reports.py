"""How the low-resolution attacks' own evaluations report hits: spreads over restarts in batches of classes, GMI's two.

GMI: AI-secure/GMI-Attack, Celeba/attack.py. Spreads: sutd-visual-computing-group/Re-thinking_MI,
metrics/eval_accuracy.py (the mean of the batches' standard deviations); SCccc21/Knowledge-Enriched-DMI, recovery.py,
and LetheSec/PLG-MI-Attack, reconstruct.py (the mean of their variances, whose root is what tables print).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from smoothsweep.core.metrics.accuracy import class_means

Spread = Literal["deviation", "variance"]


@dataclass(frozen=True, kw_only=True)
class GmiReport:
    """Accuracies as GMI's official code counts them.

    Attributes:
        acc: Share of classes whose restart of the largest target logit is a hit.
        acc_any: Share of classes with a hit in any restart, which that code prints as "Acc5". Both in [0, 1].
    """

    acc: float
    acc_any: float


def gmi_report(target_logits: Tensor, predicted: Tensor, labels: Tensor) -> GmiReport:
    """GMI's own scoring of its restarts.

    Args:
        target_logits: Float [N], the target's logit of the attacked class.
        predicted: int64 [N], the evaluator's class.
        labels: int64 [N]; the rows of a class in the order of its restarts.

    The search for the largest begins at 0 and at class 0: a class no restart of which has a positive logit counts as
    seen as class 0. Of equals the first counts.
    """
    if not target_logits.shape == predicted.shape == labels.shape or labels.ndim != 1:
        shapes = [tuple(values.shape) for values in (target_logits, predicted, labels)]
        raise ValueError(f"expected logits, predictions and labels [N], got {shapes}")
    if not len(labels) or target_logits.isnan().any():
        raise ValueError("expected at least one row and numbers, got none or NaN")
    right, anywhere = [], []
    for label in labels.unique():
        rows = (labels == label).nonzero()[:, 0]
        best = target_logits[rows].argmax()
        seen = predicted[rows[best]] if target_logits[rows[best]] > 0 else torch.zeros_like(label)
        right.append(bool(seen == label))
        anywhere.append(bool((predicted[rows] == label).any()))
    return GmiReport(acc=sum(right) / len(right), acc_any=sum(anywhere) / len(anywhere))


def spread_over_restarts(hits: Tensor, labels: Tensor, restarts: Tensor, *, classes: int, of: Spread) -> float | None:
    """The published spread of an accuracy: over restarts, taken in batches of classes and then averaged.

    Args:
        hits: bool [N].
        labels: int64 [N], the rows of each class together.
        restarts: int64 [N], which restart (or draw) of its class a row is.
        classes: Classes of a batch, in the order of the rows; the last one may be smaller.
        of: "deviation" averages the batches' standard deviations (n - 1), "variance" their variances, and takes the
            root.

    Returns a fraction like the hits; None for a single restart, or classes that do not have the same ones.
    """
    count = int(restarts.max()) + 1
    order = torch.unique_consecutive(labels)
    each_once = torch.stack([labels, restarts]).unique(dim=1).shape[1] == len(labels) == count * len(order)
    if count < 2 or not each_once:
        return None
    rates = []
    for batch in order.split(classes):
        rows = torch.isin(labels, batch)
        (share,) = class_means(hits[rows], restarts[rows])[1:]
        rates.append(share.var(correction=1))
    variances = torch.stack(rates)
    return float(variances.sqrt().mean() if of == "deviation" else variances.mean().sqrt())
