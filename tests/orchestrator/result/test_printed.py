"""The tables of an export, typed: what is marked as distinguishable, and what a caption says."""

import numpy as np
import pandas as pd
import pytest

from smoothsweep.orchestrator.page.tables import latex_tables, tables_of
from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of

CLASSES, SEEDS = [f"c{i}" for i in range(20)], (1, 2, 3)


def swept(leaks, *, accuracy=None, attacks=("a",), evaluator=None, **changes):
    """alpha -> mean leak under the first attack, a tenth less under each further one. accuracy: alpha -> mean;
    evaluator: attack -> its leak by the evaluator."""
    rows, hits = [], []
    for alpha, leak in leaks.items():
        for number, attack in enumerate(attacks):
            for seed in SEEDS:
                trial = f"{alpha}{attack}{seed}"
                rng = np.random.default_rng([round(100 * abs(alpha)), number, seed])
                rates = np.clip(rng.normal(leak - number / 10, 0.05, len(CLASSES)), 0, 1)
                rows.append({"trial": trial, "seed": seed, "status": "done", "alpha": alpha, "attack": attack})
                rows[-1] |= {"test_acc": (accuracy or {}).get(alpha, 0.9) + seed / 1000, "embedder_acc1": rates.mean()}
                rows[-1] |= {} if evaluator is None else {"attack_acc1": evaluator[attack] + seed / 1000}
                hits.append(pd.DataFrame({"trial": trial, "class": CLASSES, "embedder_acc1": rates}))
    axes = (Axis(key="alpha"), Axis(key="attack", role="attack", bare=True))
    given = {"results": pd.DataFrame(rows), "per_class": pd.concat(hits), "baseline": {"alpha": 0.0}, **changes}
    return tables(ReportData(title="t", axes=axes, **given))


def tables(data):
    return tables_of(result_of(data, summarise(data)))


OWN_ATTACKS = "The numbers of another judge are under the attack that works best by that judge."


def test_only_what_differs_from_the_baseline_is_marked():
    (table,) = swept({0.0: 0.8, -0.2: 0.3, 0.1: 0.8})
    rows = table.rows.set_index("recipe")
    clear, alike, baseline = (rows.loc[f"alpha\u00a0{alpha}"] for alpha in ("\u22120.2", "0.1", "0"))
    assert clear["reduction_differs"] and clear["embedder_acc1_differs"] and clear["verdict"] == "reduces"
    assert not alike["reduction_differs"] and not alike["embedder_acc1_differs"]
    assert alike["verdict"] == "inconclusive" and not rows["test_acc_differs"].any()
    assert baseline["role"] == "baseline" and pd.isna(baseline["reduction"]) and pd.isna(baseline["verdict"])
    assert clear["reduction"] == pytest.approx(baseline["embedder_acc1"] - clear["embedder_acc1"])
    assert clear["reduction_low"] < clear["reduction"] < clear["reduction_high"] and clear["reduction_n"] == 3


def test_a_recipe_that_leaks_more_is_marked_too_with_its_sign():
    (table,) = swept({0.0: 0.3, 0.1: 0.8})
    (worse,) = table.rows[table.rows["role"] == ""].to_dict("records")
    assert worse["reduction_differs"] and worse["reduction_high"] < 0 and worse["verdict"] == "leaks more"


def test_an_accuracy_that_differs_is_marked_and_one_alike_is_not():
    accuracy = {0.0: 0.9, 0.1: 0.6, -0.2: 0.9}
    (table,) = swept(dict.fromkeys(accuracy, 0.8), accuracy=accuracy)
    assert set(table.rows.loc[table.rows["test_acc_differs"], "recipe"]) == {"alpha\u00a00.1"} and len(table.rows) == 3


def test_without_a_leak_the_accuracies_are_there_and_nothing_is_compared():
    known = [(alpha, seed) for alpha in (0, 1) for seed in SEEDS]
    rows = [{"trial": f"{a}{s}", "seed": s, "status": "done", "alpha": a, "test_acc": 0.5 + s / 100} for a, s in known]
    (table,) = tables(
        ReportData(title="t", results=pd.DataFrame(rows), axes=(Axis(key="alpha"),), baseline={"alpha": 0})
    )
    assert [round(value, 6) for value in table.rows["test_acc"]] == [0.52, 0.52]
    assert table.leak is None and "Reduction" not in table.captions[0]


def test_several_attacks_have_a_table_of_their_own_and_each_recipe_its_strongest():
    recipes, attacks = swept({0.0: 0.8, -0.2: 0.3}, attacks=("a", "b"))
    assert (recipes.stem, attacks.stem) == ("recipes", "attacks")
    assert list(recipes.rows["attack"]) == ["a", "a"] and list(attacks.rows["attack"]) == ["a", "a", "b", "b"]
    for _, row in attacks.rows[attacks.rows["reduction"].notna()].iterrows():
        alike = attacks.rows[attacks.rows["attack"] == row["attack"]].set_index("role")["embedder_acc1"]
        assert row["reduction"] == pytest.approx(alike["baseline"] - alike[""]) and row["reduction_differs"]
        assert row["reduction_low"] < row["reduction"] < row["reduction_high"]


def test_a_row_says_that_other_judges_may_have_another_strongest_attack():
    """By the first judge attack a is stronger, by the evaluator b: one row holds numbers of both."""
    leaks = {0.0: 0.8, -0.2: 0.3}
    table, by_attack = swept(leaks, attacks=("a", "b"), evaluator={"a": 0.5, "b": 0.9})
    assert set(table.rows["attack"]) == {"a"} and table.rows["attack_acc1"].tolist() == pytest.approx([0.902] * 2)
    (judges,) = [text for name, text in latex_tables(table, "t").items() if name == "-judges"]
    assert OWN_ATTACKS in table.captions[0] and OWN_ATTACKS in judges
    for other in (by_attack, *swept(leaks, attacks=("a", "b"))):
        assert OWN_ATTACKS not in " ".join(other.captions), "nothing to say where there is one judge"
