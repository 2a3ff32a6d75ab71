"""What is said of a family's strengths, from comparisons made by hand: which of them, and with which numbers."""

from types import SimpleNamespace

import pytest

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.leak_comparisons import LeakComparison
from smoothsweep.orchestrator.reading.defenses.families import Versus
from smoothsweep.orchestrator.reading.defenses.readings import family_sentence
from smoothsweep.orchestrator.reading.numbers.estimates import NOTHING, Comparison
from smoothsweep.orchestrator.reading.numbers.format import ascii_text

MARGIN = 0.01


def leak(word, reduction, seeds=3):
    return LeakComparison(
        word=word,
        reduction=reduction,
        low=reduction - 0.05,
        high=reduction + 0.04,
        p=0.03,
        comparisons=5,
        attack="x",
        attack_reference="x",
        seeds=seeds,
    )


def accuracy(difference, half=0.02):
    return Comparison(difference=difference, low=difference - half, high=difference + half, n=3, verdict="lower")


def said(gaps, metric="embedder_acc1", absent=(), reference="base", plain=True):
    """gaps: strength -> (leak, accuracy)."""
    points = [SimpleNamespace(recipe=f"r {name}", words=SimpleNamespace(strength=name)) for name in (*gaps, *absent)]
    group = SimpleNamespace(reference=reference, plain=SimpleNamespace(recipe="base") if plain else None)
    summary = SimpleNamespace(deciding=metric, spec=metric_of(metric), accuracy_margin=MARGIN)
    compared = {f"r {name}": Versus(leak=leak, accuracy=accuracy) for name, (leak, accuracy) in gaps.items()}
    return ascii_text(family_sentence(summary, group, SimpleNamespace(points=points), compared))


GAPS = {
    "weak": (leak("reduces", 0.10), accuracy(-0.015)),
    "middle": (leak("reduces", 0.20, 4), accuracy(-0.02)),
    "strong": (leak("reduces", 0.40, 5), accuracy(-0.09)),
    "odd": (leak("leaks more", -0.30), accuracy(0.03)),
    "odder": (leak("leaks more", -0.15), accuracy(0.0)),
    "close": (leak("inconclusive", 0.01, 2), accuracy(0.0)),
    "near": (leak("inconclusive", -0.02, 4), accuracy(0.0)),
    "masked": (leak("hides", 0.02, 3), accuracy(0.0)),
    "alone": (None, NOTHING),
}


def test_an_accuracy_is_kept_only_where_the_whole_interval_lies_above_the_margin():
    for half, kept in ((0.005, True), (0.02, False)):
        line = said({"strong": (leak("reduces", 0.4), accuracy(0.0, half))})
        assert ("without a loss of 1.0 point of test accuracy" in line) is kept and "0.0 points [" in line
    assert "was not measured" in said({"strong": (leak("reduces", 0.4), NOTHING)})


@pytest.mark.parametrize(("saved", "named_again"), [(0.004, False), (0.006, True)])
def test_a_more_accurate_one_is_named_where_it_saves_half_a_point(saved, named_again):
    gaps = {"strong": (leak("reduces", 0.4), accuracy(-0.05)), "weak": (leak("reduces", 0.2), accuracy(saved - 0.05))}
    line = said(gaps)
    assert ("is weak" in line) is named_again and ("direction: weak" in line) is not named_again
