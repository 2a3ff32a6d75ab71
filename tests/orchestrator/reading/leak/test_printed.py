"""The tables of an export, typed: what is marked as distinguishable, and what a caption says."""

import numpy as np
import pandas as pd
import pytest

from smoothsweep.orchestrator.page.tables import latex_tables
from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.printed import (
    OWN_ATTACKS,
    printed_tables,
)
from smoothsweep.orchestrator.result.summary import summarise

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
    return summarise(ReportData(title="t", axes=axes, **given))


def test_only_what_differs_from_the_baseline_is_marked():
    (table,) = printed_tables(swept({0.0: 0.8, -0.2: 0.3, 0.1: 0.8}), "t", "clean")
    by_alpha = {row.recipe: row for row in table.rows}
    clear, alike = by_alpha["alpha\u00a0\u22120.2"], by_alpha["alpha\u00a00.1"]
    assert clear.reduction.differs and clear.metrics["embedder_acc1"].differs and clear.verdict == "reduces"
    assert not alike.reduction.differs and not alike.metrics["embedder_acc1"].differs
    assert alike.verdict == "inconclusive" and not any(row.metrics["test_acc"].differs for row in table.rows)
    baseline = by_alpha["alpha\u00a00"]
    assert (baseline.role, baseline.reduction, baseline.verdict) == ("baseline", None, "")
    assert clear.reduction.value == pytest.approx(
        baseline.metrics["embedder_acc1"].value - clear.metrics["embedder_acc1"].value
    )
    assert clear.reduction.low < clear.reduction.value < clear.reduction.high and clear.reduction.seeds == 3


def test_a_recipe_that_leaks_more_is_marked_too_with_its_sign():
    (table,) = printed_tables(swept({0.0: 0.3, 0.1: 0.8}), "t", "clean")
    worse = next(row for row in table.rows if row.role == "")
    assert worse.reduction.differs and worse.reduction.high < 0 and worse.verdict == "leaks more"


def test_an_accuracy_that_differs_is_marked_and_one_alike_is_not():
    accuracy = {0.0: 0.9, 0.1: 0.6, -0.2: 0.9}
    (table,) = printed_tables(swept(dict.fromkeys(accuracy, 0.8), accuracy=accuracy), "t", "clean")
    marked = {row.recipe for row in table.rows if row.metrics["test_acc"].differs}
    assert marked == {"alpha\u00a00.1"} and len(table.rows) == 3


def test_without_a_leak_the_accuracies_are_there_and_nothing_is_compared():
    known = [(alpha, seed) for alpha in (0, 1) for seed in SEEDS]
    rows = [{"trial": f"{a}{s}", "seed": s, "status": "done", "alpha": a, "test_acc": 0.5 + s / 100} for a, s in known]
    data = ReportData(title="t", results=pd.DataFrame(rows), axes=(Axis(key="alpha"),), baseline={"alpha": 0})
    (table,) = printed_tables(summarise(data), "t", "clean")
    assert [round(row.metrics["test_acc"].value, 6) for row in table.rows] == [0.52, 0.52]
    assert table.leak is None and not table.compares and "Reduction" not in table.caption


def test_several_attacks_have_a_table_of_their_own_and_each_recipe_its_strongest():
    tables = printed_tables(swept({0.0: 0.8, -0.2: 0.3}, attacks=("a", "b")), "t", "clean")
    assert [table.stem for table in tables] == ["recipes", "attacks"]
    recipes, attacks = tables
    assert [row.attack for row in recipes.rows] == ["a", "a"] and recipes.attacks == ("a",)
    assert [row.attack for row in attacks.rows] == ["a", "a", "b", "b"] and attacks.by_attack
    reductions = {row.attack: row.reduction for row in attacks.rows if row.reduction is not None}
    means = {(row.attack, row.role): row.metrics["embedder_acc1"].value for row in attacks.rows}
    for attack, found in reductions.items():
        assert found.value == pytest.approx(means[attack, "baseline"] - means[attack, ""]) and found.differs
        assert found.low < found.value < found.high


def test_a_row_says_that_other_judges_may_have_another_strongest_attack():
    """By the first judge attack a is stronger, by the evaluator b: one row holds numbers of both."""
    leaks = {0.0: 0.8, -0.2: 0.3}
    table, by_attack = printed_tables(swept(leaks, attacks=("a", "b"), evaluator={"a": 0.5, "b": 0.9}), "t", "clean")
    for row in table.rows:
        assert row.attack == "a" and row.metrics["attack_acc1"].value == pytest.approx(0.902)
    assert table.own_attacks and OWN_ATTACKS in table.caption
    (judges,) = [text for name, text in latex_tables(table, "t").items() if name == "-judges"]
    assert OWN_ATTACKS in judges
    for other in (by_attack, *printed_tables(swept(leaks, attacks=("a", "b")), "t", "clean")):
        assert not other.own_attacks and OWN_ATTACKS not in other.caption, "nothing to say where there is one judge"
