"""What is compared: common seeds, complete recipes, the strongest attack at each access level, who is left out."""

from itertools import product

import numpy as np
import pytest
from compared_cells import audit, cells, with_gaps
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from made_rows import ATTACK, made_data, of_attack

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.comparisons import compare_recipes
from smoothsweep.orchestrator.result.cells import complete_cases
from smoothsweep.orchestrator.result.data import Axis
from smoothsweep.orchestrator.result.display import incomplete_sentences
from smoothsweep.orchestrator.result.estimates import compare
from smoothsweep.orchestrator.result.summary import decide, summarise

METRIC = "embedder_acc1"
LEVELS = {
    "brep": "labels",
    "rlb": "scores",
    "ppa": "gradients",
    "plg": "gradients",
    "random": "none",
    "chosen": "scores",
}
CONTROLS = ("random", "chosen")
LEAKS = {  # recipe -> attack -> mean leak; each recipe has another strongest attack, at each level another one
    "base": {"brep": 0.20, "rlb": 0.50, "ppa": 0.70, "plg": 0.40, "random": 0.06, "chosen": 0.30},
    "alpha": {"brep": 0.35, "rlb": 0.30, "ppa": 0.10, "plg": 0.55, "random": 0.15, "chosen": 0.10},
    "mid": {"brep": 0.45, "rlb": 0.15, "ppa": 0.25, "plg": 0.20, "random": 0.10, "chosen": 0.60},
}
ACCURACIES = {"base": 0.95, "alpha": 0.9, "mid": 0.8}


def swept(metric=METRIC, leave_out=(), seeds=(5, 1, 4, 2, 3), **fields):
    """A sweep of three recipes, four attacks of three levels and two controls; by class, with a little noise."""
    rows, draw = [], np.random.default_rng(0)
    for attack, recipe in product(LEVELS, LEAKS):
        noise = draw.normal(0, 0.01, (len(seeds), 8))
        noise -= noise.mean()  # so that the mean of a cell is the one that is listed
        for seed, shift in zip(seeds, noise, strict=True):
            hits = LEAKS[recipe][attack] + shift
            row = {"seed": seed, "recipe_name": recipe, "test_acc": ACCURACIES[recipe]}
            row |= of_attack(attack, LEVELS[attack], control=attack in CONTROLS)
            if (recipe, attack, seed) not in leave_out:
                rows.append(row | {metric: hits if metric == METRIC else float(hits.mean())})
    data = made_data(rows, Axis(key="recipe_name", bare=True), ATTACK, baseline={"recipe_name": "base"}, **fields)
    return summarise(data)


def named(summary, worst):
    return {recipe: summary.frame.loc[row, "attack"] for recipe, row in worst.items()}


def test_each_recipe_stands_under_the_attack_that_works_best_against_it():
    summary = swept()
    assert tuple(named(summary, summary.worst(METRIC)).values()) == ("ppa", "plg", "brep")
    cases = summary.cases(METRIC)
    assert (cases.attacks, cases.seeds) == (("brep", "rlb", "ppa", "plg"), (1, 2, 3, 4, 5))
    assert cases.recipes == tuple(LEAKS)


def test_the_strongest_attack_is_that_of_the_seeds_that_count():
    """Over its own three seeds y is the strongest against base; over the two that all share x is."""
    leaks = {("base", "x"): {1: 0.5, 2: 0.5, 3: 0.5}, ("base", "y"): {1: 0.4, 2: 0.4, 3: 0.9}}
    leaks |= {("other", attack): {1: 0.3, 2: 0.3} for attack in "xy"}
    found = cells(*audit(leaks))
    assert found.cases(METRIC).seeds == (1, 2) and found.frame[METRIC][1] > found.frame[METRIC][0]
    assert named(found, found.worst(METRIC))["base"] == "x"


def test_a_recipe_that_lacks_an_attack_is_compared_with_none_and_what_it_lacks_is_named():
    summary = swept(leave_out=[("alpha", "ppa", seed) for seed in range(1, 6)])
    cases = summary.cases(METRIC)
    assert cases.recipes == ("base", "mid") and cases.missing == {"alpha": {"ppa": (1, 2, 3, 4, 5)}}
    assert set(summary.worst(METRIC)) == {"base", "mid"}


