"""What is said of a leak: reduced or hidden, beside chance and control, under fresh seeds, by how many queries."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from smoothsweep.core.metrics.comparisons import reaudit
from smoothsweep.orchestrator.page.render import part
from smoothsweep.orchestrator.page.tables import terminal_text
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.display import needed_words
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.leaks import (
    verdicts,
)
from smoothsweep.orchestrator.result.standing import (
    ATTACKS,
    FIRST,
    LESS,
    MORE,
    SCORES_ALONE,
    UNCLEAR,
    check_reaudit,
    fresh_answer,
    membership_frame,
    membership_sentence,
    recipe_standings,
    standings,
)
from smoothsweep.orchestrator.result.summary import recipe_label, summarise
from smoothsweep.orchestrator.result.sweep_result import result_of, verdict_rows
from tests.made_rows import ALPHA, ATTACK, made_data, of_attack

PEOPLE = 20
CHECKS = {
    "embedder_real_acc": 0.98,
    "verified_far1_real": 0.96,
    "embedder_reach": 0.9,
    "verified_far1_reach": 0.58,
    "reach_images": 50.0,
    "gallery_rank_real": 1.0,
}
REACHED = {"embedder_acc1": 0.3, "verified_far1": 0.04, "verified_far01": 0.01, "gallery_rank": 90.0}
CONTROL = {"embedder_acc1": 0.06, "verified_far1": 0.0, "verified_far01": 0.0, "gallery_rank": 240.0}


def judged(attack=REACHED, checks=CHECKS):
    sides = ((of_attack("ppa"), attack), (of_attack("random", "none", control=True), CONTROL))
    rows = [{"seed": seed, **side, **values, **checks} for side, values in sides for seed in (1, 2)]
    summary = summarise(made_data(rows, ATTACK))
    return {one.metric: one for one in standings(summary, 0, 1, PEOPLE)}


def test_every_judge_stands_beside_chance_control_reach_and_ceiling():
    rows = judged()
    values = {metric: [number.value for number in one.numbers.values()] for metric, one in rows.items()}
    assert list(values.items()) == [
        ("embedder_acc1", [0.3, 1 / PEOPLE, 0.06, 0.9, 0.98]),
        ("verified_far1", [0.04, 0.01, 0.0, 0.58, 0.96]),
        ("verified_far01", [0.01, 0.001, 0.0, None, None]),
        ("gallery_rank", [90.0, 251.0, 240.0, None, 1.0]),
    ]
    assert rows["embedder_acc1"].words == "matched among 20 (independent judge)"
    assert rows["verified_far01"].value_text("reach") == ""
    reach, expected = rows[FIRST].reach, stats.binomtest(29, 50).proportion_ci(0.95, "wilson")
    assert (reach.low, reach.high) == (expected.low, expected.high), "over its photographs"


def test_without_verification_nothing_is_recognised():
    bare = judged(attack={"embedder_acc1": 0.3}, checks={"embedder_real_acc": 0.98})
    assert list(bare) == ["embedder_acc1"]


LEAKS = {
    ("ppa", 0.0): (0.60, 0.30),
    ("ppa", -0.8): (0.40, 0.20),
    ("weak", 0.0): (0.70, 0.10),
    ("weak", -0.8): (0.30, 0.05),
}
CONTROLS = {
    ("low", 0.0): (0.04, 0.0),
    ("high", 0.0): (0.09, 0.02),
    ("low", -0.8): (0.05, 0.0),
    ("high", -0.8): (0.02, 0.01),
}


def sweep(alphas=(0.0, -0.8), unmeasured=False):
    checks = CHECKS | {"verified_far1_reach": 0.5}
    rows = [
        {
            **{"seed": seed, "alpha": alpha, **of_attack(attack, "none" if control else "gradients", control=control)},
            **{"embedder_acc1": matched + 0.01 * seed, "verified_far1": verified, **checks},
            **(dict.fromkeys(("embedder_acc1", "verified_far1"), float("nan")) if unmeasured else {}),
        }
        for control, values in ((False, LEAKS), (True, CONTROLS))
        for (attack, alpha), (matched, verified) in values.items()
        for seed in (1, 2, 3)
        if alpha in alphas
    ]
    return summarise(made_data(rows, ALPHA, ATTACK, baseline={"alpha": 0.0}))


def test_the_baseline_then_the_least_leak_each_under_its_strongest_attack_beside_its_own_control():
    summary = sweep()
    found = recipe_standings(summary)
    cells = [summary.cells[row] for row in found]
    assert [(ascii_text(one["recipe"]), one["attack"]) for one in cells] == [("alpha 0", "weak"), ("alpha -0.8", "ppa")]
    verified = [next(way for way in judged if way.metric == FIRST).numbers for judged in found.values()]
    first, second = ([round(number.value, 9) for number in numbers.values()] for numbers in verified)
    assert first == [0.1, 0.01, 0.02, 0.5, 0.96]  # beside the control that reaches most
    assert second == [0.2, 0.01, 0.0, 0.5, 0.96]


CLASSES, SEEDS = 24, 4
TRUE = {  # alpha -> inversion, AUC by scores, AUC by labels
    0.0: (0.6, 0.75, 0.65),
    0.1: (0.6, 0.88, 0.66),
    -0.2: (0.5, 0.62, 0.65),
    -0.8: (0.3, 0.56, 0.54),
    -0.05: (0.6, 0.75, 0.65),
}


def membership(shift=0.5, copies=0.0, *, shadows=True):
    draw, rows = np.random.default_rng(3), []
    person = draw.normal(size=CLASSES) * 0.03

    def near(mean):
        return np.clip(mean + person + 0.02 * draw.normal() + 0.03 * draw.normal(size=CLASSES), 0, 1)

    for alpha, (leak, scores, labels) in TRUE.items():
        for seed in range(SEEDS):
            row = {"embedder_acc1": near(leak), "membership_margin": near(scores)}
            row |= {"membership_label_views": near(labels)} | ({"membership_rmia": near(scores)} if shadows else {})
            within = row["membership_margin"].mean()
            said = {"membership_auc_within": within, "membership_shift": shift, "membership_copies": copies}
            rows.append({"seed": seed, "alpha": alpha, **row, **said})
    return made_data(rows, ALPHA, baseline={"alpha": 0.0})


@pytest.fixture(scope="module")
def both():
    data = membership()
    return data, membership_frame(data, summarise(data))


def test_words_say_what_scores_and_labels_lose_over_seeds_and_persons(both):
    data, found = both
    words = dict(zip(found["recipe"].map(ascii_text).str.removeprefix("alpha "), found["word"], strict=True))
    assert words == {"0": "baseline", "0.1": MORE, "-0.2": SCORES_ALONE, "-0.8": LESS, "-0.05": UNCLEAR}
    assert [name for name in ATTACKS if name in found] == ["rmia", "margin", "label_views"]
    assert set(found["seeds"]) == {SEEDS} and set(found["persons"]) == {CLASSES}
    said = membership_sentence(found, summarise(data))
    assert "lowers scores alone" in said and "from 5" in said
    less = found[found["word"] == LESS].iloc[0]
    trials = data.results.loc[data.results["alpha"] == -0.8, "trial"]
    by_person = data.per_class.loc[data.per_class["trial"].isin(trials), "membership_margin"]
    assert less["margin"] == pytest.approx(by_person.mean()) and less["less_by_labels_low"] > 0
    assert found["less_by_scores"].isna().sum() == 1


def test_without_membership_there_is_no_section_and_without_shadow_models_the_margin_stands_for_scores(both):
    data, _ = both
    bare = ReportData(
        title="t",
        results=data.results.drop(columns=["membership_auc_within", "membership_shift", "membership_copies"]),
        per_class=data.per_class[["trial", "class", "embedder_acc1"]],
        axes=data.axes,
        baseline=data.baseline,
    )
    assert membership_frame(bare, summarise(bare)) is None and part("two_leaks", bare) == ""
    without = membership(shadows=False)
    found = membership_frame(without, summarise(without))
    assert {"margin", "label_views"} <= {*found} and "rmia" not in found


def rows_of(leaks, seeds):
    """leaks: alpha -> mean."""
    for alpha, leak in leaks.items():
        for seed in seeds:
            rng = np.random.default_rng([seed, round(1000 * alpha + 500)])
            hits = np.clip(leak + rng.normal(0, 0.03, PEOPLE), 0, 1)
            yield {"seed": seed, "alpha": alpha, "test_acc": 0.9 - 0.1 * abs(alpha), "embedder_acc1": hits}


def audited(first, later, **changes):
    before, after = (made_data(rows_of(*one), ALPHA) for one in ((first, (0, 1)), (later, (101, 102))))
    fields = {"results": before.results, "fresh": after.results, "axes": (ALPHA,), "baseline": {"alpha": 0.0}}
    fields["per_class"] = pd.concat([before.per_class, after.per_class])
    return ReportData(**({"title": "t"} | fields | changes))


def test_the_bias_is_fresh_minus_first_paired_by_class():
    data = audited({-0.2: 0.2, -0.1: 0.3, 0.0: 0.5}, {-0.2: 0.26, -0.1: 0.36})
    summary, table = summarise(data), data.per_class.set_index(["trial", "class"])["embedder_acc1"]
    found, seeds = check_reaudit(data, summary)
    assert seeds == (101, 102) and len(found) == 2

    def matrix(results, alpha):
        return {"": np.stack([table[trial] for trial in results.loc[results["alpha"] == alpha, "trial"]])}

    pairs = [[matrix(results, alpha) for results in (data.results, data.fresh)] for alpha in (-0.2, -0.1)]
    expected = [reaudit(*pair, among=2) for pair in pairs]
    assert vars(found[recipe_label(summary.axes, {"alpha": -0.2})]) == pytest.approx(vars(expected[0]))
    bias = [audit.bias for audit in found.values()]
    assert bias == pytest.approx([audit.bias for audit in expected]) and np.mean(bias) == pytest.approx(0.06, abs=0.02)


def test_values_without_classes_and_a_single_seed_cannot_tell():
    data = audited({-0.2: 0.2, 0.0: 0.5}, {-0.2: 0.3}, per_class=None)
    one = ReportData(**{**vars(data), "results": data.results.query("seed == 0"), "fresh": data.fresh.iloc[:1]})
    summary = summarise(one)
    (result,) = check_reaudit(one, summary)[0].values()
    assert result.low is None and result.verdict == "inconclusive"
    assert "inconclusive: one seed" in fresh_answer(one, summary)[0]


PUBLISHED = {"ppa": True, "ppa logit": False, "chance": True}
RATES = {  # alpha -> attack -> leak
    0.0: {"ppa": 0.8, "ppa logit": 0.8, "chance": 0.05},
    -0.2: {"ppa": 0.2, "ppa logit": 0.8, "chance": 0.05},
    -0.5: {"ppa": 0.1, "ppa logit": 0.1, "chance": 0.05},
}


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


ASKED_CLASSES = 10
OF_ATTACKS = {  # attack -> access, is a control, queries per class, queries of parts, hit rate
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
        for attack, (access, control, asked, once, rate) in OF_ATTACKS.items():
            for seed in (1, 2):
                hits, trial = np.full(ASKED_CLASSES, rate / (2 if alpha else 1)), f"{alpha} {attack} {seed}"
                rows.append({"trial": trial, "seed": seed, "alpha": alpha, "queries": asked, "embedder_acc1": hits})
                rows[-1] |= of_attack(attack, access, control=control)
                parts[trial] = once
    data = made_data(rows, ALPHA, ATTACK, baseline={"alpha": 0.0})
    return result_of(replace(data, asked=parts), summarise(data)).queries


def test_queries_are_counted_per_class_and_those_of_parts_shared_out(queries):
    row = queries[(queries["recipe"] == "alpha\xa00") & (queries["attack"] == "students")].iloc[0]
    assert (row["access"], row["n"], row["classes"], row["metric"]) == ("scores", 2, ASKED_CLASSES, "embedder_acc1")
    assert (row["queries_class"], row["queries_once"], row["queries"]) == (20.0, 1000.0, 120.0)
    assert row["leak"] == pytest.approx(0.2) and row["low"] <= row["leak"] <= row["high"]
    asked = queries.set_index("attack")["queries"]
    assert (asked["chance"] == 0.0).all() and asked["untold"].isna().all(), "what is not known is not nothing"


def test_each_recipe_has_a_curve_in_the_order_of_its_queries_that_only_grows(queries):
    assert len(queries) == 2 * len(OF_ATTACKS)
    for _, curve in queries.groupby("recipe"):
        assert list(curve["attack"]) == ["chance", "students", "alike", "white", "labels", "untold"]
        np.testing.assert_allclose(curve["reached"].dropna() / curve["leak"].max() * 0.9, [0.25, 0.25, 0.6, 0.6])
        assert curve["reached"].isna().tolist() == [True, False, False, False, False, True], "a control reaches nothing"
