"""Does a classifier that was trained elsewhere read our images as its card says? Asked before anything is attacked.

Under a wrong normalisation or class order a good classifier looks like a bad one, and one that leaks like one that does
not. So real test images decide, and where they contradict the card, what is usual is tried on a few of them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence

import torch
from scipy.optimize import linear_sum_assignment
from scipy.special import bdtrc
from torch import Tensor

from smoothsweep.core.data.images import ImageSet
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.normalisation import Channels, Normalisation
from smoothsweep.core.models.other_readings import BETTER_BY, AnyClassifier, Claim, Readings, Trial, Trials
from smoothsweep.core.text import few

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
    natural = sorted(names, key=lambda name: [int(part) if part.isdecimal() else part for part in _parts(name)])
    return {
        "classes in the data's order": torch.arange(len(names)),
        "alphabetical classes": order_by_name(sorted(names), names, "classes"),
        "classes in the order of the numbers in their names": order_by_name(natural, names, "classes"),
        "classes by number of images": torch.argsort(by_size),
        "classes counted from 1": torch.arange(len(names)).roll(-1),
        "classes one earlier": torch.arange(len(names)).roll(1),
    }


def _parts(name: str) -> list[str]:
    """Text and numbers in turn, text first: names of any make can be compared."""
    return re.split(r"(\d+)", name)


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
        flags.append("--mean {:.6g} {:.6g} {:.6g} --std {:.6g} {:.6g} {:.6g}".format(*_six(normalisation)))
    if normalisation is not None and "bgr" in (normalisation.channels, stated):
        flags.append(f"--channels {normalisation.channels}")  # also the default, where the other was stated
    if reordered:
        flags.append(ORDER_FLAG)
    return f"use {' and '.join(flags)}"


def _six(normalisation: Normalisation) -> tuple[float, ...]:
    return (*normalisation.mean, *normalisation.std)


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
    accuracy, chance = hits.double().mean().item(), _chance(test)
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
    fit = (
        f"{best.hits.double().mean():.1%} {best.words}{_enlarged(best.size, test)}; "
        f"{best.as_stated.double().mean():.1%} as stated: "
        f"{then(best.normalisation, best.order is not None, best.size, claim.normalisation.channels)}"
        if best is not None and better
        else "so few test images tell nothing from chance: bring more"
        if not _above_chance(torch.ones_like(hits), chance)
        else "no usual normalisation, size or class order fits: is it a classifier of these classes?"
    )
    error = MisreadModel(
        f"{where}: expected a classifier that recognises real test images, got {accuracy:.1%} of {len(hits)} "
        f"(chance {chance:.1%}{stated}); {fit}"
    )
    if best is not None and better and best.order is not None:
        error.class_names = tuple(test.names[label] for label in best.order.argsort().tolist())
    raise error


def _enlarged(size: int | None, test: ImageSet) -> str:
    """What a size that fits best says where the images have fewer pixels: enlarging brings none back."""
    if size is None or size <= test.size:
        return ""
    return f" (of images loaded with {test.size}, so that a still larger size may be right)"


def _chance(test: ImageSet) -> float:
    """What the best constant answer reaches."""
    largest = torch.bincount(test.labels).max().item() / len(test)
    return max(1 / test.num_classes, largest)


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
