"""The leak without the judge's known error, from the rows of a sweep to the page."""

from dataclasses import replace

import pandas as pd
import pytest

from smoothsweep.orchestrator.page.render import part
from smoothsweep.orchestrator.reading.leak.known_error import corrected_words, known_error
from smoothsweep.orchestrator.reading.numbers.summary import summarise
from tests.orchestrator.reading.test_hiding import CLASSES, RATES, data


def judged(real_images=100, ceiling=0.9):
    given = data()
    return replace(given, results=given.results.assign(embedder_real_acc=ceiling), real_images=real_images)


def test_the_error_is_that_of_real_images_and_of_the_control():
    given = judged()
    summary = summarise(given)
    found = known_error(given, summary)
    control = given.results[given.results["attack_control"]]
    worst = control.groupby("alpha")["embedder_acc1"].mean().max()
    assert found.false_positives.share == pytest.approx(worst) and found.false_positives.trials == 3 * CLASSES
    assert (found.sensitivity.share, found.sensitivity.trials, found.control) == (pytest.approx(0.9), 100, "chance")
    for recipe, row in summary.rows("embedder_acc1").items():
        observed, leak = summary.frame.loc[row, "embedder_acc1"], found.leaks[recipe]
        assert leak.value == pytest.approx(min(1, max(0, (observed - worst) / (0.9 - worst))))
        assert corrected_words(summary, leak) in part("judges", given, summary)


def test_a_judge_that_tells_nothing_says_so():
    given = judged(ceiling=0.06)
    summary = summarise(given)
    assert set(known_error(given, summary).leaks.values()) == {None}
    assert "hardly better than chance" in part("judges", given, summary)


def test_without_a_control_or_real_images_nothing_is_corrected():
    plain = data(attacks=("ppa", "ppa logit"))
    assert known_error(plain, summarise(plain)) is None
    unknown = judged(real_images=None)
    assert known_error(unknown, summarise(unknown)) is None
    bare = data()
    bare = replace(bare, real_images=50, results=pd.DataFrame(bare.results))
    assert known_error(bare, summarise(bare)) is None


def test_of_several_controls_the_one_that_is_credited_most_and_photographs_of_all_recipes():
    """Two controls under three recipes; the judge knows other photographs in each training of it."""
    attacks = ("ppa", "chance", "other chance", "ppa logit")
    published = {"ppa": True, "ppa logit": False, "chance": True, "other chance": True}
    rates = {alpha: under | {"other chance": {0.0: 0.1, -0.2: 0.3, -0.5: 0.2}[alpha]} for alpha, under in RATES.items()}
    given = data(attacks=attacks, published=published, seeds=(1, 2), rates=rates)
    given = replace(
        given,
        real_images=70,
        results=given.results.assign(
            attack_control=given.results["attack_settings"].str.contains("chance"),
            embedder_real_acc=0.8 + 0.01 * given.results["seed"] - 0.1 * given.results["alpha"],
        ),
    )
    found, summary = known_error(given, summarise(given)), summarise(given)
    controls = given.results[given.results["attack_control"]]
    by_cell = controls.groupby(["alpha", "attack_settings"])["embedder_acc1"].mean()
    assert found.control == by_cell.idxmax()[1] == "other chance"
    assert found.false_positives.share == pytest.approx(by_cell.max()) and found.false_positives.trials == 2 * CLASSES
    ceiling = 0.8 + 0.015 + 0.1 * 0.7 / 3
    assert found.sensitivity.share == pytest.approx(ceiling) and found.sensitivity.trials == 70
    for recipe, row in summary.rows("embedder_acc1").items():
        observed = summary.frame.loc[row, "embedder_acc1"]
        wanted = (observed - by_cell.max()) / (ceiling - by_cell.max())
        assert found.leaks[recipe].value == pytest.approx(min(1, max(0, wanted)))
        assert found.leaks[recipe].low <= found.leaks[recipe].value <= found.leaks[recipe].high
    assert known_error(replace(given, per_class=None), summarise(replace(given, per_class=None))) is None