def test_a_summary_names_attacks_controls_and_levels_in_one_order_and_the_best_control():
    summary = swept()
    assert summary.attacks == ["brep", "rlb", "ppa", "plg"] and summary.controls == ["random", "chosen"]
    control, row = summary.worst_of_control(METRIC)
    assert (control, summary.frame.loc[row, "recipe"]) == ("chosen", "mid")
    far = swept("dist_face")
    control, row = far.worst_of_control("dist_face")
    assert (control, far.frame.loc[row, "recipe"]) == ("random", "base"), "of a distance the nearest"
    assert far.leak(far.worst("dist_face")["mid"]) == pytest.approx(-0.15)


@pytest.mark.parametrize(
    ("floor", "best", "front"),
    [
        (None, "mid", ("base", "alpha", "mid")),
        (0.85, "alpha", ("base", "alpha")),
        (0.92, "base", ("base",)),
        (0.96, None, ()),
    ],
)
def test_who_is_chosen_among_the_accurate_enough(floor, best, front):
    summary = swept(min_test_acc=floor)
    found = decide(summary)
    assert set(found.rows) == set(LEAKS) and found.front == front and found.seeds == 5
    assert (None if found.best is None else summary.frame.loc[found.best, "recipe"]) == best
    assert summary.frame.loc[found.reference, ["recipe", "attack"]].tolist() == ["base", "ppa"]
    assert found.marked == found.best
    if best == "mid":
        assert summary.frame.loc[found.best, "attack"] == "brep"
        assert found.clear and found.significant and not found.ties


RECIPES, ATTACKS, SEEDS = ("plain", "soft", "hard"), ("entropy", "logit", "averaged"), (41, 42, 43)
EVERY = tuple(product(RECIPES, ATTACKS, SEEDS))


def met_of(trials):
    return {r: {a: {s for s in SEEDS if (r, a, s) in trials} for a in ATTACKS} for r in RECIPES}


@given(st.sets(st.sampled_from(EVERY)))
def test_complete_recipes_have_met_every_counted_attack_under_every_seed(trials):
    found = complete_cases(met_of(trials), baseline="plain")
    assert set(found.attacks) == {attack for _, attack, _ in trials}
    for recipe in found.recipes:
        assert found.seeds and all((recipe, a, s) in trials for a, s in product(found.attacks, found.seeds))
    assert {*found.seeds, *found.unused} == {s for *_, s in trials} or not found.seeds
    assert set(found.missing) == set(RECIPES) - set(found.recipes)
    for recipe, lacking in found.missing.items():
        for attack, seeds in lacking.items():
            assert seeds and all((recipe, attack, seed) not in trials for seed in seeds)
        assert lacking or not trials


@given(st.sets(st.sampled_from(EVERY), min_size=1), st.sampled_from(RECIPES))
def test_an_incomplete_recipe_is_compared_with_none_and_never_chosen(trials, baseline):
    leaks = {
        (r, a): {s: 0.3 + 0.2 * RECIPES.index(r) + 0.01 * ATTACKS.index(a) for s in SEEDS if (r, a, s) in trials}
        for r, a in product(RECIPES, ATTACKS)
    }
    all_cells = cells(*audit(leaks), baseline_recipe=baseline)
    found, missing = all_cells.evidence_by(METRIC), all_cells.cases(METRIC).missing
    assume(found is not None)
    assert found.recommendation.best not in missing and not set(found.rows) & set(missing)
    for recipe in missing:
        assert all(found.against(recipe, other).n == 0 for other in RECIPES)


