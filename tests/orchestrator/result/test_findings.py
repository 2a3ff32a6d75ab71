"""The generated sentences: what leaks least and how sure that is; settings of an attack; what a search found."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from smoothsweep.orchestrator.page.render import part, render
from smoothsweep.orchestrator.page.tables import tables_of, terminal_text
from smoothsweep.orchestrator.result.data import Axis, ReportData, paired_with_full, progress
from smoothsweep.orchestrator.result.display import SETTING_LEGEND, incomplete_lines, reduction_words
from smoothsweep.orchestrator.result.findings import collapsed_trainings, find
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.searches import marks, search_sentences
from smoothsweep.orchestrator.result.summary import decide, summarise
from smoothsweep.orchestrator.result.sweep_result import result_of
from tests.made_rows import ALPHA, made_data
from tests.made_searches import halving, proposed, view
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


SEEDS = (1, 2, 3, 4)
SWAPPED = {(0.0, None): 0.7, (0.0, "B"): 0.7, (0.0, "C"): 0.2, (-0.8, "D"): 0.95}
"""(recipe, its attack) -> mean leak: no two recipes meet the same attacks, as in the paper's Tables 5 to 7."""
BASELINE = {"alpha": 0.0, "start": None}


def swept(settings, baseline, *, missing=()):
    """A sweep with these settings; missing: trials without any result."""
    rows = []
    for number, ((alpha, start), leak) in enumerate(settings.items()):
        for seed in SEEDS:
            hits = np.clip(np.random.default_rng([number, seed]).normal(leak, 0.04, 24), 0, 1)
            done = (alpha, start, seed) not in missing
            row = {"seed": seed, "alpha": alpha, "start": start, "attack": "ppa", "test_acc": 0.9 + seed / 1000}
            rows.append(row | ({"embedder_acc1": hits} if done else {"status": "missing"}))
    start = Axis(key="start", label="start from", role="attack")
    return made_data(rows, ALPHA, start, title="swaps", baseline=baseline, people=24)


@pytest.fixture(scope="module")
def data():
    return swept(SWAPPED, BASELINE)


@pytest.fixture(scope="module")
def summary(data):
    return summarise(data)


def test_the_answer_names_what_differs_from_the_baselines_setting_and_counts_the_rest(data, summary):
    assert summary.by_setting
    found = find(data, summary)
    first, rest = (ascii_text(line).lower() for line in found["answer"])
    assert first.startswith("this sweep compares settings with alpha 0: 69 %") and "matched among 24" in first
    assert "start from c finds less: 20 %" in first and "reduction +49.1 [" in first
    assert "alpha -0.8, start from d" in first and "finds more: 95 %" in first and "reduction -25.7 [" in first
    assert "start from b" not in first and rest == "1 setting is inconclusive."
    assert not found["incomplete"] and not incomplete_lines(summary), "nothing that was planned is missing"


def test_terminal_page_and_export_show_every_setting_once_under_its_own_name(data, summary):
    result = result_of(data, summary)
    *lines, legend = terminal_text(result).split("\n\n")[1].splitlines()
    assert legend == SETTING_LEGEND and len(lines) == 1 + len(SWAPPED)
    told = {line.split("  ")[-1].strip(): line for line in lines[1:]}
    assert list(told) == ["alpha 0", "start from B", "start from C", "alpha -0.8, start from D"]
    assert "baseline" in told["alpha 0"] and "finds less" in told["start from C"]
    assert "inconclusive" in told["start from B"] and "finds more" in told["alpha -0.8, start from D"]
    first = render(data, result_of(data, summary)).split('id="limits"')[0]
    table = ascii_text(first[first.index('<table class="short">') : first.index("</table>")])
    assert [table.count(f">{name}</a>") for name in told] == [1] * len(SWAPPED)
    assert ">Setting</th>" in first and "finds more" in first and "Incomplete" not in first
    [table] = tables_of(result)
    assert table.stem == "attacks" and table.rows["reduction"].isna().sum() == 1


def test_a_setting_without_all_of_its_seeds_is_told_by_its_name():
    partly = swept(SWAPPED, BASELINE, missing={(0.0, "C", 2), (0.0, "C", 3)})
    [line] = incomplete_lines(summarise(partly))
    assert ascii_text(line) == "Not finished: start from C (2 of 4 seeds)."


PRODUCT = {(alpha, start): 0.5 for alpha in (0.0, -0.8) for start in ("A", "B")}


@pytest.mark.parametrize(
    ("settings", "baseline"),
    [
        (PRODUCT, {"alpha": 0.0, "start": "A"}),  # every recipe meets every attack: recipes are compared
        (SWAPPED, {"alpha": 0.0}),  # the baseline is a recipe under any attack
        (SWAPPED, {}),
        ({**PRODUCT, (0.1, "A"): 0.5}, {"alpha": 0.0, "start": "A"}),  # two recipes are complete
        (SWAPPED, {"alpha": 0.0, "start": "E"}),  # no trial has the baseline's setting
    ],
)
def test_other_sweeps_compare_recipes(settings, baseline):
    data = swept(settings, baseline)
    found = summarise(data)
    assert not found.by_setting
    assert not any("compares settings" in line for line in find(data, replace(found))["answer"])


