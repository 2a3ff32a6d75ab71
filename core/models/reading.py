"""Does a classifier that was trained elsewhere read our images as its card says? Asked before anything is attacked.

Under a wrong normalisation or class order a good classifier looks like a bad one, and one that leaks like one that does
not. So real test images decide, and where they contradict the card, what is usual is tried on a few of them. The usual
readings are tried on all images of a trial; what fewer classifiers are trained with (`FURTHER`, other sizes) is first
tried on some of them, and on all where that looks better.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from scipy.optimize import linear_sum_assignment
from scipy.special import bdtrc
from torch import Tensor

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.inference import FURTHER, USUAL, Channels, Normalisation, evaluate_logits
from smoothsweep.core.text import few

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

    def told(self, loaded: int) -> str:
        """Both accuracies in words. loaded: the side in pixels of the images that were tried."""
        enlarged = self.size is not None and self.size > loaded  # which brings no pixels back
        larger = f" (of images loaded with {loaded}, so that a still larger size may be right)" if enlarged else ""
        return f"{self.hits.double().mean():.1%} {self.words}{larger}; {self.as_stated.double().mean():.1%} as stated"


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


CHANCE_LEVEL = 0.01  # how seldom chance alone may do as well
SHORTFALL = 0.05  # of accuracy, below what the card states: another split, another way of cropping
ORDER_FLAG = "--class-names FILE, its outputs in that order"
NAMED = 0.05  # in accuracy: how much better an order without a name must be than one that has one
MOST_MATCHED = 2000  # classes whose order is searched


def order_by_name(class_names: Sequence[str], data_names: Sequence[str], where: str) -> Tensor:
    """int64 [C]: the place in `class_names` of each of the data's classes. InputError if they have other names.

    The Unicode form of a name (accents composed or not) makes no difference.
    """
    given, wanted = ([unicodedata.normalize("NFC", name) for name in names] for names in (class_names, data_names))
    place = {name: i for i, name in enumerate(given)}
    if unknown := sorted(place.keys() - set(wanted)):
        raise InputError(f"{where}: expected class names of the data (such as {data_names[0]}), got {few(unknown)}")
    if missing := [name for name in wanted if name not in place]:
        raise InputError(f"{where}: expected a class for everybody in the data, got none named {few(missing)}")
    return torch.tensor([place[name] for name in wanted])


def usual_orders(names: Sequence[str], sizes: Tensor) -> dict[str, Tensor]:
    """How classes are usually numbered, as orders (see `Claim`). sizes: int64 [C], training images of each class."""
    by_size = torch.sort(sizes, descending=True, stable=True).indices

    def by_numbers(name: str) -> list[int | str]:  # text and numbers in turn, text first: names of any make compare
        return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]

    natural = sorted(names, key=by_numbers)
    return {
        "classes in the data's order": torch.arange(len(names)),
        "alphabetical classes": order_by_name(sorted(names), names, "classes"),
        "classes in the order of the numbers in their names": order_by_name(natural, names, "classes"),
        "classes by number of images": torch.argsort(by_size),
        "classes counted from 1": torch.arange(len(names)).roll(-1),
        "classes one earlier": torch.arange(len(names)).roll(1),
    }


class MisreadModel(InputError):
    """A model whose outputs are in another order: `class_names` has it, a name for each output; None without."""

    class_names: tuple[str, ...] | None = None


def as_flags(
    normalisation: Normalisation | None, reordered: bool, image_size: int | None = None, stated: Channels = "rgb"
) -> str:
    """What the commands that bring a model in are to be told (see `check_reading`)."""
    flags = [] if image_size is None else [f"--image-size {image_size}"]
    if normalisation is not None and normalisation.ends is not None:
        flags.append("--input-range {:g} {:g}".format(*normalisation.ends))
    elif normalisation is not None:
        flags.append(
            "--mean {:.6g} {:.6g} {:.6g} --std {:.6g} {:.6g} {:.6g}".format(*normalisation.mean, *normalisation.std)
        )
    if normalisation is not None and "bgr" in (normalisation.channels, stated):
        flags.append(f"--channels {normalisation.channels}")  # also the default, where the other was stated
    if reordered:
        flags.append(ORDER_FLAG)
    return f"use {' and '.join(flags)}"


def check_reading(
    model: AnyClassifier,
    test: ImageSet,
    logits: Tensor,
    claim: Claim,
    *,
    orders: Mapping[str, Tensor],
    image_size: int,
    device: torch.device | str,
    where: str,
    then: Callable[[Normalisation | None, bool, int | None, Channels], str] = as_flags,
    readings: Readings | None = None,
) -> None:
    """Raise InputError, one line, unless the accuracy is clearly above chance, within reach of what the card states,
    and no usual other reading fits clearly better; it says which one does.

    Args:
        model: Read as claimed, its outputs in the data's order.
        logits: Logits of all of `test`, float [N, C].
        orders: Other numberings by their words (`usual_orders`); any other order of the classes is found from what the
            model confuses.
        then: What to do about it, as the end of the sentence: of the normalisation to state, None where it is right, of
            whether the order of the classes is to be stated, of the size, None where it is right, and of the channels
            that were stated.
        readings: Readings that come into question, by default all that are usual.

    A stated accuracy that is reached is proof enough; without one, other readings of some images are tried.
    """
    hits = logits.argmax(1) == test.labels
    accuracy = hits.double().mean().item()
    chance = max(1 / test.num_classes, torch.bincount(test.labels).max().item() / len(test))  # the best constant answer
    above = _above_chance(hits, chance)
    reached = claim.accuracy is None or accuracy >= _within_reach(claim.accuracy, len(hits))
    if above and reached and claim.accuracy is not None:
        return
    tried = Trials(model, test, logits, claim, orders, image_size=image_size, device=device)
    trials = tried.all(Readings() if readings is None else readings)
    best, reordered = max(trials, key=lambda trial: trial.gain, default=None), _in_any_order(logits, test, claim)
    if reordered is not None and (best is None or reordered.gain > best.gain + NAMED):
        best = reordered  # of two that fit, the one with a name is told
    better = best is not None and best.fits_better
    if above and reached and not better:
        return
    if best is not None and not above:  # refused anyway: of few images, one that beats chance in all trials is told
        better |= best.gain > BETTER_BY and _above_chance(best.hits, chance, CHANCE_LEVEL / (len(trials) + 1))
    stated = f"; its card states {claim.accuracy:.1%}" if claim.accuracy is not None else ""
    if best is not None and better:
        fit = f"{best.told(test.size)}: "
        fit += then(best.normalisation, best.order is not None, best.size, claim.normalisation.channels)
    elif _above_chance(torch.ones_like(hits), chance):
        fit = "no usual normalisation, size or class order fits: is it a classifier of these classes?"
    else:
        fit = "so few test images tell nothing from chance: bring more"
    error = MisreadModel(
        f"{where}: expected a classifier that recognises real test images, got {accuracy:.1%} of {len(hits)} "
        f"(chance {chance:.1%}{stated}); {fit}"
    )
    if best is not None and better and best.order is not None:
        error.class_names = tuple(test.names[label] for label in best.order.argsort().tolist())
    raise error


def _above_chance(hits: Tensor, chance: float, level: float = CHANCE_LEVEL) -> bool:
    return bool(bdtrc(int(hits.sum()) - 1, len(hits), chance) < level)


def _within_reach(stated: float, images: int) -> float:
    """The least accuracy that still agrees with the stated one; of few images, none is known to a tenth."""
    variance = max(stated * (1 - stated), 0.1)
    return stated - SHORTFALL - 3 * (variance / images) ** 0.5


def _in_any_order(logits: Tensor, test: ImageSet, claim: Claim) -> Trial | None:
    """The order of the classes under which most answers are right, found on one half and tried on the other."""
    count = test.num_classes
    if count > MOST_MATCHED:
        return None
    answers, hits = logits.argmax(1), torch.zeros(len(test), dtype=torch.bool)

    def output_of(fit: Tensor) -> Tensor:
        together = torch.zeros(count, count)
        together.index_put_((test.labels[fit], answers[fit]), torch.ones(()), accumulate=True)
        together += 0.5 * torch.eye(count)  # what nothing contradicts stays
        return torch.from_numpy(linear_sum_assignment(together.numpy(), maximize=True)[1])

    half = _rank_within_class(test.labels) % 2 == 0
    for fit, tried in ((half, ~half), (~half, half)):
        hits[tried] = answers[tried] == output_of(fit)[test.labels[tried]]
    # The answers are in the data's order as claimed: the model's own outputs are those of the claim.
    order = claim.order[output_of(half | ~half)]
    return Trial(words="with the classes in another order", hits=hits, as_stated=answers == test.labels, order=order)


def _rank_within_class(labels: Tensor) -> Tensor:
    order = torch.argsort(labels, stable=True)
    counts = torch.bincount(labels)
    first = torch.repeat_interleave(counts.cumsum(0) - counts, counts)
    ranks = torch.empty_like(labels)
    ranks[order] = torch.arange(len(labels)) - first
    return ranks
