"""Expected calibration error: how far confidences are from the accuracies they promise (Naeini et al., 2015).

The paper reports it with 10 bins and the l2 norm on the test split; its code for it was never released. We
match torchmetrics' multiclass calibration error, which its requirements pin.
"""

from __future__ import annotations

import torch
from torch import Tensor

from smoothsweep.core.errors import NotFinite

NORMS = ("l1", "l2", "max")
SCORES = ("logits", "probabilities")
PROTOCOLS = ("clean", "paper")


def expected_calibration_error(
    scores: Tensor,
    labels: Tensor,
    *,
    protocol: str,
    bins: int = 10,
    norm: str = "l2",
    scores_are: str = "logits",
) -> float:
    """Gap between the confidence in the predicted class and its accuracy, over equal-width bins.

    Args:
        scores: Float [N, C], softmaxed first if `scores_are` "logits"; "probabilities" must be in [0, 1] and sum to 1.
        labels: int64 [N]. Bin b covers [b, b + 1) / bins.
        norm: "l1": sum of share_b * gap_b; "l2": root of the sum of share_b * gap_b^2; "max": the largest gap.
        protocol: "clean" puts a confidence of exactly 1 into the last bin; "paper", like torchmetrics, into a bin of
            its own.

    It matters for very confident models: float32 softmax reaches exactly 1 once the other logits are some 17 below,
    which negative smoothing drives them to.

    Returns a number in [0, 1]. Raises ValueError for bad shapes, options or scores.
    """
    for name, value, valid in (
        ("norm", norm, NORMS),
        ("scores_are", scores_are, SCORES),
        ("protocol", protocol, PROTOCOLS),
    ):
        if value not in valid:
            raise ValueError(f"{name}: expected one of {', '.join(valid)}, got {value!r}")
    if bins < 1:
        raise ValueError(f"bins: expected at least 1, got {bins}")
    confidence, predicted = _probabilities(scores, labels, scores_are).max(dim=1)
    correct = (predicted == labels).cpu()
    share, gap = _bin_gaps(confidence.detach().cpu(), correct, bins, own_bin_for_one=protocol == "paper")
    if norm == "l1":
        return (share * gap).sum().item()
    return (share * gap**2).sum().sqrt().item() if norm == "l2" else gap.max().item()


def _probabilities(scores: Tensor, labels: Tensor, scores_are: str) -> Tensor:
    if scores.ndim != 2 or labels.shape != scores.shape[:1] or not len(labels):
        got = f"{tuple(scores.shape)}, {tuple(labels.shape)}"
        raise ValueError(f"expected scores [N, C] and labels [N] with N of at least 1, got {got}")
    if not scores.isfinite().all():
        raise NotFinite("scores: expected finite numbers, got NaN or infinity")
    if scores_are == "logits":
        return scores.softmax(dim=1)
    sums_to_one = torch.allclose(scores.sum(dim=1), scores.new_ones(len(scores)), atol=1e-3)
    if scores.min() < 0 or scores.max() > 1 or not sums_to_one:
        raise ValueError("scores: expected probabilities in [0, 1] that sum to 1 in every row")
    return scores


def _bin_gaps(confidence: Tensor, correct: Tensor, bins: int, *, own_bin_for_one: bool) -> tuple[Tensor, Tensor]:
    """Share of the rows and |accuracy - mean confidence| of every bin, float64; both 0 for an empty bin."""
    edges = torch.linspace(0, 1, bins + 1, dtype=confidence.dtype)
    index = torch.bucketize(confidence, edges, right=True) - 1
    if not own_bin_for_one:
        index = index.clamp(max=bins - 1)
    empty = torch.zeros(bins + 1, dtype=torch.float64)
    count = empty.index_add(0, index, torch.ones_like(confidence, dtype=torch.float64))
    surplus = empty.index_add(0, index, correct.to(torch.float64) - confidence.to(torch.float64))
    return count / count.sum(), surplus.abs() / count.clamp(min=1)