def text(*parts):
    return ascii_text(" ".join(map(str, parts)).replace("\u00a0", " "))


def test_hypervolume_grows_with_what_is_found_and_counts_the_time_of_all():
    first, beaten, better = proposed(0, 0.8, 0.5), proposed(1, 0.7, 0.6), proposed(2, 0.9, 0.5)
    found = progress(view(first, beaten, better))
    assert found.reference == (0.0, 1.0)
    assert found.values == pytest.approx((0.8 * 0.5, 0.8 * 0.5, 0.9 * 0.5))
    assert found.hours == pytest.approx((0.1, 0.2, 0.3)) and found.best == (2,)


def test_a_recipe_under_some_of_the_seeds_costs_time_and_is_no_result_yet():
    lucky, other, again = proposed(0, 0.99, 0.01, seeds=1), proposed(1, 0.5, 0.5), proposed(2, 0.8, 0.4)
    shown = view(lucky, other, again, strategy="noise_aware")
    found = progress(shown)
    assert found.hours == pytest.approx((0.2, 0.3)) and found.values == pytest.approx((0.25, 0.48))
    assert found.best == (2,) and [one.number for one in shown.full] == [1, 2]
    assert text(*marks(lucky, found)) == "1 seed only" and marks(again, found) == ["frontier"]
    assert text(*marks(proposed(3, 0.9, 0.2, seeds=2), None)) == "2 seeds only"


def test_agreement_pairs_recipes_not_numbers():
    leaks = [(0.1 * k, 0.1 * k + 0.01) for k in range(1, 9)]
    found = halving(leaks, kept=4, audited=3)
    pairs = paired_with_full(found, 0, "embedder_acc1")
    assert pairs == [leaks[k] for k in (0, 1, 2, 3, 5, 6, 7)]
    assert paired_with_full(found, 1, "embedder_acc1") == []


@pytest.mark.parametrize(
    ("leaks", "kept", "audited", "said"),
    [
        ([(0.1 * k, 0.1 * k + 0.01) for k in range(1, 9)], 5, 3, "may choose among them: Kendall's tau 1.00 ["),
        ([(0.1 * k, 0.9 - 0.1 * k) for k in range(1, 9)], 5, 3, "its choice misleads"),
        ([(0.1, 0.2), (0.2, 0.3)], 1, 0, "too few to say"),
        ([(0.3, 0.1 * k) for k in range(1, 5)], 2, 2, "finds them all equal"),
        ([(0.1, 0.2), (0.2, 0.1), (0.3, 0.3)], 2, 1, "is inconclusive with so few: Kendall's tau 0.33 (1:"),
    ],
)
def test_whether_a_cheap_attack_that_ranks_alike_may_choose(leaks, kept, audited, said):
    found = search_sentences(halving(leaks, kept=kept, audited=audited))
    _, words = found["search_rungs"]
    assert said in text(words) and (f", {audited} of them though dropped" in text(words)) == bool(audited)


def test_the_section_lists_every_proposal_with_what_became_of_it():
    data = made_data([{"seed": 1, "alpha": alpha, "embedder_acc1": 0.3} for alpha in (0.0, 0.1)], ALPHA)
    summary = summarise(data)

    def section(search):
        return part("search", replace(data, search=search), result_of(replace(data, search=search), summary))

    assert section(None) == ""
    shown = section(halving([(0.1 * k, 0.1 * k) for k in range(1, 9)], kept=4, audited=2))
    words = text(shown)
    assert words.count("<tr") == 1 + 8 + 6 and "went on" in words and "dropped" in words and "audit" in words
    assert "Rung 1 (4 classes, steps 10): 8 recipes attacked, 4 went on." in words
    assert 'class="plain proposals sortable"' in shown and "Hypervolume" in shown and "nan" not in words
    empty = section(view(stopped_by=None))
    assert "The proposals" not in empty and "0 recipes" in text(empty)
    many = section(view(*(proposed(k, 0.9, 0.001 * k) for k in range(60))))
    assert many.count("<details") == 2 and " open" not in re.findall("<details[^>]*>", many)[1]


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


def test_a_tie_goes_to_the_baseline():
    data = sweep({-0.2: 0.3, 0.0: 0.3}, noise=0.0)
    answer, _ = said(data)
    assert (
        answer.startswith("No recipe tried leaks less than alpha 0")
        and "there is no difference between the two" in answer
    )
    choice = decide(summarise(data))
    assert not choice.clear and choice.ties and choice.marked is None


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


def test_the_baseline_may_win():
    answer, _ = said(sweep({0.0: 0.2, 0.1: 0.5}))
    assert "No recipe tried leaks less than alpha 0: by the independent judge, 20" in answer
    assert "Alpha 0.1 has 50" in answer and "(reduction -29" in answer and "it leaks more (p" in answer
