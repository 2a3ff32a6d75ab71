"""The generated sentences: what leaks least, and how sure that is."""

import re

import numpy as np
import pandas as pd
import pytest
from made_rows import ALPHA, made_data
from scipy import stats

from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.display import reduction_words
from smoothsweep.orchestrator.result.findings import collapsed_trainings, find
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.summary import decide, summarise
from tests.orchestrator.made_reports import make_frames

CLASSES = 30


def sweep(leaks, *, seeds=3, accs=None, noise=0.02, drift=0.0, metric="embedder_acc1", **changes):
    """leaks: alpha -> mean hit rate; noise: of a class, drift: of a seed."""
    rng, rows = np.random.default_rng(2), []
    for alpha, leak in leaks.items():
        for seed in range(seeds):
            values = np.clip(leak + drift * rng.normal() + rng.normal(0, noise, CLASSES), 0, 1)
            acc = (accs or {}).get(alpha, 0.87) + 0.002 * seed
            rows.append({"seed": seed, "alpha": alpha, "test_acc": acc, metric: values})
    return made_data(rows, ALPHA, **({"baseline": {"alpha": 0.0}} | changes))


def said(data):
    found = find(data, summarise(data))
    return ascii_text(" ".join(found["answer"])), ascii_text(" ".join(found["cautions"]))


def test_a_clear_case_is_called_clear():
    answer, more = said(sweep({-0.2: 0.13, 0.0: 0.39, 0.1: 0.55}, accs={-0.2: 0.86, 0.0: 0.872}))
    assert "Alpha -0.2 leaks least by the independent judge: 13" in answer
    assert "against 39" in answer and "at alpha 0" in answer
    assert "at a test accuracy of 86.2 % against 87.4 %" in answer
    assert "at alpha 0 (reduction +25.8 points [" in answer
    assert "At n = 3 seeds and 30 classes it reduces the leak (p < 0.001, corrected for 2 comparisons)." in answer
    assert "probability that alpha -0.2 is the best of the 3 is above 99 %; it leaks less than each" in answer
    assert "inconclusive" not in answer.split("The difference in")[0]
    assert "The smallest of 3 noisy numbers tends to be too small" in more


def test_one_seed_is_never_more_than_these_models():
    answer, _ = said(sweep({-0.2: 0.13, 0.0: 0.39}, seeds=1))
    assert answer.startswith("With one seed, what leaks least by the independent judge is inconclusive. The smallest")
    assert "number is that of alpha -0.2: 13" in answer and "39" in answer and "add seeds" in answer
    assert not {"higher", "lower", "lowest", "reduces", "hides"} & set(re.findall("[a-z]+", answer.lower()))


def test_the_baseline_may_win():
    answer, _ = said(sweep({0.0: 0.2, 0.1: 0.5}))
    assert "No recipe tried leaks less than alpha 0: by the independent judge, 20" in answer
    assert "Alpha 0.1 has 50" in answer and "(reduction -29" in answer and "it leaks more (p" in answer


def wobbling(gaps, **changes):
    """Test accuracies of the better recipe minus the baseline's, in points, seed by seed."""
    data = sweep({-0.2: 0.1, 0.0: 0.4}, seeds=len(gaps), **changes)
    mine = data.results["alpha"] == -0.2
    data.results.loc[mine, "test_acc"] += np.array(gaps) / 100
    return data


@pytest.mark.parametrize(
    ("gaps", "changes", "kept"),
    [
        ([0.0, 0.2, -0.2, 0.1, -0.1], {}, True),
        ([0.0, 0.2, -0.2, 0.1, -0.1], {"accuracy_margin": 0.001}, False),
        ([-0.6, 0.9, -1.2, 0.3, -0.4], {}, False),  # not told from 0, and no proof that nothing is lost
        ([-0.6, 0.9, -1.2, 0.3, -0.4], {"accuracy_margin": 0.03}, True),
        ([-1.3, -1.2, -1.4, -1.1, -1.2], {}, False),
    ],
)
def test_no_loss_of_accuracy_is_said_only_where_the_whole_interval_lies_above_the_margin(gaps, changes, kept):
    """The interval by hand: paired by seed, one comparison."""
    low = np.mean(gaps) - stats.t.ppf(0.975, len(gaps) - 1) * np.std(gaps, ddof=1) / np.sqrt(len(gaps))
    margin = 100 * changes.get("accuracy_margin", 0.01)
    assert (low > -margin) == kept
    answer, _ = said(wobbling(gaps, **changes))
    shown = f"The difference in test accuracy is {np.mean(gaps) + 0.0:+.1f} points [".replace("+0.0", "0.0")
    assert shown in answer
    assert (f"a loss of {margin:.1f} point{'' if margin == 1 else 's'} or more is ruled out" in answer) == kept
    assert not re.search("cannot be told from zero|same test accuracy|costs no", answer)


