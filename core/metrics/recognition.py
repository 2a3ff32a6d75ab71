"""What a face recogniser with given features says of images: accepts at stated false-accept rates, ranks, and its word
on photographs that were projected into a prior.

The paper's evaluation model is trained on the same images as the target. A judge by features (`fit_head`) uses those of
any embedder instead: a logistic regression on unit-length features of real images, or, without anything to tune, the
cosine to each class's mean direction.

Verification asks whether a face recogniser accepts an image as a given person. A closed-set judge must name one of N
people, so it names one whatever it is shown. A recogniser compares an image with one person's template and accepts it
above a threshold. The threshold is set on photographs of strangers, so that the recogniser accepts a stated fraction of
them (the false-accept rate, ISO/IEC 19795-1). Images that it accepts show the person as well as a photograph would have
to.

Scores are cosines, in [-1, 1]: the more alike, the larger.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.metric import FIRST, RATES, strangers_needed


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


def unit(features: Tensor) -> Tensor:
    """Rows scaled to length 1, float64. Raises ValueError for rows that are not finite, or of length 0."""
    return _unit(features.double())


GALLERY = 500
"""Strangers that a rank is among."""


def accept_threshold(impostors: Tensor, false_accepts: float) -> float:
    """The smallest score above which at most the fraction `false_accepts` of the impostor scores lies.

    impostors: float [N], scores of strangers, N at least 1; false_accepts: in (0, 1). A score is accepted if it is
    larger than the threshold, so of equal scores either all are accepted or none, and the rate is kept on
    `impostors` whatever the ties. Raises InputError for no scores, or scores that are not finite.
    """
    if impostors.ndim != 1 or not len(impostors) or not impostors.isfinite().all():
        raise InputError(f"impostor scores: expected finite numbers [N], got {list(impostors.shape)}")
    allowed = int(false_accepts * len(impostors) + 1e-9)  # .01 of 100 scores is 1, whatever the rounding
    return float(impostors.double().sort(descending=True).values[allowed])


def accepted(scores: Tensor, threshold: float) -> Tensor:
    """Whether each score is accepted, bool of the scores' shape."""
    return scores.double() > threshold


def template_scores(features: Tensor, templates: Tensor, labels: Tensor) -> Tensor:
    """Cosine of each row with its own person's template, float64 [M].

    Args:
        features: [M, D] of any length but 0.
        templates: [C, D] of length 1.
        labels: int64 [M], in 0..C-1.
    """
    return (unit(features) * templates.double()[labels]).sum(dim=1)


def all_scores(features: Tensor, templates: Tensor) -> Tensor:
    """Cosine of each row with each person's template, float64 [M, C]."""
    return unit(features) @ templates.double().T


def gallery_ranks(features: Tensor, labels: Tensor, own: Tensor, own_labels: Tensor, strangers: Tensor) -> Tensor:
    """The rank at which a search by each image finds a photograph of its person among those of 500 strangers.

    Args:
        features: [M, D], labels: int64 [M].
        own: [P, D], photographs of the people, own_labels: int64 [P], each label present.
        strangers: [S, D].

    Returns float64 [M] in [1, 501]: 1 plus 500 times the fraction of strangers that are nearer than a photograph of the
    person, the median over the person's photographs. So the rank is that expected in a gallery of 500 drawn from the
    strangers, and a stranger's image has 251 in the middle. A tie counts as half nearer.
    """
    theirs, mine = unit(features) @ unit(strangers).T, unit(own)
    ordered = theirs.sort(dim=1).values
    ranks = torch.empty(len(features), dtype=torch.float64)
    for label in labels.unique().tolist():
        rows = labels == label
        scores = (unit(features[rows]) @ mine[own_labels == label].T).contiguous()
        below = torch.searchsorted(ordered[rows], scores, right=False)
        not_above = torch.searchsorted(ordered[rows], scores, right=True)
        nearer = strangers.shape[0] - (below + not_above).double() / 2
        ranks[rows] = 1 + GALLERY * nearer.median(dim=1).values / strangers.shape[0]
    return ranks


@dataclass(frozen=True, kw_only=True)
class Photographs:
    """Features [n, D] of the private people's real images, with their labels int64 [n]: those that templates are made
    of, and those for testing."""

    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor


