"""Benchmarks that others cite: the rule keeps its bars, both sides of an attack agree, searches are replayed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks import calibration
from benchmarks.calibration import (
    BINS,
    LEVEL,
    Crowd,
    Design,
    coverage,
    drawn,
    people_told,
    simulated,
)
from smoothsweep.core.metrics.leak_comparisons import compare_leaks
from smoothsweep.core.metrics.looks import Looks

DRAWS = 1500
BARS = {"reduces": 0.025, "missed": 0.05}
CELLS = {
    "plain": Design(recipes=2, attacks=1, seeds=5),
    "many recipes": Design(recipes=9, attacks=1, seeds=10),
    "one attack works on the recipe, five on the baseline": Design(
        recipes=2, attacks=5, seeds=8, people=48, blunt=40.0
    ),
    "one recipe of three times the spread": Design(recipes=9, attacks=1, seeds=5, people=48, seed_spread=6.0, wild=3.0),
    "the baseline of three times the spread": Design(
        recipes=2, attacks=1, seeds=5, people=48, seed_spread=6.0, wild=3.0, wild_recipe=0
    ),
    "the same, many recipes": Design(
        recipes=4, attacks=1, seeds=3, people=48, seed_spread=6.0, wild=3.0, wild_recipe=0
    ),
    "looks": Design(recipes=2, attacks=1, seeds=20, people=48, seed_spread=6.0, wild=3.0, wild_recipe=0),
}
LOOKS = Looks(seeds=(4, 8, 12, 16, 20))


@pytest.mark.parametrize("name", CELLS)
def test_errors_stay_below_their_bars(name):
    """No bar is exceeded by more than two standard errors of the simulation."""
    looks = LOOKS if name == "looks" else None
    found = simulated(CELLS[name], (), DRAWS, (1, 2), looks, 0.0001 if looks else None)
    slack = {bar: 2 * np.sqrt(most * (1 - most) / DRAWS) for bar, most in BARS.items()}
    assert [bar for bar, most in BARS.items() if found[bar] > most + slack[bar]] == []


@pytest.mark.parametrize("shape", [{}, {"recipes": 3, "attacks": 4, "seeds": 2, "people": 7, "leak": 0.97}])
def test_many_sweeps_at_once_are_told_what_each_is_told_by_itself(shape):
    design = Design(**shape)
    cells = drawn(design, design.logits(design.rates((30.0,))), 8, np.random.default_rng(5))
    low, high, hides = calibration._asked(cells, 1 - LEVEL, design.recipes - 1, hides=True)
    attacks = [f"a{number}" for number in range(design.attacks)]
    for draw, sweep in enumerate(cells):
        leaks = {f"r{row}": dict(zip(attacks, under, strict=True)) for row, under in enumerate(sweep)}
        published = attacks[: (design.attacks + 1) // 2]
        told = compare_leaks(leaks, baseline="r0", published=published, span=1.0, every_pair=False).verdicts
        told = [told[f"r{row}"] for row in range(1, design.recipes)]
        ends = [(one.low, one.high) for one in told]
        np.testing.assert_allclose(np.stack([low[draw], high[draw]], axis=1), np.array(ends, dtype=float), atol=1e-9)
        assert hides[draw].tolist() == [one.hidden is not None and one.hidden.is_clear for one in told]


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("crowd", [(1, 24, "logits"), (2, 10, "beta"), (3, 24, "strong"), (5, 5, "logits")])
def test_intervals_of_rates_hold(rate, crowd):
    seeds, people, kind = crowd
    held = coverage(Crowd(rate=rate, seeds=seeds, people=people, kind=kind), draws=150, seed=3)
    assert held >= 0.95 - 2 * np.sqrt(0.05 * 0.95 / 150)


def test_people_are_told_as_surely_as_is_said():
    covered, error, raw, bins = people_told(Crowd(rate=0.5, seeds=2, people=16), draws=25, seed=5)
    assert covered >= 0.9 and error < raw
    assert sum(many for *_, many in bins) == 25 * 16 and len(bins) == len(BINS) - 1
    for said, true, many in bins:
        assert abs(said - true) < 3 * np.sqrt(said * (1 - said) / many) + 0.02


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
