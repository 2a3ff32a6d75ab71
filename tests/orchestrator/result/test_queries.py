"""The leak against queries: counted per class, parts shared out, and a curve that only grows."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.leaks import by_access
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of

CLASSES = 10
ATTACKS = {  # attack -> access, is a control, queries per class, queries of parts, hit rate
    "white": ("gradients", False, 500.0, 0.0, 0.6),
    "labels": ("labels", False, 9000.0, 0.0, 0.3),
    "students": ("scores", False, 20.0, 1000.0, 0.2),
    "chance": ("none", True, None, 0.0, 0.1),
    "untold": ("scores", False, None, 0.0, 0.9),
    "alike": ("scores", False, 120.0, 0.0, 0.25),
}


@pytest.fixture(scope="module")
def found():
    rows, hits, parts = [], [], {}
    for alpha in (0.0, -0.2):
        for attack, (access, control, queries, once, rate) in ATTACKS.items():
            for seed in (1, 2):
                trial, leak = f"{alpha} {attack} {seed}", rate / (2 if alpha else 1)
                rows.append(
                    {
                        "trial": trial,
                        "seed": seed,
                        "status": "done",
                        "alpha": alpha,
                        "attack_settings": attack,
                        "attack_access": access,
                        "attack_control": control,
                        "attack_published": True,
                        "queries": queries,
                        "test_acc": 0.9,
                        "embedder_acc1": leak,
                    }
                )
                hits += [{"trial": trial, "class": f"c{c}", "embedder_acc1": leak} for c in range(CLASSES)]
                parts[trial] = once
    axes = (Axis(key="alpha"), Axis(key="attack_settings", role="attack", bare=True))
    data = ReportData(
        title="t", results=pd.DataFrame(rows), per_class=pd.DataFrame(hits), axes=axes, baseline={"alpha": 0.0}
    )
    return result_of(replace(data, asked=parts), summarise(data, resamples=50)).queries


def test_the_row_of_a_recipe_under_an_attack(found):
    row = found[(found["recipe"] == "alpha\xa00") & (found["attack"] == "students")].iloc[0]
    assert (row["access"], row["n"], row["classes"], row["metric"]) == ("scores", 2, CLASSES, "embedder_acc1")
    assert (row["queries_class"], row["queries_once"], row["queries"]) == (20.0, 1000.0, 120.0)
    assert row["leak"] == pytest.approx(0.2) and row["low"] <= row["leak"] <= row["high"]


def test_each_recipe_has_a_curve_in_the_order_of_its_queries_that_only_grows(found):
    assert len(found) == 2 * len(ATTACKS)
    for _, curve in found.groupby("recipe"):
        assert list(curve["attack"]) == ["chance", "students", "alike", "white", "labels", "untold"]
        np.testing.assert_allclose(curve["reached"].dropna() / curve["leak"].max() * 0.9, [0.25, 0.25, 0.6, 0.6])
        assert curve["reached"].isna().tolist() == [True, False, False, False, False, True], "a control reaches nothing"


def test_who_asks_nothing_asks_nothing_and_what_is_not_known_is_not_nothing(found):
    asked = found.set_index("attack")["queries"]
    assert (asked["chance"] == 0.0).all() and asked["untold"].isna().all()


def test_who_has_more_access_reaches_at_least_as_much(found):
    levels = by_access(found)
    assert list(levels) == ["labels", "scores", "gradients"]
    ends = {level: rows.groupby("recipe")["reached"].max() for level, rows in levels.items()}
    assert (ends["labels"] <= ends["scores"]).all() and (ends["scores"] < ends["gradients"]).all()
    assert set(levels["labels"]["attack"]) == {"labels", "chance"}
    assert ends["labels"].max() == pytest.approx(0.3) and ends["gradients"].max() == pytest.approx(0.6)
    pd.testing.assert_series_equal(levels["gradients"]["reached"], found["reached"])
