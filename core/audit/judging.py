"""Judges in memory: a second classifier of the same images, or a face embedder that never saw them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from smoothsweep.core.audit.attacking import OnProgress, ignore_progress
from smoothsweep.core.audit.portfolio import EVALUATOR_TRAINING
from smoothsweep.core.audit.standing import Recogniser
from smoothsweep.core.data.images import ImageSet, to_unit
from smoothsweep.core.data.labelled import SplitImages
from smoothsweep.core.declared import build
from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.accuracy import topk_hits
from smoothsweep.core.metrics.recognition import Photographs, fit_head, head_logits
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.embedder_kinds import GENERAL
from smoothsweep.core.models.embedders import load_embedder
from smoothsweep.core.models.inference import evaluate_logits
from smoothsweep.core.models.recipe import TrainingRecipe
from smoothsweep.core.training.classifier import train_classifier

EVALUATOR = "evaluator"
BATCH = 256
HEAD_SEED = 0


class Rate(NamedTuple):
    """A fraction of `trials` images."""

    share: float
    trials: int


@dataclass(frozen=True, kw_only=True)
class Judge:
    """A judge of reconstructions.

    Attributes:
        metric: Its column in the results of a sweep.
        names: Names of the classes, by label.
        sensitivity: Its accuracy on real test images.
        logits: Maps images uint8 [M, 3, R, R] to float32 [M, C].
        recogniser: Verifies faces; None for a judge without features of its own.
    """

    metric: str
    names: tuple[str, ...]
    sensitivity: Rate
    logits: Callable[[Tensor], Tensor]
    recogniser: Recogniser | None = None

    def hits(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The predicted class of each image, int64 [M], and whether it equals the label, bool [M]."""
        logits = self.logits(images)
        return logits.argmax(1), topk_hits(logits, labels, 1)


def train_evaluator(
    people: SplitImages,
    *,
    architecture: str,
    seed: int,
    device: torch.device | str,
    on_progress: OnProgress = ignore_progress,
    training: Mapping[str, Any] | None = None,
) -> Judge:
    """Train a second classifier of the same images, the paper's judge, which also accepts images unlike a face.

    training: fields of `TrainingRecipe` other than the architecture; None: as `smoothsweep audit` trains. Raises
    InputError for an unknown architecture or setting.
    """
    settings = {"image_size": people.train.size, **(EVALUATOR_TRAINING if training is None else training)}
    recipe = build(TrainingRecipe, {"architecture": architecture, **settings}, what="evaluator", prefix="evaluator ")
    network = build_classifier(architecture, people.train.num_classes, protocol="clean", seed=seed)
    train_classifier(
        network,
        people.train,
        recipe,
        seed=seed,
        device=device,
        on_epoch=lambda record, _: on_progress((record.epoch + 1) / recipe.epochs, f"evaluator: epoch {record.epoch}"),
    )

    def logits(images: Tensor) -> Tensor:
        return evaluate_logits(network, images, image_size=recipe.image_size, device=device)

    return _judge("attack_acc1", people.test, logits)


def fit_embedder(people: SplitImages, name: str, *, weights: Path | None, device: torch.device | str) -> Judge:
    """Fit a linear head on an independent embedder.

    name: a row of `core.models.embedder_kinds.KINDS`, for faces or for any pictures. weights: its file, None where the
    weights are shipped. Raises InputError.
    """
    embed = embedding(name, weights, device=device)
    real = Photographs(
        train=embed(people.train.images),
        train_labels=people.train.labels,
        test=embed(people.test.images),
        test_labels=people.test.labels,
    )
    head = fit_head(real.train, real.train_labels, seed=HEAD_SEED)
    metric = "general_acc1" if name in GENERAL else "embedder_acc1"
    closed = metric.removesuffix("_acc1")
    prefix = f"{closed}_" if name in GENERAL else ""
    right = topk_hits(head_logits(head, real.test), real.test_labels, 1).double().mean().item()
    return Judge(
        metric=metric,
        names=people.test.names,
        sensitivity=Rate(share=right, trials=len(people.test)),
        logits=lambda images: head_logits(head, embed(images)),
        recogniser=Recogniser(embed=embed, real=real, head=head, test=people.test, prefix=prefix, closed=closed),
    )


def embedding(name: str, weights: Path | None, *, device: torch.device | str) -> Callable[[Tensor], Tensor]:
    """An embedder as a function from images uint8 [N, 3, S, S] to features float32 [N, D]. Raises InputError."""
    network = load_embedder(name, weights).to(device)
    return lambda images: _features(network, images, device)


def _judge(metric: str, test: ImageSet, logits: Callable[[Tensor], Tensor]) -> Judge:
    right = topk_hits(logits(test.images), test.labels, 1).double().mean().item()
    return Judge(metric=metric, names=test.names, sensitivity=Rate(share=right, trials=len(test)), logits=logits)


@torch.no_grad()
def _features(network: nn.Module, images: Tensor, device: torch.device | str) -> Tensor:
    if not len(images):
        raise InputError("judge: expected images, got none")
    return torch.cat([network(to_unit(batch).to(device)).float().cpu() for batch in images.split(BATCH)])