def test_an_accuracy_floor_excludes_recipes():
    data = sweep({-0.3: 0.05, -0.1: 0.2, 0.0: 0.4}, accs={-0.3: 0.80, -0.1: 0.86}, min_test_acc=0.85)
    answer, _ = said(data)
    assert answer.startswith("Among the recipes with at least 85.0 % test accuracy, alpha -0.1 leaks least")
    answer, _ = said(sweep({-0.3: 0.05, 0.0: 0.4}, accs={-0.3: 0.80, 0.0: 0.86}, min_test_acc=0.85))
    assert "none leaks less than alpha 0" in answer
    answer, _ = said(sweep({-0.3: 0.05, 0.0: 0.4}, min_test_acc=0.95))
    assert "No recipe reaches the 95.0 % test accuracy asked for" in answer


def test_without_baseline_or_company_no_gain_is_claimed():
    assert "No baseline was measured, so the reduction is unknown" in said(sweep({-0.2: 0.1, -0.1: 0.4}))[0]
    assert "No baseline was measured, so the reduction is unknown" in said(sweep({-0.2: 0.1, 0.0: 0.4}, baseline={}))[0]
    assert "nothing yet to compare" in said(sweep({0.0: 0.4}))[0]


def test_the_attacker_picks_the_attack(make_data):
    results, per_class = make_frames(noise=0.002)
    data = make_data(results=results, per_class=per_class)
    summary = summarise(data)
    choice = decide(summary)
    # By construction the Poincare attack finds more under every recipe.
    assert {summary.frame.loc[row, "attack_loss"] for row in choice.rows.values()} == {"poincare"}
    answer, more = said(data)
    assert "leaks least by the independent judge under the strongest attack tried" in answer
    assert "the attack that worked best against it (attack loss Poincaré)" in more


def test_failures_are_counted_and_nothing_measured_is_said():
    data = sweep({-0.2: 0.1, 0.0: 0.4})
    spoilt = data.results.copy()
    spoilt.loc[0, "status"] = "failed"
    _, more = said(sweep({-0.2: 0.1, 0.0: 0.4}, results=spoilt))
    assert "Of 6 trials, 1 failed: the numbers rest on the others." in more
    answer, more = said(sweep({0.0: 0.4}, results=spoilt.assign(status="missing")))
    assert answer == "No leak has been measured yet: of 6 trials, 0 done, 0 failed and 6 missing." and more == ""


def test_a_tie_goes_to_the_baseline():
    data = sweep({-0.2: 0.3, 0.0: 0.3}, noise=0.0)
    answer, _ = said(data)
    assert (
        answer.startswith("No recipe tried leaks less than alpha 0")
        and "there is no difference between the two" in answer
    )
    choice = decide(summarise(data))
    assert not choice.clear and choice.ties and choice.marked is None


