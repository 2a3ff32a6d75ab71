"""Pairs, the frontier, the judges' orders and the cost: what the page says of them, against closed forms."""

import re

import numpy as np
import pytest
from made_rows import made_data

from smoothsweep.orchestrator.page.figures.accuracy_leak import plot
from smoothsweep.orchestrator.page.figures.of_sweep import Figures
from smoothsweep.orchestrator.page.render import part
from smoothsweep.orchestrator.result.data import Axis
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
    assert result_of(nobody).sentences["front"] == () == frontier(nobody).stairs


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
