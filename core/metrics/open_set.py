"""A judge on the features of a face embedder that was not trained on the private classes.

The paper's evaluation model is trained on the same images as the target. This judge uses the features of any embedder
instead: a logistic regression on unit-length features of real images, or, without anything to tune, the cosine to each
class's mean direction.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from smoothsweep.core.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Head:
    """A linear read-out of unit-length features.

    Attributes:
        weight: float32 [C, D].
        bias: float32 [C].
    """

    weight: Tensor
    bias: Tensor


def fit_head(
    features: Tensor, labels: Tensor, *, seed: int, inverse_penalty: float = 30.0, max_iterations: int = 1000
) -> Head:
    """Multinomial logistic regression on unit-length features, fitted on the CPU in float64 by L-BFGS.

    Args:
        features: Float [N, D] of real images, any length but 0.
        labels: int64 [N], every class of 0..C-1 present, C at least 2.
        inverse_penalty: Scikit-learn's C. Unit-length features need a weak penalty: at 1 the head leans to classes with
            many images, between 30 and 100 it no longer does.
        seed: Seed of the order of rows. The problem is convex, so it changes only the last digits.


    Raises InputError for a missing class, RuntimeError if the fit does not converge, ValueError for bad features.
    """
    from sklearn.exceptions import ConvergenceWarning  # scikit-learn takes a second, and most workers never fit
    from sklearn.linear_model import LogisticRegression

    classes = _class_count(features, labels)
    unit = _unit(features).double().cpu().numpy()
    order = np.random.default_rng(seed).permutation(len(unit))
    model = LogisticRegression(C=inverse_penalty, tol=1e-6, max_iter=max_iterations)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            model.fit(unit[order], labels.cpu().numpy()[order])
        except ConvergenceWarning as warning:
            raise RuntimeError(f"judge head: not converged after {max_iterations} iterations") from warning
    weight, bias = torch.from_numpy(model.coef_), torch.from_numpy(model.intercept_)
    if classes == 2:  # scikit-learn keeps one row, the log odds of class 1
        weight, bias = torch.cat([-weight, weight]) / 2, torch.cat([-bias, bias]) / 2
    return Head(weight=weight.float().contiguous(), bias=bias.float().contiguous())


def fit_class_means(features: Tensor, labels: Tensor) -> Head:
    """A head whose logits are the cosines to the mean direction of each class, in [-1, 1].

    features, labels: as in `fit_head`; a single class will do. The largest logit is the nearest class mean;
    the softmax of cosines is no calibrated probability. Raises as `fit_head`, and ValueError if features
    cancel out.
    """
    classes = _class_count(features, labels, least=1)
    unit = _unit(features).double().cpu()
    sums = torch.zeros(classes, unit.shape[1], dtype=torch.float64).index_add(0, labels.cpu(), unit)
    return Head(weight=_unit(sums).float(), bias=torch.zeros(classes))


def head_logits(head: Head, features: Tensor) -> Tensor:
    """Logits float32 [N, C] for features [N, D] of any length but 0, on the features' device."""
    weight, bias = head.weight.to(features.device), head.bias.to(features.device)
    return _unit(features).float() @ weight.T + bias


def _class_count(features: Tensor, labels: Tensor, *, least: int = 2) -> int:
    if features.ndim != 2 or labels.shape != features.shape[:1] or not len(labels):
        got = f"{tuple(features.shape)}, {tuple(labels.shape)}"
        raise ValueError(f"judge head: expected features [N, D] and labels [N], got {got}")
    present = set(labels.tolist())
    if min(present) < 0:
        raise ValueError(f"judge head: expected labels from 0, got {min(present)}")
    classes = max(present) + 1
    missing = sorted(set(range(classes)) - present)
    if missing:
        raise InputError(f"judge head: no real image of class {', '.join(map(str, missing))}")
    if classes < least:
        raise InputError(f"judge head: expected at least {least} classes, got {classes}")
    return classes


def _unit(features: Tensor) -> Tensor:
    features = features if features.dtype == torch.float64 else features.float()
    length = features.norm(dim=1, keepdim=True)
    if not features.isfinite().all() or (length == 0).any():
        raise ValueError("judge head: expected finite features of a length above 0")
    return features / length
