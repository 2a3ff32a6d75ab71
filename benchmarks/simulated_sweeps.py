"""Sweeps drawn from random effects: what `benchmarks.calibration` asks the rule of comparisons about.

Yes-or-no images are drawn from logits to which people, people under an attack, trainings and their interactions add
normal effects; by default with the spreads that the quickstart's stored verdicts have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import hermite_e
from scipy import optimize, special

PER_POINT = 1 / 25  # logits a percentage point, where leaks are near one half
SPREADS = {
    "person": 19.5,
    "person_attack": 6.8,
    "recipe_person_attack": 9.6,
    "recipe_seed_person": 8.7,
    "recipe_seed_attack": 3.4,
}
"""Standard deviations in points, of the quickstart at seeds 41 to 46."""
_NODES, _MASSES = hermite_e.hermegauss(40)


@dataclass(frozen=True, kw_only=True)
class Design:
    """A sweep to simulate. leak: of the baseline under its strongest attack. images: of a person under a seed.
    seed_spread: standard deviation of a training's effect, in points. wild: times as much for one recipe, number
    wild_recipe. gap: how much weaker each further attack is, in points; 0 for attacks that are equally good. blunt: how
    much weaker still all but the first are against the recipes beside the baseline, or (below 0) against the baseline.
    """

    recipes: int = 4
    attacks: int = 3
    seeds: int = 3
    people: int = 24
    leak: float = 0.75
    images: int = 4
    seed_spread: float = 0.0
    wild: float = 1.0
    wild_recipe: int = 1
    gap: float = 0.0
    blunt: float = 0.0

    @property
    def size(self) -> str:
        """As tables name it."""
        return f"{self.seeds} x {self.people}, {self.recipes} x {self.attacks}"

    def rates(self, reductions: Sequence[float]) -> np.ndarray:
        """True leaks [recipes, attacks]; reductions: of the recipes beside the baseline, in points, 0 for the rest."""
        points = 100 * self.leak - self.gap * np.arange(self.attacks)
        lower = np.zeros(self.recipes)
        others = lower[1:]
        others[: len(reductions)] = reductions[: len(others)]
        found = points[None, :] - lower[:, None]
        blunted = slice(1, None) if self.blunt > 0 else slice(0, 1)
        found[blunted, 1:] -= abs(self.blunt)
        return np.clip(found / 100, 0.005, 0.995)

    def logits(self, rates: np.ndarray) -> np.ndarray:
        """Logits whose average hit rates, over all random effects, are `rates` [recipes, attacks]."""
        wild = np.ones(self.recipes)
        wild[self.wild_recipe : self.wild_recipe + 1] = self.wild
        training = self.seed_spread**2 + SPREADS["recipe_seed_attack"] ** 2
        rest = sum(value**2 for value in SPREADS.values()) - SPREADS["recipe_seed_attack"] ** 2
        spreads = PER_POINT * np.sqrt(rest + wild**2 * training)
        return np.stack([_logits_of(row, spread) for row, spread in zip(rates, spreads, strict=True)])


def _logits_of(rates: np.ndarray, spread: float) -> np.ndarray:
    """Logits whose average hit rate, over normal effects of this standard deviation, is as given."""

    def excess(logit: float, rate: float) -> float:
        return float(_MASSES @ special.expit(logit + spread * _NODES) / _MASSES.sum()) - rate

    different, places = np.unique(rates, return_inverse=True)
    return np.array([optimize.brentq(excess, -60, 60, args=(rate,)) for rate in different])[places]


def drawn(design: Design, logits: np.ndarray, draws: int, generator: np.random.Generator) -> np.ndarray:
    """Hit rates [draws, recipes, attacks, seeds, people] of simulated sweeps."""
    recipes, attacks, seeds, people = design.recipes, design.attacks, design.seeds, design.people

    def effect(spread: float, *shape: int) -> np.ndarray:
        return PER_POINT * spread * generator.standard_normal((draws, *shape), dtype=np.float32)

    trainings = effect(SPREADS["recipe_seed_attack"], recipes, attacks, seeds, 1)
    if design.seed_spread:
        trainings = trainings + effect(design.seed_spread, recipes, 1, seeds, 1)
    trainings[:, design.wild_recipe : design.wild_recipe + 1] *= design.wild
    of_people = effect(SPREADS["person"], 1, 1, 1, people) + effect(SPREADS["person_attack"], 1, attacks, 1, people)
    of_people = of_people + effect(SPREADS["recipe_person_attack"], recipes, attacks, 1, people)
    of_people = of_people + logits[:, :, None, None].astype(np.float32)
    total = effect(SPREADS["recipe_seed_person"], recipes, 1, seeds, people) + of_people
    total += trainings
    chances = special.expit(total)
    hits = np.zeros(chances.shape, dtype=np.float64)
    for _ in range(design.images):
        hits += generator.random(chances.shape, dtype=np.float32) < chances
    return hits / design.images
