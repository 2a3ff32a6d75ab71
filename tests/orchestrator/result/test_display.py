"""What figures show of many recipes: which rows, which judges, and which way a difference is good."""

import pandas as pd
import pytest

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.leak_comparisons import LeakComparison
from smoothsweep.core.metrics.power import Needed
from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.display import (
    MANY,
    difference_verdict,
    leak_verdict,
    shown_rows,
)
from smoothsweep.orchestrator.result.estimates import Comparison
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.summary import summarise


def data(recipes, baseline="r00", metric="embedder_acc1", **more):
    """recipes: how many; of the first five the accuracy rises with the leak, the others are beaten by the first."""
    rows = [
        {
            "trial": f"{number}-{attack}-{seed}",
            "seed": seed,
            "status": "done",
            "name": f"r{number:02}",
            "attack_name": attack,
            "attack_access": "gradients",
            "attack_control": False,
            "attack_published": True,
            "test_acc": 0.8 + 0.01 * number if number < 5 else 0.5,
            "attack_acc1": 0.9,
            metric: 0.3 + 0.05 * min(number, 5) + 0.01 * number + 0.01 * (attack == "y"),
        }
        for number in range(recipes)
        for attack in "xy"
        for seed in (1, 2)
    ]
    axes = (Axis(key="name", bare=True), Axis(key="attack_name", role="attack", bare=True))
    return ReportData(
        title="t", results=pd.DataFrame(rows), axes=axes, baseline={"name": baseline} if baseline else {}, **more
    )


@pytest.mark.parametrize(
    ("recipes", "baseline", "shown"),
    [
        (MANY - 1, "r07", range(MANY - 1)),
        (MANY, "r07", range(MANY)),
        (MANY + 1, "r07", [0, 1, 2, 3, 4, 7]),
        (MANY + 3, None, [0, 1, 2, 3, 4]),
    ],
)
def test_of_many_recipes_the_front_and_the_baseline_are_shown(recipes, baseline, shown):
    summary = summarise(data(recipes, baseline), resamples=20)
    rows = shown_rows(summary)
    assert summary.frame.loc[rows, "recipe"].tolist() == [f"r{number:02}" for number in shown] * 2
    assert rows == sorted(rows)


def gap(difference, low, high, verdict):
    return Comparison(difference=difference, low=low, high=high, n=2, verdict=verdict)


@pytest.mark.parametrize(
    ("metric", "verdict", "look"),
    [
        ("test_acc", "higher", "good"),
        ("test_acc", "lower", "bad"),
        ("test_acc", "inconclusive", "unclear"),
        ("gradient_cosine", "higher", ""),
    ],
)
def test_which_way_a_metric_that_is_no_leak_is_good_for_the_owner(metric, verdict, look):
    spec = metric_of(metric)
    sign = {"lower": -1, "higher": 1}.get(verdict, 1)
    one = gap(0.2 * sign, *sorted((0.1 * sign, 0.3 * sign)), verdict)
    found = difference_verdict(spec, one)
    assert found.look == look and ("10" in found.size or "0.1" in found.size)
    assert verdict in found.words and found.needed == ""


def compared(word, reduction, low, high, **more):
    return LeakComparison(
        word=word,
        reduction=reduction,
        low=low,
        high=high,
        p=0.01,
        comparisons=1,
        attack="x",
        attack_reference="y",
        seeds=2,
        **more,
    )


@pytest.mark.parametrize(
    ("word", "look"),
    [
        ("reduces", "good"),
        ("leaks more", "bad"),
        ("hides", "bad"),
        ("inconclusive", "unclear"),
    ],
)
def test_which_word_of_a_leak_is_good_for_the_owner(word, look):
    needed = Needed(seeds=7, classes=20) if word == "inconclusive" else None
    found = leak_verdict(metric_of("embedder_acc1"), compared(word, 0.2, 0.1, 0.3, needed=needed))
    assert (found.words, found.look) == (word, look) and found.meaning
    assert ascii_text(found.size) == "+20.0 [+10, +30]"
    assert ascii_text(found.needed) == ("7 seeds" if needed else "")


@pytest.mark.parametrize(
    ("ends", "said"), [((0.0, 0.0), "the same"), ((-1e-17, 2e-17), "the same"), ((-1e-4, 1e-4), "inconclusive")]
)
def test_no_difference_at_all_is_the_same_and_not_inconclusive(ends, said):
    found = difference_verdict(metric_of("gradient_cosine"), gap(sum(ends) / 2, *ends, "inconclusive"))
    assert said in (found.words, found.size) and ("0.000000000" not in found.size)
