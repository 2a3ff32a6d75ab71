"""Accuracy of a judge on labelled images, and how it spreads over classes and over result slots.

Matches metrics/accuracy.py and metrics/classification_acc.py of LukasStruppek/Plug-and-Play-Attacks. The paper quotes a
standard deviation beside Acc@1 that no released code computes; both candidates are here under names that say what they
are. Its magnitudes fit `std_over_slots`.

Knowledge extraction (`score_surrogate`): a surrogate classifier is trained on the reconstructions; its accuracy on the
target's real training and test images is the score (paper section 4.1; knowledge_extraction_score.py and
datasets/attack_latents.py of LukasStruppek/Plug-and-Play-Attacks).

Expected calibration error: how far confidences are from the accuracies they promise (Naeini et al., 2015). The paper
reports it with 10 bins and the l2 norm on the test split; its code for it was never released. We match torchmetrics'
multiclass calibration error, which its requirements pin.

The low-resolution attacks' own evaluations report GMI's two rates and spreads over restarts in batches of classes. GMI:
AI-secure/GMI-Attack, Celeba/attack.py. Spreads: sutd-visual-computing-group/Re-thinking_MI, metrics/eval_accuracy.py
(the mean of the batches' standard deviations); SCccc21/Knowledge-Enriched-DMI, recovery.py, and LetheSec/PLG-MI-Attack,
reconstruct.py (the mean of their variances, whose root is what tables print).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from smoothsweep.core.errors import InputError, NotFinite


@dataclass(frozen=True, kw_only=True)
class AccuracyReport:
    """What one set of logits says about labelled images. Fractions in [0, 1]; None is not defined.

    Attributes:
        top5: Of min(5, C) classes: with five classes or fewer it is 1 and says nothing.
        target_confidence: Mean probability of the label.
        std_over_classes, std_over_slots: Deviations of top-1, with ddof 1; None for a single class or slot, and over
            slots also if the classes have different numbers of images.
    """

    top1: float
    top5: float
    target_confidence: float
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


def topk_accuracy(logits: Tensor, labels: Tensor, k: int) -> float:
    """Share of `topk_hits` for min(k, C). At least one row is needed."""
    return _mean(topk_hits(logits, labels, min(k, logits.shape[1])))


def top1_accuracy(logits: Tensor, labels: Tensor) -> float:
    """Share of rows whose largest logit is the label's."""
    return topk_accuracy(logits, labels, 1)


def target_confidence(logits: Tensor, labels: Tensor) -> Tensor:
    """Softmax probability of the label, float [N]."""
    _check(logits, labels)
    return logits.softmax(dim=1).gather(1, labels.unsqueeze(1)).squeeze(1)


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
    return topk_accuracy(logits[last], labels[last], 5)


def accuracy_report(logits: Tensor, labels: Tensor) -> AccuracyReport:
    """Everything above for one set of logits [N, C] and labels [N], rows of a class best first."""
    hits = topk_hits(logits, labels, 1)
    equally_many = len(labels.unique(return_counts=True)[1].unique()) == 1
    return AccuracyReport(
        top1=_mean(hits),
        top5=topk_accuracy(logits, labels, 5),
        target_confidence=_mean(target_confidence(logits, labels)),
        std_over_classes=_std(class_means(hits, labels)[1]),
        std_over_slots=_std(class_means(hits, result_slots(labels))[1]) if equally_many else None,
    )


def _check(logits: Tensor, labels: Tensor) -> None:
    if logits.ndim != 2 or labels.shape != logits.shape[:1]:
        got = f"{tuple(logits.shape)}, {tuple(labels.shape)}"
        raise ValueError(f"expected logits [N, C] and labels [N], got {got}")
    if len(labels) and not 0 <= labels.min() <= labels.max() < logits.shape[1]:
        raise ValueError(f"labels: expected 0 to {logits.shape[1] - 1}, got {labels.min()} to {labels.max()}")
    if logits.isnan().any():  # NaN compares false with everything and would pass for a hit
        raise NotFinite("logits: expected numbers, got NaN")


def _mean(values: Tensor) -> float:
    if not len(values):
        raise ValueError("expected at least one row, got none")
    return values.to(torch.float64).mean().item()


def _std(values: Tensor) -> float | None:
    return values.std(correction=1).item() if len(values) > 1 else None


def score_surrogate(
    logits: Mapping[str, Tensor], labels: Mapping[str, Tensor], *, attacked: Tensor | None = None
) -> dict[str, float]:
    """Top-1 accuracies of the surrogate on the target's real images: {"xi_train", "xi_test"} in [0, 1].

    Args:
        logits: "train" and "test" -> float [N, C] of the surrogate on that split.
        labels: The same -> int64 [N].
        attacked: int64 classes that the surrogate has seen; rows of other classes, which it cannot know, are left out.
            None: all classes were attacked.

    Raises InputError if a split then has no image.
    """
    scores = {}
    for split, of_split in labels.items():
        known = torch.ones_like(of_split, dtype=torch.bool)
        if attacked is not None:
            known = torch.isin(of_split, attacked.to(of_split.device))
        if not known.any():
            raise InputError(f"knowledge extraction: no image of an attacked class in the {split} split")
        scores[f"xi_{split}"] = top1_accuracy(logits[split][known], of_split[known])
    return scores


def expected_calibration_error(logits: Tensor, labels: Tensor, *, protocol: str, bins: int) -> float:
    """Gap between the confidence in the predicted class and its accuracy, over equal-width bins, in [0, 1].

    Args:
        logits: Float [N, C].
        labels: int64 [N]. Bin b covers [b, b + 1) / bins; the root of the sum of share_b * gap_b^2 is returned.
        protocol: "clean" puts a confidence of exactly 1 into the last bin; "paper", like torchmetrics, into a bin of
            its own.

    It matters for very confident models: float32 softmax reaches exactly 1 once the other logits are some 17 below,
    which negative smoothing drives them to. Raises ValueError for bad shapes, or logits that are not finite.
    """
    _check(logits, labels)
    if not logits.isfinite().all():
        raise NotFinite("logits: expected finite numbers, got infinity")
    confidence, predicted = logits.softmax(dim=1).max(dim=1)
    confidence, correct = confidence.detach().cpu(), (predicted == labels).cpu()
    edges = torch.linspace(0, 1, bins + 1, dtype=confidence.dtype)
    index = torch.bucketize(confidence, edges, right=True) - 1
    index = index if protocol == "paper" else index.clamp(max=bins - 1)
    empty = torch.zeros(bins + 1, dtype=torch.float64)
    count = empty.index_add(0, index, torch.ones_like(confidence, dtype=torch.float64))
    surplus = empty.index_add(0, index, correct.to(torch.float64) - confidence.to(torch.float64))
    share, gap = count / count.sum(), surplus.abs() / count.clamp(min=1)
    return (share * gap**2).sum().sqrt().item()


Spread = Literal["deviation", "variance"]


def gmi_report(target_logits: Tensor, predicted: Tensor, labels: Tensor) -> tuple[float, float]:
    """GMI's own scoring of its restarts: the share of classes whose restart of the largest target logit is a hit, and
    that of classes with a hit in any restart, which its official code prints as "Acc5".

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
    return sum(right) / len(right), sum(anywhere) / len(anywhere)


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
