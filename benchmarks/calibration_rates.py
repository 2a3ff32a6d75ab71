"""How often intervals of single rates miss, and whether exposed people are told as surely as is said.

`python -m benchmarks.calibration --rates` prints both tables. Yes-or-no images are drawn in two ways: from logits to
which people and trainings add normal effects, as the quickstart's verdicts have them, and from people whose rates are
beta-distributed, where far more people are always recognised or never. The true rate is that of all people and seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from numpy.polynomial import hermite_e
from scipy import optimize, special

from smoothsweep.core.metrics.intervals import TOP, exposures, rate_interval

PER_POINT = 1 / 25  # logits a percentage point, where leaks are near one half
PERSON, SEED_PERSON, SEED = 22.7 * PER_POINT, 8.7 * PER_POINT, 3.4 * PER_POINT
"""Standard deviations in logits: a person under an attack, the same beside it under one seed, a training."""
NODES, MASSES = hermite_e.hermegauss(60)
BINS = (0.0, 0.2, 0.5, 0.8, 1.0)
"""Of the probability of being among the five most exposed."""


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """People under one attack. rate: the mean in [0, 1]; images: of a person under a seed; kind: "logits", "strong"
    (logits with a training's effect of 7 points) or "beta" (images of a person correlating by .3)."""

    rate: float
    seeds: int
    people: int
    images: int = 4
    kind: str = "logits"


def drawn(crowd: Crowd, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Shares of hits [seeds, people], and the people's true rates over seeds [people]."""
    shape = (crowd.seeds, crowd.people)
    if crowd.rate in (0, 1):
        return np.full(shape, crowd.rate), np.full(crowd.people, crowd.rate)
    if crowd.kind == "beta":
        size = 1 / 0.3 - 1
        true = generator.beta(size * crowd.rate, size * (1 - crowd.rate), crowd.people)
        return generator.binomial(crowd.images, true, shape) / crowd.images, true
    training = 7 * PER_POINT if crowd.kind == "strong" else 0.0 if crowd.seeds == 1 else SEED
    own = np.hypot(SEED_PERSON, training)
    person = logit_of(crowd.rate, float(np.hypot(PERSON, own))) + generator.normal(0, PERSON, crowd.people)
    effects = generator.normal(0, SEED_PERSON, shape) + generator.normal(0, training, (crowd.seeds, 1))
    chances = special.expit(person + effects)
    true = special.expit(person[:, None] + own * NODES) @ (MASSES / MASSES.sum())
    return generator.binomial(crowd.images, chances) / crowd.images, true


@cache
def logit_of(rate: float, spread: float, points: int = 60) -> float:
    """The logit whose average rate, over normal effects of this standard deviation, is as given."""
    nodes, masses = hermite_e.hermegauss(points)

    def excess(logit: float) -> float:
        return float(masses @ special.expit(logit + spread * nodes) / masses.sum()) - rate

    return optimize.brentq(excess, -60, 60)


def coverage(crowd: Crowd, draws: int, seed: int) -> float:
    """How often the interval of the rate holds it."""
    generator, held = np.random.default_rng(seed), 0
    for _ in range(draws):
        shares, _ = drawn(crowd, generator)
        found = rate_interval(shares, images=shares.size * crowd.images)
        held += found.low <= crowd.rate <= found.high
    return held / draws


@dataclass(frozen=True, kw_only=True)
class Told:
    """covered: fraction of people whose interval holds their rate. error: of the estimate, and raw: of the share, root
    of the mean square. bins: (fraction said, fraction true, how many) of being among the five, by what was said."""

    covered: float
    error: float
    raw: float
    bins: tuple[tuple[float, float, int], ...]


def people_told(crowd: Crowd, draws: int, seed: int) -> Told:
    """How sure of single people the report may be."""
    generator, held, errors, said, right = np.random.default_rng(seed), [], [], [], []
    for _ in range(draws):
        shares, true = drawn(crowd, generator)
        found = exposures(shares, np.full(crowd.people, crowd.images))
        held.append((found.low <= true) & (true <= found.high))
        errors.append((found.rate - true, found.share - true))
        said.append(found.among_top)
        right.append(true >= np.sort(true)[-TOP])
    claims, facts = np.concatenate(said), np.concatenate(right)
    place = np.digitize(claims, BINS[1:-1])
    bins = tuple(
        (float(claims[place == at].mean()), float(facts[place == at].mean()), int((place == at).sum()))
        for at in range(len(BINS) - 1)
        if (place == at).any()
    )
    error, raw = np.sqrt(np.mean(np.square(errors), axis=(0, 2)))
    return Told(covered=float(np.mean(held)), error=float(error), raw=float(raw), bins=bins)


def tables(draws: int, seed: int) -> Iterator[str]:
    """The lines of both tables."""
    yield "| seeds | people | rate 0 | .01 | .5 | .99 | 1 | worst |"
    yield "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    for seeds, people in product((1, 2, 3, 5), (5, 10, 24, 48)):
        cells = {
            (rate, kind): coverage(Crowd(rate=rate, seeds=seeds, people=people, kind=kind), draws, seed)
            for rate in (0.0, 0.01, 0.5, 0.99, 1.0)
            for kind in ("logits", "strong", "beta")
            if seeds > 1 or kind != "strong"
        }
        worst = {rate: min((cell, kind) for (at, kind), cell in cells.items() if at == rate) for rate, _ in cells}
        row = " | ".join(f"{100 * cell:.1f}" for cell, _ in worst.values())
        yield f"| {seeds} | {people} | {row} | {min(worst.values())[1]} |"
    yield "\n| seeds | people | kind | intervals that hold | error, shrunk / observed | said to be true of the five |"
    yield "| ---: | ---: | --- | ---: | ---: | --- |"
    for kind, seeds, people in product(("logits", "beta"), (1, 2, 3), (10, 24, 48)):
        found = people_told(Crowd(rate=0.5, seeds=seeds, people=people, kind=kind), max(1, draws // 8), seed)
        said = ", ".join(f"{100 * claim:.0f}: {100 * fact:.0f}" for claim, fact, _ in found.bins)
        errors = f"{100 * found.error:.1f} / {100 * found.raw:.1f}"
        yield f"| {seeds} | {people} | {kind} | {100 * found.covered:.1f} | {errors} | {said} |"
