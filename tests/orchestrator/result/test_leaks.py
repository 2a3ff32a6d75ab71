"""What is said of a leak: reduced or hidden, who is exposed, by how many queries, and the gain over plain training."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from made_rows import ALPHA, ATTACK, made_data, of_attack

from smoothsweep.core.metrics.intervals import exposures
from smoothsweep.orchestrator.page.render import part
from smoothsweep.orchestrator.page.tables import terminal_text
from smoothsweep.orchestrator.result.display import needed_words
from smoothsweep.orchestrator.result.estimates import Sample
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.leaks import (
    advantage_panels,
    exposed,
    hiding_not_looked_for,
    verdicts,
)
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of, verdict_rows

PUBLISHED = {"ppa": True, "ppa logit": False, "chance": True}
RATES = {  # alpha -> attack -> leak
    0.0: {"ppa": 0.8, "ppa logit": 0.8, "chance": 0.05},
    -0.2: {"ppa": 0.2, "ppa logit": 0.8, "chance": 0.05},
    -0.5: {"ppa": 0.1, "ppa logit": 0.1, "chance": 0.05},
}
PEOPLE = 20


def attacked(published=PUBLISHED, rates=RATES):
    draw = np.random.default_rng(3)
    rows = [
        {
            **{"seed": seed, "alpha": alpha, "test_acc": 0.95, "embedder_acc1": draw.binomial(8, rate, PEOPLE) / 8},
            **of_attack(attack, control=attack == "chance", published=published[attack]),
        }
        for alpha, under in rates.items()
        for attack, rate in under.items()
        for seed in (1, 2, 3)
    ]
    return made_data(rows, ALPHA, ATTACK, baseline={"alpha": 0.0})


def test_each_recipe_gets_its_word_and_no_number_of_attacks_tried_is_said_to_be_all():
    summary = summarise(attacked())
    found = verdicts(summary)
    hides, reduces = (recipe for recipe in summary.recipes[::-1] if recipe in found)
    assert (found[hides].word, found[reduces].word) == ("hides", "reduces")
    assert summary.cases(summary.primary).attacks == ("ppa", "ppa logit") and summary.published == ("ppa",)
    assert "upper bound: a stronger attack than the 2 tried" in part("hiding", attacked())


def test_published_attacks_alone_reduce_and_say_nothing_of_hiding():
    data = attacked(published=dict.fromkeys(PUBLISHED, True))
    summary = summarise(data)
    found, result = verdicts(summary), result_of(data, summary)
    assert {one.word for one in found.values()} == {"reduces", "inconclusive"}
    assert "published one" in hiding_not_looked_for(summary) and all(one.hidden is None for one in found.values())
    assert "hiding: not looked for" in terminal_text(result) and "cannot be said" in part("hiding", data, result)


def test_every_undecided_recipe_has_what_might_settle_it_in_every_output():
    """A difference of some points needs seeds; one of almost none needs more than anyone trains."""
    close = {
        -0.1: {"ppa": 0.77, "ppa logit": 0.72, "chance": 0.05},
        -0.2: {"ppa": 0.8, "ppa logit": 0.79, "chance": 0.05},
    }
    data = attacked(rates={0.0: RATES[0.0], **close})
    summary = summarise(data)
    undecided = {recipe: one for recipe, one in verdicts(summary).items() if one.word == "inconclusive"}
    assert len(undecided) == 2 and all(one.needed is not None for one in undecided.values())
    result = result_of(data, summary)
    page = part("hiding", data, result)
    text, frame = terminal_text(result), verdict_rows(result)
    for recipe, one in undecided.items():
        assert needed_words(one) in page and ascii_text(needed_words(one)) in text
        how = "would" if needed_words(one).startswith("no number") else "might"
        row = frame[frame["recipe"] == recipe].iloc[0]
        told = [None if pd.isna(row[name]) else row[name] for name in ("seeds_needed", "classes_needed")]
        assert told == [one.needed.seeds, one.needed.classes]
        assert (told == [None, None]) == (how == "would"), "what settles nothing names no classes either"
    assert {one.needed.seeds is None for one in undecided.values()} == {True, False}


def test_what_would_settle_a_recipe_counts_the_people_that_are_not_attacked_yet():
    """Seeds alone do not settle so small a difference; all 200 people of the data do, under five seeds."""
    close = {alpha: {"ppa": rate, "ppa logit": rate, "chance": 0.05} for alpha, rate in ((0.0, 0.6), (-0.2, 0.585))}
    for people, seeds, classes in ((None, None, None), (PEOPLE, None, None), (200, 5, 200)):
        (found,) = summarise(replace(attacked(rates=close), people=people)).compared.leaks.verdicts.values()
        assert (found.needed.seeds, found.needed.classes) == (seeds, classes)
        assert found.needed.more_classes is (people == 200)


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
def queries():
    rows, parts = [], {}
    for alpha in (0.0, -0.2):
        for attack, (access, control, asked, once, rate) in ATTACKS.items():
            for seed in (1, 2):
                hits, trial = np.full(CLASSES, rate / (2 if alpha else 1)), f"{alpha} {attack} {seed}"
                rows.append({"trial": trial, "seed": seed, "alpha": alpha, "queries": asked, "embedder_acc1": hits})
                rows[-1] |= of_attack(attack, access, control=control)
                parts[trial] = once
    data = made_data(rows, ALPHA, ATTACK, baseline={"alpha": 0.0})
    return result_of(replace(data, asked=parts), summarise(data)).queries


def test_queries_are_counted_per_class_and_those_of_parts_shared_out(queries):
    row = queries[(queries["recipe"] == "alpha\xa00") & (queries["attack"] == "students")].iloc[0]
    assert (row["access"], row["n"], row["classes"], row["metric"]) == ("scores", 2, CLASSES, "embedder_acc1")
    assert (row["queries_class"], row["queries_once"], row["queries"]) == (20.0, 1000.0, 120.0)
    assert row["leak"] == pytest.approx(0.2) and row["low"] <= row["leak"] <= row["high"]
    asked = queries.set_index("attack")["queries"]
    assert (asked["chance"] == 0.0).all() and asked["untold"].isna().all(), "what is not known is not nothing"


def test_each_recipe_has_a_curve_in_the_order_of_its_queries_that_only_grows(queries):
    assert len(queries) == 2 * len(ATTACKS)
    for _, curve in queries.groupby("recipe"):
        assert list(curve["attack"]) == ["chance", "students", "alike", "white", "labels", "untold"]
        np.testing.assert_allclose(curve["reached"].dropna() / curve["leak"].max() * 0.9, [0.25, 0.25, 0.6, 0.6])
        assert curve["reached"].isna().tolist() == [True, False, False, False, False, True], "a control reaches nothing"


def test_every_point_is_the_relative_difference_to_plain_training(make_data):
    swept = summarise(make_data())
    panels = advantage_panels(swept)
    assert [panel.title for panel in panels] == ["cross entropy", "Poincar\u00e9"]
    cells = {cell["alpha"]: cell for cell in swept.cells.values() if cell["attack_loss"] == "poincare"}
    for label, key, sign in (("independent judge", "embedder_acc1", 1), ("face distance", "dist_face", -1)):
        for point in panels[1].curves[label]:
            gap = swept.gap(cells[point.x]["row"], key).difference if point.x else 0.0
            assert point.value == pytest.approx(sign * gap / cells[0.0][key], abs=0.02)  # a seed is missing on one side
            assert not point.low > point.value and not point.high < point.value
    negative = {point.x: point.value for point in panels[1].curves["independent judge"]}
    assert negative[-0.2] < negative[0.0] == 0 < negative[0.1]
    results = make_data().results
    assert advantage_panels(summarise(make_data(results=results[results["alpha"] >= 0]))) == []
    assert advantage_panels(summarise(make_data(baseline={}))) == []


def test_who_is_exposed_is_told_by_the_estimator_and_the_surest_come_first():
    names, shares = list("abcdefgh"), np.linspace(0.0, 1.0, 8)
    sample = Sample(value=0.5, by_class=pd.Series(shares, names), counts=pd.Series(10, names))
    summary = SimpleNamespace(samples=[{"embedder_acc1": {0: sample, 1: sample}}])
    found = exposed(summary, 0, "embedder_acc1")
    wanted = exposures(np.stack([shares, shares]), np.full((2, 8), 10), level=0.95)
    assert [one["class"] for one in found][:3] == ["h", "g", "f"]
    for one in found:
        for name in ("share", "rate", "low", "high", "among_top"):
            assert one[name] == pytest.approx(getattr(wanted, name)[names.index(one["class"])])