def test_a_recipe_whose_strong_attacks_are_missing_does_not_win():
    """Complete, `hard` leaks most; with its two strongest attacks missing or failed it would seem to leak least."""
    leaks = {(r, a): dict.fromkeys(SEEDS, 0.5) for r, a in product(("plain", "soft"), ATTACKS)}
    leaks |= {("hard", "entropy"): dict.fromkeys(SEEDS, 0.05)}
    hidden = {("hard", a): dict.fromkeys(SEEDS, 0.8) for a in ATTACKS[1:]}
    whole = cells(*audit(leaks | hidden), baseline_recipe="plain").evidence_by(METRIC)
    assert whole.recommendation.best != "hard" and not whole.missing
    part = cells(*audit(leaks | {at: {} for at in hidden}), baseline_recipe="plain")
    found = part.evidence_by(METRIC)
    assert found.recommendation.best != "hard"
    assert found.missing == {"hard": dict.fromkeys(ATTACKS[1:], SEEDS)}
    (said,) = incomplete_sentences(part.cases(METRIC), planned=ATTACKS)
    assert said.startswith("Incomplete") and "hard (lacks logit: seeds 41, 42 and 43; averaged: seeds" in said


def test_an_attack_that_no_recipe_has_met_is_named_and_does_not_count():
    found = complete_cases(met_of({trial for trial in EVERY if trial[1] != "averaged"}))
    assert (found.recipes, found.attacks, found.missing) == (RECIPES, ATTACKS[:2], {})
    (said,) = incomplete_sentences(found, planned=ATTACKS)
    assert said.startswith("No recipe has results of averaged yet")


def both(mean):
    return {0: mean, 1: mean}


def test_distances_keep_their_sign_and_their_verdict():
    leaks = {("near", ""): {0: 0.5, 1: 0.51, 2: 0.52}, ("far", ""): {0: 1.2, 1: 1.21, 2: 1.19}}
    found = cells(*audit(leaks, metric="dist_face", by_class=False)).evidence_by("dist_face")
    gap = found.against("far", "near")
    assert found.recommendation.best == "far" and found.classes is None
    assert gap.difference == pytest.approx(0.69) and gap.verdict == "higher" and gap.low > 0
    assert found.mean("far") == pytest.approx(1.2) and found.against("far", "stranger").n == 0


@pytest.mark.parametrize(
    ("late", "baseline", "seeds", "left_out"),
    [
        ({0: 0.45}, None, (0, 1, 2), ("late",)),
        ({0: 0.45}, "late", (0,), ()),  # the baseline is never left out for the others' seeds
        ({0: 0.05, 2: 0.05}, None, (0, 2), ()),  # who is in front keeps its seeds while two remain
        ({0: 0.05}, None, (0, 1, 2), ("late",)),
    ],
)
def test_a_seed_that_most_have_counts_and_who_lacks_it_is_left_out(late, baseline, seeds, left_out):
    full = {(r, ""): {0: m, 1: m, 2: m} for r, m in zip("abcd", (0.2, 0.4, 0.5, 0.6), strict=True)}
    found = cells(*audit(full | {("late", ""): late}), baseline_recipe=baseline).evidence_by(METRIC)
    assert found.seeds == seeds and ("late" in found.rows) is not bool(left_out)
    assert tuple(found.missing) == left_out


def test_the_accuracy_asked_for_and_the_baseline():
    accs = {"low": 0.5, "base": 0.6, "good": 0.95}
    leaks = {(r, ""): {**both(m), 2: m} for r, m in (("low", 0.1), ("base", 0.7), ("good", 0.3))}
    frame, samples = audit(leaks, accs=accs)
    found = cells(frame, samples, min_test_acc=0.9, baseline_recipe="base").evidence_by(METRIC)
    assert found.recommendation.best == "good" and found.recommendation.allowed == ("good",)
    # The less accurate are compared too: tables print their differences.
    assert set(found.values) == set(accs) and found.pairs == 3
    assert found.against("good", "base").verdict == "lower"
    nobody = cells(frame, samples, min_test_acc=0.99).evidence_by(METRIC)
    assert nobody.recommendation.best is None and set(nobody.rows) == set(accs)
    frame["test_acc"] = np.nan
    assert cells(frame, samples, min_test_acc=0.1).evidence_by(METRIC).recommendation.best is None


