"""Other ways in which a classifier may read images than its card says, tried on real ones.

The usual ones are tried on all images of a trial. What fewer classifiers are trained with (`FURTHER`, other sizes) is
first tried on some of them, and on all where that looks better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.inference import evaluate_logits
from smoothsweep.core.models.normalisation import FURTHER, USUAL, Normalisation

TRIED, SCREENED = 200, 48  # images on which other readings are tried, and first looked at
BETTER_BY, BETTER_SIGMAS = 0.1, 3.3  # in accuracy, and in standard errors of the paired difference
PROMISING = 0.05  # in accuracy, of the images that are first looked at
USUAL_SIZES = (32, 48, 64, 80, 96, 112, 128, 160, 224, 256, 299)
"""Sides in pixels that classifiers are usually trained at."""
FARTHEST = 4  # times larger or smaller than claimed: at more than that hardly any face is recognised


class AnyClassifier(Protocol):
    """A classifier of ours or from outside: images [N, 3, S, S] in [-1, 1] -> logits [N, C]."""

    def wants(self, normalisation: Normalisation) -> None:
        """Show the model images as this normalisation has them, from now on."""

    def __call__(self, images: Tensor) -> Tensor:
        """Logits."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a card states.

    Attributes:
        order: int64 [C], the model's output for each class of the data.
        accuracy: The accuracy that was stated, None without one.
    """

    normalisation: Normalisation
    order: Tensor
    accuracy: float | None = None


@dataclass(frozen=True, kw_only=True)
class Readings:
    """What comes into question beside the claim, by the words of a sentence.

    Attributes:
        usual: Tried on all images of a trial.
        further: Readings that are tried on some of the images first.
        sizes: Sides in pixels, () for a model of one size.
    """

    usual: Mapping[str, Normalisation] = field(default_factory=lambda: USUAL)
    further: Mapping[str, Normalisation] = field(default_factory=lambda: FURTHER)
    sizes: tuple[int, ...] = USUAL_SIZES

    @classmethod
    def none(cls, claimed: Normalisation) -> Readings:
        """Nothing but other orders of the classes: of a model that is sent pictures."""
        return cls(usual={"as pictures": claimed}, further={}, sizes=())


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Another reading: in words, and which images are right under it and under the claim (bool [M] each).

    Attributes:
        normalisation, size: None for that of the claim.
        order: Int64 [C], as of `Claim`; None for the claimed one.
    """

    words: str
    hits: Tensor
    as_stated: Tensor
    normalisation: Normalisation | None = None
    size: int | None = None
    order: Tensor | None = None

    @property
    def gain(self) -> float:
        return (self.hits.double() - self.as_stated.double()).mean().item()

    @property
    def fits_better(self) -> bool:
        differing = (self.hits != self.as_stated).sum().item()
        return self.gain > BETTER_BY and self.gain * len(self.hits) > BETTER_SIGMAS * differing**0.5


def is_near(size: int, claimed: int) -> bool:
    """Whether a size that is not the claimed one may have been mistaken for it."""
    return size != claimed and claimed / FARTHEST <= size <= claimed * FARTHEST


