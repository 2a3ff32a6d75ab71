"""Pairs, the frontier, the judges' orders and the cost: what the page says of them, against closed forms."""

import re

import numpy as np
import pytest
from made_rows import ATTACK, made_data, of_attack

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.orchestrator.page.figures.accuracy_leak import plot
from smoothsweep.orchestrator.page.figures.of_sweep import Figures
from smoothsweep.orchestrator.page.render import part
from smoothsweep.orchestrator.result.data import Axis
from smoothsweep.orchestrator.result.display import MANY, compared, shown_rows
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.summary import decide, summarise
from smoothsweep.orchestrator.result.sweep_result import result_of


def sweep(points, *, seeds=2, noise=0.04, baseline=None, **changes):
    """points: recipe -> (accuracy, independent judge, evaluator)."""
    rows = []
    for number, (recipe, (acc, *rates)) in enumerate(points.items()):
        for seed in range(seeds):
            rng = np.random.default_rng([number, seed])
            judged = zip(("embedder_acc1", "attack_acc1"), rates, strict=False)
            hits = {key: np.clip(rate + rng.normal(0, noise, 10), 0, 1) for key, rate in judged}
            rows.append({"seed": seed, "name": recipe, "test_acc": acc, **hits})
    return made_data(rows, Axis(key="name", bare=True), baseline={"name": baseline} if baseline else {}, **changes)


POINTS = {"base": (0.95, 0.7, 0.9), "best": (0.9, 0.3, 0.8), "dear": (0.6, 0.2, 0.5), "beaten": (0.85, 0.6, 0.85)}


def frontier(data, summary=None):
    summary = summary or summarise(data)
    return Figures(data=data, result=result_of(data, summary)).panels.frontier()


def test_the_accuracy_asked_for_is_drawn_and_bounds_the_frontier():
    data = sweep(POINTS, baseline="base", min_test_acc=0.8)
    summary = summarise(data)
    assert decide(summary).front == ("base", "best")
    panel = frontier(data, summary)
    assert panel.asked[0] == 0.8 and len(panel.stairs) == 2
    drawn = plot([panel], 620, 370).svg()
    assert "80.0" in drawn and "asked for" in drawn
    assert frontier(sweep(POINTS)).asked is None
    for recipe in POINTS:
        assert f'data-recipe="{recipe}"' in drawn and f'href="#row-{summary.evidence.rows[recipe]}"' in drawn
    assert len(re.findall("best with probability", drawn)) == 3  # "dear" cannot be chosen
    nobody = sweep(POINTS, min_test_acc=0.99)
    assert result_of(nobody).facts["front"] == () == frontier(nobody).stairs


def test_the_least_is_called_so_only_where_it_is_told_from_all_others():
    two = {"base": POINTS["base"], "best": POINTS["best"]}
    for points, words in ((two, "least leak"), (two | {"near": (0.9, 0.31, 0.8)}, "lowest measured")):
        data = sweep(points, baseline="base")
        summary = summarise(data)
        choice, page = decide(summary), part("first", data, result_of(data, summary))
        assert choice.clear and choice.significant == (words == "least leak")
        assert {tag for tag in ("least leak", "lowest measured") if f">{tag}<" in page} == {words}


@pytest.mark.parametrize("order", [("poor", "good"), ("good", "poor")])
def test_of_two_that_leak_alike_the_more_accurate_is_recommended(order):
    points = {"base": (0.95, 0.7, 0.9), "poor": (0.8, 0.3, 0.8), "good": (0.9, 0.3, 0.8)}
    points = {name: points[name] for name in ("base", *order)}
    summary = summarise(sweep(points, noise=0.0, baseline="base"))
    assert summary.evidence.recommendation.best == "good"
    assert decide(summary).best == summary.evidence.rows["good"]
    assert decide(summary).front == ("base", "good")


def test_the_first_screen_has_the_frontier_and_leaves_out_first_what_is_not_accurate_enough():
    """Nine recipes for six rows: of those below the accuracy asked for, which leak least of all, none takes a row."""
    low = {f"low{k}": (0.6 + 0.01 * k, 0.1 + 0.01 * k, 0.9) for k in range(3)}
    others = {"between": (0.86, 0.5, 0.9), "behind": (0.85, 0.65, 0.9), "beaten": (0.84, 0.66, 0.9)}
    front = {"best": (0.9, 0.4, 0.9), "middle": (0.93, 0.6, 0.9), "base": (0.95, 0.7, 0.9)}
    data = sweep(low | others | front, baseline="base", min_test_acc=0.8, noise=0.01)
    summary = summarise(data)
    assert set(decide(summary).front) == set(front) and set(decide(summary).below) == set(low)
    table = part("first", data, result_of(data, summary)).split('<table class="short"')[1].split("</table>")[0]
    shown = re.findall(r'<tr class="[^"]*" data-recipe="(\w+)"', table)
    assert shown == ["best", "between", "middle", "behind", "beaten", "base"], "by rising leak"
    assert "accuracy below" not in table
    few = sweep({"low": low["low0"]} | front, baseline="base", min_test_acc=0.8)
    table = part("first", few, result_of(few)).split('<table class="short"')[1].split("</table>")[0]
    (row,) = [row for row in table.split("<tr")[1:] if 'data-recipe="low"' in row]
    assert "test accuracy below 80.0 %" in ascii_text(row) and table.count("accuracy below") == 1


def many(recipes, baseline="r00", metric="embedder_acc1", **more):
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
    summary = summarise(many(recipes, baseline))
    rows = shown_rows(summary)
    assert summary.frame.loc[rows, "recipe"].tolist() == [f"r{number:02}" for number in shown] * 2
    assert rows == sorted(rows)


def shown(value, low, high, word, **more):
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
    found = compared(metric_of(metric), shown(-0.2, -0.3, -0.1, word, needed=needed), "k", "k_word")
    assert found["look"] == look and word in found["words"] and ("10" in found["size"] or "0.1" in found["size"])
    if metric == "embedder_acc1":
        assert ascii_text(found["size"]) == "-20.0 [-30, -10]" and bool(found["meaning"]) == bool(word)
        assert found["settling"].startswith(needed) and bool(found["settling"]) == bool(needed)
    assert compared(metric_of(metric), shown(None, None, None, None), "k", "k_word") is None


@pytest.mark.parametrize(
    ("ends", "said"), [((0.0, 0.0), "the same"), ((-1e-17, 2e-17), "the same"), ((-1e-4, 1e-4), "inconclusive")]
)
def test_no_difference_at_all_is_the_same_and_not_inconclusive(ends, said):
    found = compared(metric_of("gradient_cosine"), shown(sum(ends) / 2, *ends, "inconclusive"), "k", "k_word")
    assert said in (found["words"], found["size"]) and ("0.000000000" not in found["size"])
