"""People enrolled with an embedder: their templates, the threshold of acceptance, and whether it reads images right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.model import ExternalModel, OpenedModel, check_side
from smoothsweep.core.external.recogniser import similarities
from smoothsweep.core.metrics.metric import strangers_needed
from smoothsweep.core.metrics.recognition import accept_threshold
from smoothsweep.core.models.inference import Normalisation, evaluate_logits
from smoothsweep.core.models.reading import BETTER_BY, SCREENED, Readings, Trial, as_flags, is_near

Templates = Literal["mean", "each"]
"""Templates of a person: one, the mean direction of all photographs, or each photograph as one."""
FALSE_ACCEPTS = 0.01
LEAST_STRANGERS = strangers_needed(FALSE_ACCEPTS)
"""Photographs of other people, without which a threshold of one false accept in a hundred is not known."""
MOST_TRIED = 24  # people by whom other readings are tried
SAME = 0.999
"""Correlation of two embedders' similarities from which on they are the same network."""


class Embedding:
    """An embedder that is shown pictures as they are stored: uint8 [N, 3, R, R] -> unit float32 [N, D] on the CPU."""

    def __init__(self, opened: OpenedModel, *, image_size: int, normalisation: Normalisation, where: str) -> None:
        self.image_size, self.normalisation, self.where = image_size, normalisation, where
        self._model = ExternalModel(
            opened, answers="logits", access="scores", num_classes=None, normalisation=normalisation, where=where
        )

    def __call__(self, images: Tensor) -> Tensor:
        return self.read(images, self.normalisation, self.image_size)

    def check_side(self) -> None:
        """Raise InputError unless the embedder takes images of this side; the line names one that it takes, if any."""
        check_side(self._model, torch.zeros(1, 3, self.image_size, self.image_size))

    def read(self, images: Tensor, normalisation: Normalisation, image_size: int) -> Tensor:
        """The embedding under another preprocessing. Raises InputError for embeddings without a direction."""
        self._model.wants(normalisation)
        try:
            features = evaluate_logits(self._model, images, image_size=image_size, batch_size=64)
        finally:
            self._model.wants(self.normalisation)
        if not bool((features.norm(dim=1) > 0).all()):
            raise InputError(f"{self.where}: expected embeddings of some length, got zeros")
        return functional.normalize(features, dim=1)


def enrol(features: Tensor, labels: Tensor, *, templates: Templates) -> tuple[Tensor, Tensor]:
    """Templates float32 [T, D] of unit length and whose they are, int64 [T].

    features: unit [N, D] of the people's photographs; labels: int64 [N] from 0, each at least once.
    """
    if templates == "each":
        return features.clone(), labels.clone()
    classes = int(labels.max()) + 1
    sums = torch.zeros(classes, features.shape[1]).index_add(0, labels, features)
    return functional.normalize(sums, dim=1), torch.arange(classes)


def threshold_of(strangers: Tensor) -> float:
    """The least cosine that at most one in a hundred pairs of a stranger's photograph and a person reaches.

    strangers: cosines [N, C]. Raises InputError for fewer than `LEAST_STRANGERS` photographs.
    """
    if len(strangers) < LEAST_STRANGERS:
        raise InputError(
            f"--public: expected at least {LEAST_STRANGERS} images of strangers for a threshold of {FALSE_ACCEPTS:.0%} "
            f"false accepts, got {len(strangers)}; bring more or say --threshold"
        )
    reached = accept_threshold(strangers.flatten(), FALSE_ACCEPTS)
    return float(torch.nextafter(torch.tensor(reached), torch.tensor(2.0)))  # accepted is what reaches it


def is_same_embedder(first: Tensor, other: Tensor) -> bool:
    """Whether two embedders see the same in images: unit features [N, D] and [N, E] of N images, at least three."""
    above = torch.triu_indices(len(first), len(first), 1)
    pairs = [(features @ features.T)[above[0], above[1]].double() for features in (first, other)]
    return bool(torch.corrcoef(torch.stack(pairs))[0, 1] > SAME)


def check_embedder_reading(embed: Embedding, train: ImageSet, test: ImageSet, readings: Readings) -> None:
    """Raise InputError, one line, where another usual reading of the images tells people apart clearly better.

    Templates are made anew under each reading: an embedder that is always shown images wrongly may still know people,
    and worse than it could.
    """
    people = torch.randperm(test.num_classes, generator=torch.Generator().manual_seed(0))[:MOST_TRIED]
    enrolled = [(train.labels == person).nonzero()[:2, 0] for person in people]
    probes = torch.isin(test.labels, people).nonzero()[:, 0]
    probes = probes[torch.randperm(len(probes), generator=torch.Generator().manual_seed(1))[: 2 * SCREENED]]
    place = {int(person): at for at, person in enumerate(people)}
    wanted = torch.tensor([place[int(label)] for label in test.labels[probes]])
    rows, owners = torch.cat(enrolled), torch.tensor([at for at, features in enumerate(enrolled) for _ in features])

    def hits(normalisation: Normalisation, size: int) -> tuple[Tensor, float]:
        seen = embed.read(torch.cat([train.images[rows], test.images[probes]]), normalisation, size)
        templates, whose = enrol(seen[: len(rows)], owners, templates="mean")
        cosines = similarities(seen[len(rows) :], templates, whose)
        apart = cosines.gather(1, wanted[:, None]).mean() - cosines.mean()
        return cosines.argmax(1) == wanted, apart.item()

    as_stated, _ = hits(embed.normalisation, embed.image_size)
    if 1 - as_stated.double().mean().item() <= BETTER_BY:
        return
    tried = list(_tried(hits, as_stated, embed, readings))
    if not tried:
        return
    best, _ = max(
        tried, key=lambda features: (features[0].gain, features[1])
    )  # of two that are right, the one that sees more
    if best.fits_better:
        raise InputError(
            f"{embed.where}: expected an embedder that tells the people of the gallery apart, got "
            f"{best.as_stated.double().mean():.1%} of {len(wanted)} images as stated, {best.hits.double().mean():.1%} "
            f"{best.words}: {as_flags(best.normalisation, False, best.size, embed.normalisation.channels)}"
        )


def _tried(
    hits: Callable[[Normalisation, int], tuple[Tensor, float]], as_stated: Tensor, embed: Embedding, readings: Readings
) -> Iterator[tuple[Trial, float]]:
    """Other readings, and how far apart each of them sees people."""
    for words, other in {**readings.usual, **readings.further}.items():
        if other != embed.normalisation:
            right, apart = hits(other, embed.image_size)
            yield Trial(words=f"with {words}", hits=right, as_stated=as_stated, normalisation=other), apart
    for size in readings.sizes:
        if is_near(size, embed.image_size):
            try:
                right, apart = hits(embed.normalisation, size)
            except InputError:  # a size that this embedder does not take
                continue
            yield Trial(words=f"with images of {size} pixels", hits=right, as_stated=as_stated, size=size), apart
