"""How often the rule of comparisons is wrong, and how often it finds what is there: `python -m benchmarks.calibration`.

Simulates sweeps from random effects and asks the shipped functions. Yes-or-no images are drawn from logits to which
people, people under an attack, trainings and their interactions add normal effects; by default with the spreads that
the quickstart's stored verdicts have, and worse: strong seed effects, one recipe with three times the spread, attacks
that are equally good, few people, leaks near 0 and 100 %. Every cell of the design is simulated by itself.

* false "reduces": a recipe that leaks as much as the baseline is said to leak less. Bar: 2.5 %.
* false "hides": the same of what is hidden. Bar: 2.5 %.
* family-wise error: any recipe's interval of its reduction leaves out the truth, no recipe being different. Bar: 5 %.
* coverage: all intervals hold their true values at once, two recipes being different. Bar: 95 % less two standard
  errors of the simulation.
* power: a true reduction is found.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.polynomial import hermite_e
from scipy import optimize

from core.metrics.leak_comparisons import REDUCES, compare_leaks

PER_POINT = 1 / 25  # logits a percentage point, where leaks are near one half
SPREADS = {"person": 19.5, "person_attack": 6.8, "recipe_person_attack": 9.6, "recipe_seed_person": 8.7,
           "recipe_seed_attack": 3.4}  # fmt: skip
"""Standard deviations in points, of the quickstart at seeds 41 to 46."""
NODES, MASSES = hermite_e.hermegauss(40)


@dataclass(frozen=True, kw_only=True)
class Design:
    """A sweep to simulate. leak: of the baseline under its strongest attack. images: of a person under a seed.
    seed_spread: standard deviation of a training's effect, in points. wild: times as much for the first recipe beside
    the baseline. gap: how much weaker each further attack is, in points; 0 for attacks that are equally good."""

    recipes: int = 4
    attacks: int = 3
    seeds: int = 3
    people: int = 24
    leak: float = 0.75
    images: int = 4
    seed_spread: float = 0.0
    wild: float = 1.0
    gap: float = 0.0

    @property
    def spread(self) -> float:
        """Standard deviation of all random effects together, in logits."""
        total = sum(value**2 for value in SPREADS.values()) + self.seed_spread**2
        return PER_POINT * float(np.sqrt(total))

    def rates(self, reductions: Sequence[float]) -> np.ndarray:
        """True leaks [recipes, attacks]; reductions: of the recipes beside the baseline, in points, 0 for the rest."""
        points = 100 * self.leak - self.gap * np.arange(self.attacks)
        lower = np.zeros(self.recipes)
        others = lower[1:]
        others[: len(reductions)] = reductions[: len(others)]
        return np.clip((points[None, :] - lower[:, None]) / 100, 0.005, 0.995)


def logits_of(rates: np.ndarray, spread: float) -> np.ndarray:
    """Logits whose average hit rate, over normal effects of this standard deviation, is as given."""

    def excess(logit: float, rate: float) -> float:
        return float((MASSES / MASSES.sum()) @ (1 / (1 + np.exp(-(logit + spread * NODES))))) - rate

    solved = [optimize.brentq(excess, -60, 60, args=(rate,)) for rate in rates.flat]
    return np.reshape(solved, rates.shape)


def drawn(design: Design, logits: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Hit rates [recipes, attacks, seeds, people] of one simulated sweep."""
    recipes, attacks, seeds, people = design.recipes, design.attacks, design.seeds, design.people
    wild = np.ones((recipes, 1, 1, 1))
    wild[1:2] = design.wild

    def effect(name: str, *shape: int) -> np.ndarray:
        return generator.normal(0, SPREADS[name], shape)

    training = generator.normal(0, design.seed_spread, (recipes, 1, seeds, 1)) if design.seed_spread else 0.0
    points = (
        effect("person", 1, 1, 1, people)
        + effect("person_attack", 1, attacks, 1, people)
        + effect("recipe_person_attack", recipes, attacks, 1, people)
        + effect("recipe_seed_person", recipes, 1, seeds, people)
        + wild * (training + effect("recipe_seed_attack", recipes, attacks, seeds, 1))
    )
    chances = 1 / (1 + np.exp(-(logits[:, :, None, None] + PER_POINT * points)))
    return generator.binomial(design.images, chances) / design.images


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Fractions of the simulated sweeps: any interval that leaves out its truth, and the words that were said of the
    first recipe beside the baseline."""

    missed: float
    reduces: float
    hides: float


def simulated(design: Design, reductions: Sequence[float], draws: int, seed: int) -> Outcome:
    """Simulate `draws` sweeps and ask the shipped function. The first half of the attacks counts as published."""
    rates = design.rates(reductions)
    # A recipe whose effects spread more would have another mean; its logits are solved for its own spread.
    logits = logits_of(rates, design.spread)
    if design.wild != 1:
        more = design.wild**2 - 1
        own = np.sqrt(design.spread**2 + more * PER_POINT**2 * (design.seed_spread**2 + 3.4**2))
        logits[1] = logits_of(rates[1], float(own))
    names = [f"recipe {number}" for number in range(design.recipes)]
    attacks = [f"attack {number}" for number in range(design.attacks)]
    published = attacks[: max(1, (design.attacks + 1) // 2)]
    true = rates.max(axis=1)[0] - rates.max(axis=1)
    generator, missed, reduces, hides = np.random.default_rng(seed), 0, 0, 0
    for _ in range(draws):
        cells = drawn(design, logits, generator)
        leaks = {name: dict(zip(attacks, cells[row], strict=True)) for row, name in enumerate(names)}
        told = compare_leaks(leaks, baseline=names[0], published=published, span=1.0, every_pair=False).verdicts
        ends = [(told[name].low, told[name].high) for name in names[1:]]
        missed += any(
            low is not None and not low <= value <= high for (low, high), value in zip(ends, true[1:], strict=True)
        )
        first = told[names[1]]
        reduces += first.word == REDUCES
        hides += first.hidden is not None and first.hidden.is_clear
    return Outcome(missed=missed / draws, reduces=reduces / draws, hides=hides / draws)


def designs(*, small: bool) -> Iterator[Design]:
    """The cells of the calibration."""
    sizes = ((2, 1), (4, 3)) if small else ((2, 1), (2, 3), (4, 1), (4, 3), (9, 1), (9, 5))
    seeds, people = ((2, 3), (10, 24)) if small else ((2, 3, 5, 10), (10, 24, 48))
    for (recipes, attacks), many, persons in product(sizes, seeds, people):
        base = Design(recipes=recipes, attacks=attacks, seeds=many, people=persons)
        yield base
        yield replace(base, seed_spread=6.0, wild=3.0)
        if not small:
            yield replace(base, seed_spread=3.0, gap=8.0)
            yield replace(base, seed_spread=6.0)
            yield replace(base, wild=3.0)
        yield replace(base, leak=0.97)
        yield replace(base, leak=0.04)


POWER = (
    (Design(), 10.0), (Design(), 20.0), (Design(), 30.0), (Design(people=48), 20.0), (Design(seeds=2), 20.0),
    (Design(seeds=5), 10.0), (Design(seeds=5), 20.0), (Design(recipes=9, attacks=5, people=16), 25.0),
)  # fmt: skip


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=400, help="simulated sweeps of each cell (default: 400)")
    parser.add_argument("--small", action="store_true", help="16 cells instead of 504")
    parser.add_argument("--seed", type=int, default=0, help="of the simulation (default: 0)")
    options = parser.parse_args()
    started = time.monotonic()
    print("| seeds x people, recipes x attacks | cells | reduces | hides | any error | not covered |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    worst: dict[str, list[tuple[Outcome, Outcome]]] = {}
    for number, design in enumerate(designs(small=options.small)):
        null = simulated(design, (), options.draws, options.seed + 2 * number)
        found = simulated(design, (20.0, 10.0), options.draws, options.seed + 2 * number + 1)
        key = f"{design.seeds} x {design.people}, {design.recipes} x {design.attacks}"
        worst.setdefault(key, []).append((null, found))
    for key, outcomes in worst.items():
        ends = [max(100 * getattr(null, name) for null, _ in outcomes) for name in ("reduces", "hides", "missed")]
        uncovered = max(100 * found.missed for _, found in outcomes)
        print(f"| {key} | {len(outcomes)} | " + " | ".join(f"{value:.1f}" for value in (*ends, uncovered)) + " |")
    print("\n| seeds x people, recipes x attacks | true reduction, points | found |\n| --- | ---: | ---: |")
    for number, (design, points) in enumerate(POWER):
        found = simulated(replace(design, gap=4.0), (points,), options.draws, options.seed + 9000 + number)
        print(f"| {design.seeds} x {design.people}, {design.recipes} x {design.attacks} | {points:g} | "
              f"{100 * found.reduces:.0f} % |")  # fmt: skip
    print(f"\n{options.draws} draws a cell, seed {options.seed}, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
