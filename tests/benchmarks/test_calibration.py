"""The rule of comparisons keeps its bars in a small simulation; benchmarks/calibration.py has the whole design."""

import json

import numpy as np
import pytest

from benchmarks import calibration
from benchmarks.calibration import (
    BINS,
    LEVEL,
    SPREADS,
    Crowd,
    Design,
    Results,
    beyond,
    cells_of,
    coverage,
    drawn,
    drawn_crowd,
    people_told,
    report,
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


def test_power_is_what_is_asked_for():
    assert simulated(Design(gap=4.0), (20.0,), 400, (2, 1))["reduces"] >= 0.6
    assert simulated(Design(recipes=9, attacks=5, people=16, gap=4.0), (25.0,), 200, (2, 2))["reduces"] >= 0.45


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


def test_drawn_sweeps_have_the_rates_and_spreads_asked_for():
    design = Design(recipes=3, attacks=2, seeds=2, people=40, leak=0.5, gap=10.0, images=400, seed_spread=5.0, wild=2.0)
    rates = design.rates((20.0,))
    assert rates == pytest.approx(np.array([[0.5, 0.4], [0.3, 0.2], [0.5, 0.4]]))
    cells = drawn(design, design.logits(rates), 400, np.random.default_rng(0))
    np.testing.assert_allclose(cells.mean(axis=(0, 3, 4)), rates, atol=0.015)
    logits = 25 * np.log((cells + 1e-3) / (1 - cells + 1e-3))  # in points
    trainings = (logits[:, 1:, 0] - logits[:, :1, 0]).mean(axis=-1)  # of the second and third recipe beside the first
    spread = (trainings[..., 0] - trainings[..., 1]).std(axis=0) / np.sqrt(2)
    own, people = np.array([2.0, 1.0]) ** 2 + 1, 2 * SPREADS["recipe_seed_person"] ** 2 / 40
    expected = np.sqrt(own * (5.0**2 + SPREADS["recipe_seed_attack"] ** 2) + people)
    np.testing.assert_allclose(spread, expected, rtol=0.15)


def test_results_go_on_from_their_file_and_cells_beyond_a_bar_are_drawn_again(tmp_path, monkeypatch):
    first = Results(path=tmp_path / "r.json", draws=20, seed=3)
    lines = list(report(first, small=True, most=3))
    kept = json.loads((tmp_path / "r.json").read_text())
    monkeypatch.setattr("benchmarks.calibration.simulated", None)  # whoever simulates again fails
    assert list(report(Results(path=tmp_path / "r.json", draws=20, seed=3), small=True, most=3)) == lines
    bad = {key: {**one, "missed": 1.0} for key, one in kept.items() if "draws 20 " in key}
    (tmp_path / "r.json").write_text(json.dumps(bad))
    again = Results(path=tmp_path / "r.json", draws=20, seed=3)
    with pytest.raises(TypeError):
        again.judged(next(cells_of(small=True)))


def test_what_lies_beyond_a_bar():
    fine = {"reduces": 0.025, "hides": 0.025, "missed": 0.05, "uncovered": 0.05 + 2 * (0.05 * 0.95 / 400) ** 0.5}
    assert beyond(fine, 400) == []
    for name in fine:
        assert beyond(fine | {name: fine[name] + 0.001}, 400) == [name]


@pytest.mark.parametrize("kind", ["logits", "strong", "beta"])
@pytest.mark.parametrize("rate", [0.01, 0.5, 0.99])
def test_people_have_the_rate_that_they_should(kind, rate):
    generator = np.random.default_rng(0)
    shares, true = drawn_crowd(Crowd(rate=rate, seeds=300, people=600, kind=kind), generator)
    assert shares.shape == (300, 600) and true.shape == (600,)
    assert shares.mean() == pytest.approx(true.mean(), abs=0.006)
    assert true.mean() == pytest.approx(rate, abs=4 * true.std() / np.sqrt(600))


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
