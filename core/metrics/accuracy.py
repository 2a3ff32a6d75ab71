"""Accuracy of a judge on labelled images, and how it spreads over classes and over result slots.

Matches metrics/accuracy.py and metrics/classification_acc.py of LukasStruppek/Plug-and-Play-Attacks. The
paper quotes a standard deviation beside Acc@1 that no released code computes; both candidates are here
under names that say what they are. Its magnitudes fit `std_over_slots`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smoothsweep.core.errors import NotFinite


@dataclass(frozen=True, kw_only=True)
class TopKAccuracy:
    """Share of hits among the k best classes. `k` is below the wish if there are fewer classes: then 1.0."""

    value: float
    k: int
    n: int


@dataclass(frozen=True, kw_only=True)
class AccuracyReport:
    """All that one set of logits says about labelled images. Fractions in [0, 1]; None is not defined.

    Attributes:
        k5: The k behind top5, min(5, C).
        target_confidence: Mean probability of the label.
        target_confidence_of_hits: Over top-1 hits only; None without a hit.
        std_over_classes, std_over_slots: Deviations of top-1, with ddof 1; None for a single class or slot, and over
            slots also if the classes have different numbers of images.
    """

    n: int
    top1: float
    top5: float
    k5: int
    target_confidence: float
    target_confidence_of_hits: float | None
    std_over_classes: float | None
    std_over_slots: float | None


def topk_hits(logits: Tensor, labels: Tensor, k: int) -> Tensor:
    """Whether the label is among the k largest logits, bool [N]. Ties go to the lower class, as in argmax.

    logits: float [N, C], no NaN; labels: int64 [N]. Raises ValueError for k outside [1, C] or bad inputs.
    """
    _check(logits, labels)
    if not 1 <= k <= logits.shape[1]:
        raise ValueError(f"k: expected 1 <= k <= {logits.shape[1]} classes, got {k}")
    target = logits.gather(1, labels.unsqueeze(1))
    earlier = torch.arange(logits.shape[1], device=logits.device) < labels.unsqueeze(1)
    better = (logits > target) | ((logits == target) & earlier)
    return better.sum(dim=1) < k


def topk_accuracy(logits: Tensor, labels: Tensor, k: int) -> TopKAccuracy:
    """Share of `topk_hits` for min(k, C); the result says which k that was. At least one row is needed."""
    k = min(k, logits.shape[1])
    hits = topk_hits(logits, labels, k)
    return TopKAccuracy(value=_mean(hits), k=k, n=len(hits))


def top1_accuracy(logits: Tensor, labels: Tensor) -> float:
    """Share of rows whose largest logit is the label's."""
    return topk_accuracy(logits, labels, 1).value


def top5_accuracy(logits: Tensor, labels: Tensor) -> TopKAccuracy:
    """`topk_accuracy` for k = 5. With five classes or fewer it is 1.0 and says nothing; `k` tells."""
    return topk_accuracy(logits, labels, 5)


def target_confidence(logits: Tensor, labels: Tensor) -> Tensor:
    """Softmax probability of the label, float [N]."""
    _check(logits, labels)
    return logits.softmax(dim=1).gather(1, labels.unsqueeze(1)).squeeze(1)


def mean_target_confidence(logits: Tensor, labels: Tensor, *, hits_only: bool = False) -> float | None:
    """Mean `target_confidence` over all rows or over the top-1 hits; None if there is no hit."""
    confidence = target_confidence(logits, labels)
    if not hits_only:
        return _mean(confidence)
    hits = topk_hits(logits, labels, 1)
    return _mean(confidence[hits]) if hits.any() else None


