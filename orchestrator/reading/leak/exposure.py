"""Exposure of people: each person's shrunk rate, its interval, and the probability of being among the most exposed."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from smoothsweep.core.checks import present
from smoothsweep.core.metrics.exposure import TOP, exposures
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.orchestrator.reading.findings.uncertainty import share as percentage
from smoothsweep.orchestrator.reading.numbers.estimates import Seeds, rates
from smoothsweep.orchestrator.reading.numbers.format import estimate
from smoothsweep.orchestrator.reading.numbers.summary import Summary

AMONG = {5: "five"}[TOP]
"""`TOP` in a sentence."""


@dataclass(frozen=True, kw_only=True)
class Exposed:
    """One class.

    Attributes:
        share: Observed, the mean over the seeds.
        rate: Shrunk towards the mean of all classes, with its interval.
        among_top: The probability that it is one of the `TOP` most exposed.
    """

    key: Hashable
    share: float
    rate: float
    low: float
    high: float
    among_top: float


def exposed(summary: Summary, row: int, metric: str) -> tuple[Exposed, ...]:
    """The classes of a row, the most probably exposed first; empty without hit rates by class."""
    seeds = summary.samples[row].get(metric, {})
    if not seeds or any(sample.by_class is None for sample in seeds.values()):
        return ()
    hits, by_class = rates(list(seeds.values()))
    if not by_class:
        return ()
    keys = _classes(seeds)
    images = [[1 if sample.counts is None else sample.counts.get(key, 1) for key in keys] for sample in seeds.values()]
    exposure = exposures(hits, np.array(images), level=summary.settings.level)
    columns = zip(keys, exposure.share, exposure.rate, exposure.low, exposure.high, exposure.among_top, strict=True)
    people = [
        Exposed(key=key, share=float(share), rate=float(rate), low=float(low), high=float(high), among_top=float(among))
        for key, share, rate, low, high, among in columns
    ]
    return tuple(sorted(people, key=lambda person: (-round(person.among_top, 9), -round(person.rate, 9), person.key)))


def rate_words(spec: Metric, person: Exposed) -> str:
    """A person's rate as text, such as `74 % [52, 90]`."""
    return estimate(spec, person.rate, person.low, person.high)


def among_words(person: Exposed) -> str:
    """The probability of being among the most exposed as text, such as `93 %`; never 0 or 100."""
    return percentage(person.among_top)


def _classes(seeds: Seeds) -> list[Hashable]:
    """The classes that all seeds have, in the order of `rates`."""
    first, *others = (present(sample.by_class, "by class").index for sample in seeds.values())
    for other in others:
        first = first.intersection(other)
    return list(first)
