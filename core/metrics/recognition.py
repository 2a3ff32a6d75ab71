"""What a face recogniser with given features says of images: accepts at stated false-accept rates, ranks, and its word
on photographs that were projected into a prior. One computation for stages and for audits in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from smoothsweep.core.metrics.false_accepts import FIRST, RATES, strangers_needed
from smoothsweep.core.metrics.open_set import Head, fit_class_means, head_logits
from smoothsweep.core.metrics.verification import accept_threshold, accepted, all_scores, gallery_ranks, template_scores


@dataclass(frozen=True, kw_only=True)
class Photographs:
    """Features [n, D] of the private people's real images, with their labels int64 [n]: those that templates are made
    of, and those for testing."""

    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """What a face recogniser compares reconstructions with.

    Attributes:
        templates: [C, D], of unit length.
        thresholds: Name of a rate -> its threshold, None where there are too few strangers.
    """

    templates: Tensor
    thresholds: Mapping[str, float | None]


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


def calibrate(real: Photographs, strangers: Tensor) -> Calibrated:
    """One threshold for all people, from the scores of every stranger (features [S, D]) against every template."""
    templates = fit_class_means(real.train, real.train_labels).weight
    impostors = all_scores(strangers, templates).flatten() if len(strangers) else torch.empty(0)
    enough = {name: len(strangers) >= strangers_needed(false_accepts) for name, false_accepts in RATES.items()}
    thresholds = {
        name: accept_threshold(impostors, false_accepts) if enough[name] else None
        for name, false_accepts in RATES.items()
    }
    return Calibrated(templates=templates, thresholds=thresholds)


def recognise(features: Tensor, labels: Tensor, real: Photographs, strangers: Tensor) -> RecognitionReport:
    """features: [M, D] of images that are meant to show labels [M]; strangers: features [S, D] of other people."""
    calibrated = calibrate(real, strangers)
    scores = template_scores(features, calibrated.templates, labels)
    of_real = template_scores(real.test, calibrated.templates, real.test_labels)
    known = {name: threshold for name, threshold in calibrated.thresholds.items() if threshold is not None}
    hits = {name: accepted(scores, threshold) for name, threshold in known.items()}
    rank, rank_real = _ranks(features, labels, real, strangers)
    return RecognitionReport(
        scores=scores,
        hits=hits,
        rates={name: rate(hits[name]) if name in hits else None for name in RATES},
        real={name: rate(accepted(of_real, known[name])) if name in known else None for name in RATES},
        others=_accepted_others(real, calibrated),
        rank=rank,
        rank_real=rank_real,
    )


def judge_projections(
    features: Tensor, labels: Tensor, real: Photographs, strangers: Tensor, head: Head
) -> ProjectionVerdicts:
    """features: [M, D] of photographs of labels [M] as a prior draws them; head: on the real ones, of the judge."""
    calibrated = calibrate(real, strangers)
    threshold = calibrated.thresholds[FIRST]
    scores = template_scores(features, calibrated.templates, labels)
    return ProjectionVerdicts(
        matched=head_logits(head, features).argmax(1) == labels,
        verified=None if threshold is None else accepted(scores, threshold),
    )


def rate(hits: Tensor) -> float:
    """The share of hits, bool [M]."""
    return hits.double().mean().item()


def _accepted_others(real: Photographs, calibrated: Calibrated) -> float | None:
    """Fraction of (test image, other person) pairs that are accepted; None without a threshold, or other people."""
    threshold, scores = calibrated.thresholds[FIRST], all_scores(real.test, calibrated.templates)
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
