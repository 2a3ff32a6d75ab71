"""Which trainings are remarked on, and with which epochs and accuracies."""

import pytest

from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.page.render import part
from smoothsweep.orchestrator.reading.findings.integrity import DEEP, deepest, dip_sentences
from smoothsweep.orchestrator.reading.numbers.summary import summarise


def rows(test=(), train=()):
    longest = max(len(test), len(train))
    found = [{"epoch": epoch} for epoch in range(longest)]
    for key, values in (("test_acc", test), ("train_acc", train)):
        for row, value in zip(found, values, strict=False):
            row[key] = value
    return found


def test_the_deepest_fall_below_the_best_so_far():
    dip = deepest(rows(test=(0.3, 0.9, 0.6, 0.95, 0.44, 0.5, 0.91)))
    assert (dip.best, dip.at_best, dip.lowest, dip.at_lowest, dip.last, dip.on) == (0.95, 4, 0.44, 5, 0.91, "test")


@pytest.mark.parametrize(
    ("values", "dips"),
    [
        ((0.1, 0.5, 0.9), False),
        ((0.5, 0.5 - DEEP), True),
        ((0.5, 0.51 - DEEP), False),
        ((0.9, 0.8, 0.9, 0.75), False),
        ((0.75, float("nan"), 0.5), True),
        ((), False),
    ],
)
def test_a_fall_of_a_fifth_and_more_is_a_dip(values, dips):
    assert (deepest(rows(test=values)) is not None) is dips


def test_training_images_count_where_no_test_accuracy_was_measured():
    nothing = (float("nan"),) * 3
    assert deepest(rows(test=nothing, train=(0.9, 0.4, 0.8))).on == "training"
    assert deepest(rows(test=(0.9, 0.9, 0.9), train=(0.9, 0.4, 0.8))) is None


def test_the_page_says_it_under_the_curves(make_data):
    accuracies = {"alpha\u00a0\u22120.2": (0.2, 0.92, 0.44, 0.9), "alpha\u00a00": (0.2, 0.8, 0.9, 0.9)}
    curves = {recipe: rows(test=values) for recipe, values in accuracies.items()}
    (line,) = dip_sentences(curves)
    said = line.replace(NBSP, " ").replace("\u2212", "-")
    assert said == (
        "Alpha -0.2 fell from 92.0 % test accuracy (epoch 2) to 44.0 % (epoch 3) and ended at 90.0 % in the "
        "training shown. Stopped at epoch 3, it would be another model."
    )
    data = make_data(training_curves=curves)
    page = part("training", data, summarise(data, resamples=20))
    assert "it would be another model" in page and page.count("fell from") == 1
    assert "the first training that has finished" in page
