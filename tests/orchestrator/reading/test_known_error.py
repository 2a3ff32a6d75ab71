"""The leak without the judge's known error, from the rows of a sweep to the page."""

from dataclasses import replace

import pandas as pd
import pytest

from smoothsweep.orchestrator.page.render import part
from smoothsweep.orchestrator.reading.leak.known_error import corrected_words, known_error
from smoothsweep.orchestrator.reading.numbers.summary import summarise
from tests.orchestrator.reading.test_hiding import CLASSES, data


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
