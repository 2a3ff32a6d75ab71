"""The rule of comparisons keeps its bars in a small simulation, chosen so that each of its parts is needed.

Taking away the correction for the choice of attack, Dunnett's number of comparisons, the guards, any part of the one
that comparisons with a baseline have, or the spent error of looks takes one of these cells beyond its bar, which is
tested too. benchmarks/calibration.py has the whole design.
"""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import calibration
from benchmarks.calibration import LEVEL, SPREADS, Design, Results, beyond, cells_of, drawn, report, simulated
from smoothsweep.core.metrics.leak_comparisons import LeakCells, compare_leaks
from smoothsweep.core.metrics.looks import Looks
from smoothsweep.core.metrics.verdicts import CrossedEffects, Dunnett

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
MORE_DRAWS = {"the baseline of three times the spread": 16_000}
"""Where leaving out one part takes the cell over its bar by little."""


def over(name):
    """The bars that a cell is over by more than two standard errors of the simulation."""
    looks = LOOKS if name == "looks" else None
    draws = MORE_DRAWS.get(name, DRAWS)
    found = simulated(CELLS[name], (), draws, (1, 2), looks, 0.0001 if looks else None)
    slack = {bar: 2 * np.sqrt(most * (1 - most) / draws) for bar, most in BARS.items()}
    return [bar for bar, most in BARS.items() if getattr(found, bar) > most + slack[bar]]


@pytest.mark.parametrize("name", CELLS)
def test_errors_stay_below_their_bars(name):
    assert over(name) == []


def test_without_the_correction_for_the_choice_of_attack_they_do_not(monkeypatch):
    shipped = LeakCells.reduction
    monkeypatch.setattr(LeakCells, "reduction", lambda self, *pair: replace(shipped(self, *pair), looked_at=1))
    assert "reduces" in over("one attack works on the recipe, five on the baseline")


def test_nor_with_fewer_comparisons_than_there_are_recipes(monkeypatch):
    monkeypatch.setattr(calibration, "against_baseline", lambda recipes, among: Dunnett(comparisons=1))
    assert "missed" in over("many recipes")


def test_nor_without_both_guards(monkeypatch):
    def nothing(self):
        return np.zeros((*self.cells.shape[:-4], self.cells.shape[-4] ** 2, 4))

    monkeypatch.setattr(CrossedEffects, "_seeds_by_pair", property(nothing))
    monkeypatch.setattr(Dunnett, "of_recipes", None)
    assert "missed" in over("one recipe of three times the spread")


def test_nor_without_the_guard_of_comparisons_with_a_baseline(monkeypatch):
    monkeypatch.setattr(Dunnett, "of_recipes", None)
    assert over("the baseline of three times the spread") == ["reduces", "missed"]
    assert "missed" in over("the same, many recipes")


def test_nor_if_it_adds_the_spreads_of_two_recipes_up(monkeypatch):
    monkeypatch.setattr(CrossedEffects, "_seeds_within", lambda self, weights, recipe: 0.0)
    assert over("the baseline of three times the spread") == ["reduces"]


def test_nor_if_it_is_for_one_statement(monkeypatch):
    monkeypatch.setattr(Dunnett, "of_recipes", Dunnett(comparisons=1))
    assert over("the baseline of three times the spread") == ["reduces"]


def test_nor_if_it_has_the_degrees_of_freedom_of_all_recipes(monkeypatch):
    def all_recipes(self):
        recipes, _, seeds, _ = self.cells.shape[-4:]
        return np.array([(recipes - 1.0) * (seeds - 1), self.cells.shape[-1] - 1.0])

    monkeypatch.setattr(CrossedEffects, "_freedoms_alone", property(all_recipes))
    assert over("the same, many recipes") == ["missed"]


def test_nor_where_every_look_has_the_whole_error(monkeypatch):
    monkeypatch.setattr(Looks, "errors", (1 - LEVEL,) * len(LOOKS.seeds))
    assert "reduces" in over("looks")


def test_power_is_what_is_asked_for():
    assert simulated(Design(gap=4.0), (20.0,), 400, (2, 1)).reduces >= 0.6
    assert simulated(Design(recipes=9, attacks=5, people=16, gap=4.0), (25.0,), 200, (2, 2)).reduces >= 0.45


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
    first.save()
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