def class_means(values: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Mean of `values` (numbers or bool, [N]) per class: (classes int64 [K] ascending, means float64 [K]).

    Computed and returned on the CPU: sums on a GPU come out in any order.
    """
    if values.ndim != 1 or values.shape != labels.shape:
        got = f"{tuple(values.shape)}, {tuple(labels.shape)}"
        raise ValueError(f"expected values [N] and labels [N], got {got}")
    classes, inverse, counts = torch.unique(labels.cpu(), return_inverse=True, return_counts=True)
    sums = torch.zeros(len(classes), dtype=torch.float64)
    return classes, sums.index_add(0, inverse, values.detach().cpu().to(torch.float64)) / counts


def result_slots(labels: Tensor) -> Tensor:
    """Position of every row within its class, int64 [N]: 0 for a class's first row, 1 for its second, ...

    With results stored best first, slot k holds the k-th best image of every class.
    """
    order = torch.argsort(labels, stable=True)
    _, counts = torch.unique_consecutive(labels[order], return_counts=True)
    first = torch.repeat_interleave(counts.cumsum(0) - counts, counts)
    slots = torch.empty_like(labels)
    slots[order] = torch.arange(len(labels), device=labels.device) - first
    return slots


def top5_of_last_slot(logits: Tensor, labels: Tensor) -> float:
    """Top-5 accuracy of the last row of every class alone: what LOMMA's evaluation reports as Acc@5, by a slip.

    Source: sutd-visual-computing-group/Re-thinking_MI, metrics/eval_accuracy.py.
    """
    slots, count = result_slots(labels), torch.bincount(labels, minlength=int(labels.max()) + 1)
    last = slots == count[labels] - 1
    return top5_accuracy(logits[last], labels[last]).value


def std_over_classes(hits: Tensor, labels: Tensor, *, ddof: int = 1) -> float | None:
    """Standard deviation of the accuracies of the classes; None with no more than `ddof` classes."""
    return _std(class_means(hits, labels)[1], ddof)


def std_over_slots(hits: Tensor, labels: Tensor, *, ddof: int = 1) -> float | None:
    """Standard deviation of the accuracies of the result slots; None with no more than `ddof` slots.

    Each slot's accuracy is over one image of every class. Raises ValueError unless all have equally many.
    """
    if not _equally_many(labels):
        raise ValueError("std over slots: expected equally many images of every class")
    return _std(class_means(hits, result_slots(labels))[1], ddof)


def accuracy_report(logits: Tensor, labels: Tensor) -> AccuracyReport:
    """Everything above for one set of logits [N, C] and labels [N], rows of a class best first."""
    hits = topk_hits(logits, labels, 1)
    top5 = top5_accuracy(logits, labels)
    return AccuracyReport(
        n=len(hits),
        top1=_mean(hits),
        top5=top5.value,
        k5=top5.k,
        target_confidence=_mean(target_confidence(logits, labels)),
        target_confidence_of_hits=mean_target_confidence(logits, labels, hits_only=True),
        std_over_classes=std_over_classes(hits, labels),
        std_over_slots=std_over_slots(hits, labels) if _equally_many(labels) else None,
    )


def _check(logits: Tensor, labels: Tensor) -> None:
    if logits.ndim != 2 or labels.shape != logits.shape[:1]:
        got = f"{tuple(logits.shape)}, {tuple(labels.shape)}"
        raise ValueError(f"expected logits [N, C] and labels [N], got {got}")
    if len(labels) and not 0 <= labels.min() <= labels.max() < logits.shape[1]:
        raise ValueError(f"labels: expected 0 to {logits.shape[1] - 1}, got {labels.min()} to {labels.max()}")
    if logits.isnan().any():  # NaN compares false with everything and would pass for a hit
        raise NotFinite("logits: expected numbers, got NaN")


def _equally_many(labels: Tensor) -> bool:
    return len(labels.unique(return_counts=True)[1].unique()) == 1


def _mean(values: Tensor) -> float:
    if not len(values):
        raise ValueError("expected at least one row, got none")
    return values.to(torch.float64).mean().item()


def _std(values: Tensor, ddof: int) -> float | None:
    return values.std(correction=ddof).item() if len(values) > ddof else None