@dataclass(frozen=True, kw_only=True)
class RecognitionReport:
    """What a recogniser says of images and of real photographs of the same people.

    Attributes:
        scores: float64 [M], the cosine of each image with its person's template.
        hits: Name of a rate -> which images are accepted, bool [M], of the rates that have a threshold.
        rates, real: The shares accepted, of the images and of real test images, None without a threshold.
        others: The share of other private people's images that are accepted at 1 %.
        rank, rank_real: Medians of the ranks among 500 strangers, None where there are fewer.
    """

    scores: Tensor
    hits: Mapping[str, Tensor]
    rates: Mapping[str, float | None]
    real: Mapping[str, float | None]
    others: float | None
    rank: float | None
    rank_real: float | None


@dataclass(frozen=True, kw_only=True)
class ProjectionVerdicts:
    """What a judge says of projected photographs.

    Attributes:
        matched: bool [M], whether its head names the right person.
        verified: bool [M], whether it accepts them at 1 %, None without a threshold.
    """

    matched: Tensor
    verified: Tensor | None

    @property
    def closed(self) -> float:
        """The share that is matched."""
        return rate(self.matched)

    @property
    def accepted(self) -> float | None:
        """The share that is verified."""
        return None if self.verified is None else rate(self.verified)


def _calibrated(real: Photographs, strangers: Tensor) -> tuple[Tensor, dict[str, float | None]]:
    """Templates [C, D] of unit length, and one threshold for all people by rate, from the scores of every stranger
    (features [S, D]) against every template; None where there are too few strangers."""
    templates = fit_class_means(real.train, real.train_labels).weight
    impostors = all_scores(strangers, templates).flatten() if len(strangers) else torch.empty(0)
    enough = {name: len(strangers) >= strangers_needed(false_accepts) for name, false_accepts in RATES.items()}
    thresholds = {
        name: accept_threshold(impostors, false_accepts) if enough[name] else None
        for name, false_accepts in RATES.items()
    }
    return templates, thresholds


def recognise(features: Tensor, labels: Tensor, real: Photographs, strangers: Tensor) -> RecognitionReport:
    """features: [M, D] of images that are meant to show labels [M]; strangers: features [S, D] of other people."""
    templates, thresholds = _calibrated(real, strangers)
    scores = template_scores(features, templates, labels)
    of_real = template_scores(real.test, templates, real.test_labels)
    known = {name: threshold for name, threshold in thresholds.items() if threshold is not None}
    hits = {name: accepted(scores, threshold) for name, threshold in known.items()}
    rank, rank_real = _ranks(features, labels, real, strangers)
    return RecognitionReport(
        scores=scores,
        hits=hits,
        rates={name: rate(hits[name]) if name in hits else None for name in RATES},
        real={name: rate(accepted(of_real, known[name])) if name in known else None for name in RATES},
        others=_accepted_others(real, templates, thresholds[FIRST]),
        rank=rank,
        rank_real=rank_real,
    )


def judge_projections(
    features: Tensor, labels: Tensor, real: Photographs, strangers: Tensor, head: Head
) -> ProjectionVerdicts:
    """features: [M, D] of photographs of labels [M] as a prior draws them; head: on the real ones, of the judge."""
    templates, thresholds = _calibrated(real, strangers)
    threshold, scores = thresholds[FIRST], template_scores(features, templates, labels)
    return ProjectionVerdicts(
        matched=head_logits(head, features).argmax(1) == labels,
        verified=None if threshold is None else accepted(scores, threshold),
    )


def rate(hits: Tensor) -> float:
    """The share of hits, bool [M]."""
    return hits.double().mean().item()


def _accepted_others(real: Photographs, templates: Tensor, threshold: float | None) -> float | None:
    """Fraction of (test image, other person) pairs that are accepted; None without a threshold, or other people."""
    scores = all_scores(real.test, templates)
    other = torch.ones_like(scores, dtype=torch.bool).scatter(1, real.test_labels[:, None], False)
    return None if threshold is None or not other.any() else rate(accepted(scores[other], threshold))


def _ranks(
    features: Tensor, labels: Tensor, real: Photographs, strangers: Tensor
) -> tuple[float, float] | tuple[None, None]:
    if len(strangers) < strangers_needed(min(RATES.values())):
        return None, None
    of_images, of_real = (
        gallery_ranks(images, people, real.train, real.train_labels, strangers).median().item()
        for images, people in ((features, labels), (real.test, real.test_labels))
    )
    return of_images, of_real
