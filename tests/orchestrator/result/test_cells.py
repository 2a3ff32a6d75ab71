"""Cells of a sweep: what is counted and paired, common seeds, complete recipes, the strongest attack."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from smoothsweep.core.metrics.comparisons import compare_recipes
from smoothsweep.core.metrics.intervals import rate_interval
from smoothsweep.orchestrator.result.cells import complete_cases
from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.display import incomplete_sentences
from smoothsweep.orchestrator.result.summary import decide, summarise
from tests.compared_cells import audit, cells, with_gaps
from tests.made_rows import ATTACK, made_data, of_attack

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


def both(mean):
    return {0: mean, 1: mean}


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


ALPHA, LOSS = Axis(key="alpha"), Axis(key="loss", role="attack")


def cells_of(results, per_class, axes, baseline=None):
    data = ReportData(title="t", results=results, per_class=per_class, axes=axes, baseline=baseline or {})
    return with_gaps(summarise(data))


def frame(*rows):
    return pd.DataFrame([{"trial": f"{i:012x}", "status": "done", "failure": None} | row for i, row in enumerate(rows)])


def test_scalar_metrics_use_student_t_over_seeds():
    values = [80.0, 86.0, 83.0]
    table = cells_of(frame(*({"alpha": 0, "seed": s, "fid": v} for s, v in enumerate(values))), None, (ALPHA,))
    half = stats.t.ppf(0.975, 2) * np.std(values, ddof=1) / np.sqrt(3)
    row = table.iloc[0]
    assert row["fid"] == pytest.approx(np.mean(values))
    assert row["fid_low"] == pytest.approx(np.mean(values) - half)
    assert row["fid_high"] == pytest.approx(np.mean(values) + half)
    assert row["fid_n"] == 3


def test_rates_over_seeds_know_of_how_many_images_they_are():
    """Always right, on 50 test images and on 200 reconstructions of 5 people under each seed."""
    values = {"test_acc": 1.0, "attack_acc5": 1.0, "attack_acc1_std": 0.1, "backdoor_collapsed": 0}
    table = frame(*({"alpha": 0, "seed": seed, **values} for seed in range(3)))
    classes = pd.DataFrame(
        [
            {"trial": trial, "class": c, "attack_acc1": 1.0, "attack_acc1_images": 40}
            for trial in table["trial"]
            for c in range(5)
        ]
    )
    data = ReportData(title="t", results=table, per_class=classes, axes=(ALPHA,), real_images=50)
    row = summarise(data).frame.iloc[0]
    z = stats.norm.ppf(0.975) ** 2
    assert row["test_acc_low"] == pytest.approx(1 / (1 + z / 50)) and row["test_acc_high"] == 1
    worth = 600 / (1 + (600 / 5 - 1) / 4)
    assert row["attack_acc5_low"] == pytest.approx(1 / (1 + z / worth))
    assert row["backdoor_collapsed_high"] == pytest.approx(1 - 1 / (1 + z / 3)), "three trainings"
    assert (row["attack_acc1_std_low"], row["attack_acc1_std_high"]) == pytest.approx((0.1, 0.1)), "no rate"


def per_class(values):
    """values: trial -> hit rates."""
    return pd.concat(
        pd.DataFrame({"trial": trial, "class": [f"c{i}" for i in range(len(hits))], "embedder_acc1": hits})
        for trial, hits in values.items()
    )


def hit_rates():
    rng = np.random.default_rng(5)
    base = rng.uniform(0.2, 0.6, 12)
    return {
        ("a", 0): base + 0.02,
        ("a", 1): base - 0.02,
        ("b", 0): base - 0.08,
        ("b", 1): base - 0.12,
    }


def test_hit_rates_are_over_seeds_and_classes_and_pair_by_both():
    hits = hit_rates()
    rows = [
        {"trial": f"{recipe}{seed}", "alpha": {"a": 0.0, "b": -0.2}[recipe], "seed": seed, "embedder_acc1": v.mean()}
        for (recipe, seed), v in hits.items()
    ]
    # The rows of per_class come shuffled: pairing is by name.
    classes = per_class({f"{r}{s}": v for (r, s), v in hits.items()}).sample(frac=1, random_state=0)
    table = cells_of(frame(*rows), classes, (ALPHA,), baseline={"alpha": 0}).set_index("alpha")
    expected = rate_interval([hits["b", 0], hits["b", 1]])
    gap = compare_recipes({r: [hits[r, 0], hits[r, 1]] for r in "ba"}).pairs[0]
    row = table.loc[-0.2]
    assert (row["embedder_acc1_low"], row["embedder_acc1_high"]) == pytest.approx((expected.low, expected.high))
    assert row["embedder_acc1_diff"] == pytest.approx(gap.difference)
    assert (row["embedder_acc1_diff_low"], row["embedder_acc1_diff_high"]) == pytest.approx((gap.low, gap.high))
    assert row["embedder_acc1_verdict"] == gap.verdict and row["embedder_acc1_diff_n"] == 2
    assert bool(table.loc[0.0, "is_baseline"]) and table.loc[0.0, "embedder_acc1_verdict"] == ""


def test_differences_use_the_seeds_and_classes_both_have():
    hits = hit_rates()
    rows = [
        {"trial": f"{r}{s}", "alpha": float(r == "b"), "seed": s + (r == "b"), "embedder_acc1": v.mean()}
        for (r, s), v in hits.items()
    ]
    classes = per_class({f"{r}{s}": v for (r, s), v in hits.items()})
    classes = classes[~((classes["trial"] == "b0") & (classes["class"] == "c3"))]
    row = cells_of(frame(*rows), classes, (ALPHA,), baseline={"alpha": 0}).iloc[1]
    keep = np.arange(12) != 3
    assert row["embedder_acc1_diff_n"] == 1  # seeds 0, 1 against 1, 2
    assert row["embedder_acc1_diff"] == pytest.approx((hits["b", 0] - hits["a", 1])[keep].mean())
    assert np.isnan(row["embedder_acc1_diff_low"]) and row["embedder_acc1_verdict"] == "inconclusive"


def test_the_baseline_follows_the_other_axes():
    rows = [
        {"alpha": a, "loss": loss, "seed": s, "test_acc": v + s / 100}
        for a, loss, v in ((0, "ce", 0.5), (0, "poincare", 0.7), (1, "ce", 0.6), (1, "poincare", 0.6))
        for s in (0, 1)
    ]
    table = cells_of(frame(*rows), None, (ALPHA, LOSS), baseline={"alpha": 0.0})
    gaps = table.set_index(["alpha", "loss"])["test_acc_diff"]
    assert gaps[1, "ce"] == pytest.approx(0.1) and gaps[1, "poincare"] == pytest.approx(-0.1)
    assert table["is_baseline"].sum() == 2


def test_the_deciding_metric_is_the_independent_judge_where_measured(make_data):
    data = make_data()
    assert summarise(data).primary == "embedder_acc1"
    without = data.results.drop(columns=["embedder_acc1"])
    assert summarise(make_data(results=without)).primary == "attack_acc1"
    neither = without.drop(columns=["attack_acc1"])
    assert summarise(make_data(results=neither, per_class=None)).primary == "dist_face"
    assert summarise(make_data(primary="dist_eval")).primary == "dist_eval"
    nothing = neither[["trial", "seed", "status", "failure", "alpha", "attack_loss", "test_acc"]]
    assert summarise(make_data(results=nothing, per_class=None)).primary is None


def test_each_recipe_stands_under_the_attack_that_works_best_against_it():
    summary = swept()
    assert tuple(named(summary, summary.worst(METRIC)).values()) == ("ppa", "plg", "brep")
    cases = summary.cases(METRIC)
    assert (cases.attacks, cases.seeds) == (("brep", "rlb", "ppa", "plg"), (1, 2, 3, 4, 5))
    assert cases.recipes == tuple(LEAKS)