def test_where_no_recipe_has_met_every_attack_failures_and_collapses_are_still_told():
    """Two recipes, two attacks, each recipe met by another one: nothing is compared, and what to beware of stays."""
    rows = [
        {
            "trial": f"{alpha}/{attack}/{seed}",
            "seed": seed,
            "alpha": alpha,
            "attack_name": attack,
            "status": "done" if (alpha == 0.0) == (attack == "x") else "failed" if seed else "missing",
            "attack_control": False,
            "attack_access": "gradients",
            "test_acc": 0.9,
            "backdoor_collapsed": seed / 2,
            "embedder_acc1": 0.3 if (alpha == 0.0) == (attack == "x") else None,
        }
        for alpha in (0.0, -0.2)
        for attack in "xy"
        for seed in (0, 1, 2)
    ]
    data = ReportData(title="t", results=pd.DataFrame(rows), axes=(ALPHA, Axis(key="attack_name", role="attack")))
    found = find(data, summarise(data))
    assert decide(summarise(data)).rows == {} and len(found["answer"]) == 1
    assert "12 trials, 6 done, 4 failed and 2 missing" in ascii_text(found["answer"][0]) and found["incomplete"]
    cautions = ascii_text(" ".join(found["cautions"]))
    assert "Of 12 trials, 4 failed" in cautions and "8 collapsed" in cautions


def test_every_number_of_the_answer_is_a_mean_of_the_trials():
    """The leak of both, the difference with its interval, the price: each from the trials or the comparison."""
    data = sweep({-0.2: 0.1, -0.1: 0.25, 0.0: 0.4}, accs={-0.2: 0.82, -0.1: 0.85, 0.0: 0.88})
    summary = summarise(data)
    answer, _ = said(data)
    means = data.results.groupby("alpha")[["embedder_acc1", "test_acc"]].mean() * 100
    recipes = {alpha: summary.frame.loc[summary.frame["alpha"] == alpha, "recipe"].iloc[0] for alpha in (-0.2, 0.0)}
    gap = summary.verdict(recipes[-0.2])
    assert all(f"{means.loc[alpha, 'embedder_acc1']:.0f} % [" in answer for alpha in (-0.2, 0.0))
    assert ascii_text(reduction_words(summary.spec, gap)) in answer and gap.reduction * 100 == pytest.approx(
        means.loc[0.0, "embedder_acc1"] - means.loc[-0.2, "embedder_acc1"]
    )
    assert "at a test accuracy of 82.2 % against 88.2 %" in answer and "-6.0 points [-6.0, -6.0]" in answer


NAME = Axis(key="name", bare=True)


def test_collapsed_trainings_are_counted_among_the_poisoned_alone():
    def said(*collapsed):
        return collapsed_trainings(
            made_data([{"seed": seed, "backdoor_collapsed": one} for seed, one in enumerate(collapsed)])
        )

    assert said(None, 0.0, 1.0, 1.0)[0].startswith("Of 3\u00a0poisoned trainings, 2\u00a0collapsed")
    assert said(0.0, None) == ()


@pytest.mark.parametrize(
    ("accuracies", "end"),
    [
        (
            {"plain": (0.39, 0.4, 0.41), "a": (0.3, 0.35, 0.4), "b": (0.89, 0.9, 0.91)},
            "Robust accuracy lies between 35.0 % (a) and 90.0 % (b).",
        ),
        (
            {"plain": (0.39, 0.4, 0.41), "a": (0.3, 0.35, 0.4)},
            "lies between 35.0 % (a) and 40.0 % (plain).",
        ),
        (
            {"plain": (0.4, 0.4), "a": (0.4, 0.4)},
            "is 40.0 % under every recipe.",
        ),
        ({"plain": (None, None), "a": (0.4, 0.4), "b": (0.3, 0.3)}, "lies between 30.0 % (b) and 40.0 % (a)."),
        ({"plain": (None, None)}, "(2 of 2 trials done)."),
    ],
)
def test_a_sweep_without_an_attack_answers_by_what_it_measured(accuracies, end):
    rows = [
        {"seed": seed, "name": name, "attack": None, "robust_acc": one}
        for name, of in accuracies.items()
        for seed, one in enumerate(of)
    ]
    (answer,) = find((data := made_data(rows, NAME, baseline={"name": "plain"})), summarise(data))["answer"]
    assert ascii_text(answer).startswith("This sweep inverts nothing") and ascii_text(answer).endswith(end)
    mixed = made_data([*rows, {**rows[0], "name": "b", "seed": 9, "attack": "ppa"}], NAME)
    assert not any("inverts nothing" in line for line in find(mixed, summarise(mixed))["answer"])
