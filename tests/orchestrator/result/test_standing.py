"""A leak beside chance, control, reach, ceiling and membership; and the second audit under fresh seeds."""

import numpy as np
import pandas as pd
import pytest
from made_rows import ALPHA, ATTACK, made_data, of_attack
from scipy import stats

from smoothsweep.core.metrics.comparisons import reaudit
from smoothsweep.orchestrator.page.render import part
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.standing import (
    ATTACKS,
    FIRST,
    LESS,
    MORE,
    SCORES_ALONE,
    UNCLEAR,
    check_reaudit,
    control_of,
    fresh_answer,
    membership_frame,
    membership_sentence,
    recipe_standings,
    standings,
    warnings_of,
)
from smoothsweep.orchestrator.result.summary import recipe_label, summarise
from smoothsweep.orchestrator.result.sweep_result import result_of

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


def test_the_control_is_that_of_the_same_recipe():
    summary = sweep()
    for row in summary.frame.index[~summary.frame["control"]]:
        control = summary.frame.loc[control_of(summary, int(row))]
        assert control["recipe"] == summary.frame.loc[row, "recipe"] and control["control"]
        assert control["attack"] == ("high" if control["alpha"] == 0.0 else "low")


def test_one_recipe_stands_alone_and_nothing_measured_is_nothing():
    summary = sweep(alphas=(0.0,))
    (only,) = recipe_standings(summary)
    assert summary.cells[only]["attack"] == "weak"
    nothing = sweep(unmeasured=True)
    assert recipe_standings(nothing) == {}


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


def test_the_page_shows_both_leaks_and_what_makes_them_doubtful(both):
    page = part("two_leaks", both[0])
    assert "Inversion against membership of every recipe" in page and "no claim can be made" not in page
    doubtful = membership(shift=0.8, copies=2.0)
    assert len(warnings_of(doubtful)) == 2 and "no claim can be made" in part("two_leaks", doubtful)


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


def test_only_the_recipes_checked_are_listed_and_the_first_audit_alone_decides():
    data = audited({-0.2: 0.2, -0.1: 0.3, 0.0: 0.5}, {-0.1: 0.01})
    summary = summarise(data)
    assert ascii_text(summary.evidence.recommendation.best) == "alpha -0.2"
    shown = ascii_text(part("fresh", data, result_of(data, summary)))
    assert "alpha -0.1" in shown and "alpha -0.2" not in shown and "overestimated" in shown and "101" in shown


def test_without_a_second_audit_there_is_no_section():
    data = audited({-0.2: 0.2, 0.0: 0.5}, {-0.2: 0.2})
    for changes in ({"fresh": None}, {"fresh": data.fresh.assign(status="missing")}):
        without = ReportData(**{**vars(data), **changes})
        summary = summarise(without)
        assert check_reaudit(without, summary) == ({}, ()) and part("fresh", without, result_of(without, summary)) == ""


def test_values_without_classes_and_a_single_seed_cannot_tell():
    data = audited({-0.2: 0.2, 0.0: 0.5}, {-0.2: 0.3}, per_class=None)
    one = ReportData(**{**vars(data), "results": data.results.query("seed == 0"), "fresh": data.fresh.iloc[:1]})
    summary = summarise(one)
    (result,) = check_reaudit(one, summary)[0].values()
    assert result.low is None and result.verdict == "inconclusive"
    assert "inconclusive: one seed" in fresh_answer(one, summary)[0]