def test_tables_hold_the_corrected_difference_under_one_attack():
    means = {
        ("x", "base"): 0.5,
        ("x", "b"): 0.2,
        ("x", "c"): 0.49,
        ("y", "base"): 0.6,
        ("y", "b"): 0.3,
        ("y", "c"): 0.59,
    }
    frame, samples = audit({(r, attack): both(mean) for (attack, r), mean in means.items()})
    found = cells(frame, samples, rows_of_baselines=[None, 0, 0, None, 3, 3])
    told = [found.gap(row, METRIC) for row in range(6)]
    assert [gap.verdict for gap in told[:3]] == ["", "lower", "inconclusive"]
    for row, recipe in ((4, "b"), (5, "c")):  # the strongest attack on each: those pay for having looked at both
        one = cells(frame, samples).evidence_by(METRIC).reduction(recipe, "base")
        assert (told[row].low, told[row].high) == (-one.high, -one.low)
        assert one.comparisons == 2 * 3 and one.attack == one.attack_reference == "y"
    values = {r: np.stack([samples[k][METRIC][s].by_class for s in (0, 1)]) for k, r in enumerate(("base", "b", "c"))}
    pair = compare_recipes(values).between("base", "b")
    assert (told[1].low, told[1].high, told[1].n) == (*map(pytest.approx, (-pair.high, -pair.low)), 2)


@pytest.mark.parametrize(
    ("means", "families"),
    [
        # As the swaps of an attack's stages are: corrected for all that are compared across attacks.
        ({"ax": 0.6, "bx": 0.5, "ay": 0.3, "az": 0.6}, {(0, 2, 3): 2}),
        # A recipe's own attacks share its training: their spread says nothing of what two trainings differ by.
        ({"ax": 0.6, "ay": 0.5, "by": 0.4, "cy": 0.3}, {(0, 1): 3, (0, 2, 3): 3}),
    ],
)
def test_a_baseline_that_names_its_attack_is_compared_with_those_of_others_by_families(means, families):
    frame, samples = audit({tuple(name): both(mean) for name, mean in means.items()})
    found = cells(frame, samples, rows_of_baselines=[None, 0, 0, 0])
    assert [found.gap(row, METRIC).n for row in range(4)] == [0, 2, 2, 2]
    values = {row: np.stack([samples[row][METRIC][seed].by_class for seed in (0, 1)]) for row in range(4)}
    for family, among in families.items():
        compared = compare_recipes({row: values[row] for row in family}, among=among)
        for row in family[1:]:
            pair, gap = compared.between(0, row), found.gap(row, METRIC)
            ends = [-pair.difference, -pair.high, -pair.low]
            assert [gap.difference, gap.low, gap.high] == pytest.approx(ends)


def test_across_attacks_a_row_that_lacks_a_seed_is_compared_by_itself():
    frame, samples = audit({("a", "x"): both(0.6), ("b", "y"): both(0.5), ("c", "y"): both(0.2), ("d", "y"): {1: 0.4}})
    found = cells(frame, samples, rows_of_baselines=[None, 0, 0, 0])
    assert [found.gap(row, METRIC).n for row in (1, 2, 3)] == [2, 2, 1]
    alone = compare(metric_of(METRIC), samples[3][METRIC], samples[0][METRIC], among=3)
    assert found.gap(3, METRIC).difference == pytest.approx(alone.difference)


@settings(max_examples=20, deadline=None)
@given(
    means=st.lists(st.sampled_from([0.2, 0.4, 0.6]), min_size=6, max_size=6),
    references=st.sampled_from([(None, 0, 0, None, 3, 3), (None, 0, 0, 0, 0, 0)]),
    metric=st.sampled_from([METRIC, "test_acc"]),
)
def test_a_pair_of_the_answer_has_the_same_verdict_in_the_table_of_every_recipe(means, references, metric):
    """Whether the baseline is a recipe, compared under each attack, or a cell that names its attack."""
    names = [(recipe, attack) for attack in "xy" for recipe in "abc"]
    found = cells(*audit(dict(zip(names, map(both, means), strict=True))), rows_of_baselines=references, primary=METRIC)
    answer, worst = found.evidence_by(metric, METRIC), set(found.worst(METRIC).values())
    table = with_gaps(found)
    for row, other in enumerate(references):
        if other is not None and {row, other} <= worst:
            told = found.between_rows(answer, row, other)
            shown = table.loc[row, [f"{metric}{end}" for end in ("_diff", "_diff_low", "_diff_high", "_verdict")]]
            assert tuple(shown) == (told.difference, told.low, told.high, told.verdict)
