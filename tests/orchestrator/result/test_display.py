"""What figures show of many recipes: which rows, which judges, and which way a difference is good."""

import pytest
from made_rows import ATTACK, made_data, of_attack

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.orchestrator.result.data import Axis
from smoothsweep.orchestrator.result.display import (
    MANY,
    compared,
    shown_rows,
)
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.summary import summarise


def data(recipes, baseline="r00", metric="embedder_acc1", **more):
    """recipes: how many; of the first five the accuracy rises with the leak, the others are beaten by the first."""
    rows = [
        {
            **{"seed": seed, "name": f"r{number:02}", **of_attack(attack), "attack_acc1": 0.9},
            "test_acc": 0.8 + 0.01 * number if number < 5 else 0.5,
            metric: 0.3 + 0.05 * min(number, 5) + 0.01 * number + 0.01 * (attack == "y"),
        }
        for number in range(recipes)
        for attack in "xy"
        for seed in (1, 2)
    ]
    return made_data(rows, Axis(key="name", bare=True), ATTACK, baseline={"name": baseline} if baseline else {}, **more)


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
    summary = summarise(data(recipes, baseline))
    rows = shown_rows(summary)
    assert summary.frame.loc[rows, "recipe"].tolist() == [f"r{number:02}" for number in shown] * 2
    assert rows == sorted(rows)


def row(value, low, high, word, **more):
    return {"k": value, "k_low": low, "k_high": high, "k_word": word, **more}


@pytest.mark.parametrize(
    ("metric", "word", "look"),
    [
        ("test_acc", "higher", "good"),
        ("test_acc", "lower", "bad"),
        ("test_acc", "inconclusive", "unclear"),
        ("gradient_cosine", "higher", ""),
        ("embedder_acc1", "reduces", "good"),
        ("embedder_acc1", "leaks more", "bad"),
        ("embedder_acc1", "hides", "bad"),
        ("embedder_acc1", "inconclusive", "unclear"),
        ("embedder_acc1", "", ""),
    ],
)
def test_which_way_a_difference_is_good_for_the_owner(metric, word, look):
    needed = "7 seeds" if word == "inconclusive" else ""
    found = compared(metric_of(metric), row(-0.2, -0.3, -0.1, word, needed=needed), "k", "k_word")
    assert found["look"] == look and word in found["words"] and ("10" in found["size"] or "0.1" in found["size"])
    if metric == "embedder_acc1":
        assert ascii_text(found["size"]) == "-20.0 [-30, -10]" and bool(found["meaning"]) == bool(word)
        assert found["settling"].startswith(needed) and bool(found["settling"]) == bool(needed)
    assert compared(metric_of(metric), row(None, None, None, None), "k", "k_word") is None


@pytest.mark.parametrize(
    ("ends", "said"), [((0.0, 0.0), "the same"), ((-1e-17, 2e-17), "the same"), ((-1e-4, 1e-4), "inconclusive")]
)
def test_no_difference_at_all_is_the_same_and_not_inconclusive(ends, said):
    found = compared(metric_of("gradient_cosine"), row(sum(ends) / 2, *ends, "inconclusive"), "k", "k_word")
    assert said in (found["words"], found["size"]) and ("0.000000000" not in found["size"])
