"""What more would buy: the cheapest sweep that tells a difference, and what one more unit of time is spent on best."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from smoothsweep.core.metrics.components import Components
from smoothsweep.core.metrics.power import MOST_SEEDS, Design, Planned, planned, seeds_to_detect
from smoothsweep.orchestrator.planning.power.costs import Costs

STEP = 1.05  # between the numbers of classes that are looked at


@dataclass(frozen=True, kw_only=True)
class Option:
    """A sweep of another size.

    Attributes:
        name: What of it is more or fewer: seeds, classes or reconstructions; empty for the cheapest of all.
        design: The size of the advised design.
        tells: The smallest difference that it tells, in the unit of the leak.
        times: Its device time as a multiple of the present one's; None where costs are unknown.
    """

    name: str = ""
    design: Design
    tells: float
    times: float | None


@dataclass(frozen=True, kw_only=True)
class Advisor:
    """Compares sizes of one sweep.

    Attributes:
        components: What its differences vary by.
        now: The size of the present design.
        available: How many classes its data have, at least those of `now`.
        costs: What it costs; None where that is not known, so that a training counts as a class's share of an attack.
    """

    components: Components
    now: Design
    available: int
    costs: Costs | None

    @property
    def planned(self) -> Planned:
        """What the sweep can tell as it is."""
        return planned(self.components, self.now)

    def cheapest(self, difference: float) -> Option | None:
        """The cheapest number of seeds and classes that tells a difference; None where there are too few classes."""
        designs: list[tuple[float, Design]] = []
        for classes in self._numbers_of_classes():
            design = replace(self.now, classes=classes)
            seeds = seeds_to_detect(self.components, design, difference)
            if seeds is not None:
                design = replace(design, seeds=seeds)
                designs.append((self._price(design), design))
        return self._option(min(designs, key=lambda design: design[0])[1]) if designs else None

    def seeds_alone(self, difference: float) -> int | None:
        """How many seeds tell a difference with the present classes; None where `MOST_SEEDS` would not do."""
        return seeds_to_detect(self.components, self.now, difference)

    def moves(self) -> tuple[Option, ...]:
        """What the time of one more seed buys, the best first: that seed, more classes, or fewer reconstructions of
        each of more classes. Empty without costs. A move that the data have no classes for is left out."""
        if self.costs is None:
            return ()
        seed = replace(self.now, seeds=min(self.now.seeds + 1, MOST_SEEDS))
        most = self.costs.seconds(seed)
        options = [self._option(seed, "seeds")]
        if (classes := self._affordable(self.now, most)) > self.now.classes:
            options.append(self._option(replace(self.now, classes=classes), "classes"))
        if self.now.images is not None and self.now.images > 1 and self.components.image is not None:
            fewer = replace(self.now, images=self.now.images // 2)
            if (classes := self._affordable(fewer, most)) > self.now.classes:
                options.append(self._option(replace(fewer, classes=classes), "reconstructions"))
        return tuple(sorted(options, key=self._price_of_information))

    def _price_of_information(self, option: Option) -> float:
        """Device time for one unit of information, which is the inverse of a squared difference."""
        return option.tells**2 * (option.times or 1.0)

    def _affordable(self, design: Design, seconds: float) -> int:
        """The most classes that a design has for so many device-seconds, as far as there are classes."""
        low, high = 1, self.available
        while low < high:
            middle = (low + high + 1) // 2
            fits = self.costs is not None and self.costs.seconds(replace(design, classes=middle)) <= seconds
            low, high = (middle, high) if fits else (low, middle - 1)
        return low

    def _option(self, design: Design, name: str = "") -> Option:
        times = None if self.costs is None else self.costs.times(design)
        return Option(name=name, design=design, tells=planned(self.components, design).tells, times=times)

    def _price(self, design: Design) -> float:
        return float(design.seeds * design.classes) if self.costs is None else self.costs.seconds(design)

    def _numbers_of_classes(self) -> Iterator[int]:
        """Numbers of classes from 2 to all, by steps of some per cent; the present one among them."""
        yield from sorted({self.now.classes, self.available, *_steps(self.available)})


def _steps(most: int) -> Iterator[int]:
    number = 2.0
    while number < most:
        yield int(number)
        number = max(number * STEP, number + 1)