class Trials:
    """Other readings of one model on a few images, which it leaves reading as claimed.

    logits: of all of `test` as claimed, its outputs in the data's order, float [N, C]. orders: other numberings of the
    classes by their words.
    """

    def __init__(
        self,
        model: AnyClassifier,
        test: ImageSet,
        logits: Tensor,
        claim: Claim,
        orders: Mapping[str, Tensor],
        *,
        image_size: int,
        device: torch.device | str,
    ) -> None:
        shuffled = torch.randperm(len(test), generator=torch.Generator().manual_seed(0))
        self._chosen, self._screened = shuffled[:TRIED].sort().values, shuffled[:SCREENED].sort().values
        self._model, self._test, self._logits, self._claim, self._orders = model, test, logits, claim, orders
        self._own_outputs = torch.argsort(claim.order)
        self._size, self._device = image_size, device

    def all(self, readings: Readings) -> list[Trial]:
        """Every reading in every order. Where hardly an image is wrong as claimed, none of them could be better, and
        none is tried."""
        if 1 - self._as_stated(self._chosen).double().mean().item() <= BETTER_BY:
            return []
        trials = [trial for words, other in readings.usual.items() for trial in self._normalised(words, other)]
        for words, other in readings.further.items():
            if other != self._claim.normalisation and self._promises(other, self._size):
                trials += self._normalised(words, other)
        if any(1 - trial.hits.double().mean().item() <= BETTER_BY for trial in trials):
            return trials  # no size could be better, and sizes are the dearest to try
        starts = [*self._starts(trials), *self._swapped(readings)]
        return [*trials, *(trial for start in starts for trial in self._sized(*start, readings.sizes))]

    def _starts(self, trials: list[Trial]) -> Iterator[tuple[str, Normalisation | None]]:
        """Normalisations under which other sizes are tried, with their words: the claimed one, and the one that fits
        best of those tried, which at a wrong size may be none that is right."""
        yield "", None
        best = max((trial for trial in trials if trial.order is None), key=lambda trial: trial.gain, default=None)
        if best is not None and best.gain > PROMISING:
            yield best.words, best.normalisation

    def _swapped(self, readings: Readings) -> Iterator[tuple[str, Normalisation | None]]:
        """The claimed one with the channels the other way round: two mistakes, of which neither shows by itself."""
        claimed = self._claim.normalisation
        for words, other in {**readings.usual, **readings.further}.items():
            if other.channels != claimed.channels and replace(other, channels=claimed.channels) == claimed:
                yield self._words(words, other), other

    def _words(self, words: str, normalisation: Normalisation) -> str:
        """A normalisation in a sentence, with its channels where red first is not what was claimed."""
        turned = self._claim.normalisation.channels == "bgr" and normalisation.channels == "rgb"
        return f"with {'RGB, ' if turned else ''}{words}"

    def _as_stated(self, rows: Tensor) -> Tensor:
        return self._logits[rows].argmax(1) == self._test.labels[rows]

    def _seen(self, rows: Tensor, normalisation: Normalisation, size: int) -> Tensor:
        """Logits of these images under a reading."""
        try:
            self._model.wants(normalisation)
            return evaluate_logits(self._model, self._test.images[rows], image_size=size, device=self._device)
        finally:
            self._model.wants(self._claim.normalisation)

    def _promises(self, normalisation: Normalisation, size: int) -> bool:
        hits = self._seen(self._screened, normalisation, size).argmax(1) == self._test.labels[self._screened]
        gain = hits.double().mean() - self._as_stated(self._screened).double().mean()
        return gain.item() > PROMISING

    def _normalised(self, words: str, normalisation: Normalisation) -> Iterator[Trial]:
        """A normalisation in every order."""
        same, labels = normalisation == self._claim.normalisation, self._test.labels[self._chosen]
        seen = self._logits[self._chosen] if same else self._seen(self._chosen, normalisation, self._size)
        prefix, other = ("", None) if same else (self._words(words, normalisation), normalisation)
        as_stated = self._as_stated(self._chosen)
        if not same:
            yield Trial(words=prefix, hits=seen.argmax(1) == labels, as_stated=as_stated, normalisation=other)
        joint = f"{prefix} and " if prefix else "with "
        for order_words, order in self._orders.items():
            if not torch.equal(order, self._claim.order):
                hits = seen[:, self._own_outputs][:, order].argmax(1) == labels
                yield Trial(words=joint + order_words, hits=hits, as_stated=as_stated, normalisation=other, order=order)

    def _sized(self, prefix: str, other: Normalisation | None, sizes: tuple[int, ...]) -> Iterator[Trial]:
        """Other sizes under a normalisation and its words; None for the claimed one, without words."""
        normalisation, labels = other or self._claim.normalisation, self._test.labels[self._chosen]
        for size in sizes:
            try:
                if not is_near(size, self._size) or not self._promises(normalisation, size):
                    continue
                hits = self._seen(self._chosen, normalisation, size).argmax(1) == labels
            except (InputError, RuntimeError):  # a size that this model does not take
                continue
            words = f"{prefix} and images of {size} pixels" if prefix else f"with images of {size} pixels"
            as_stated = self._as_stated(self._chosen)
            yield Trial(words=words, hits=hits, as_stated=as_stated, normalisation=other, size=size)
