"""What is compared: common seeds, the worst attack, signs, and who is left out."""

import numpy as np
import pytest
from compared_cells import QUICK, audit, cells, with_gaps
from hypothesis import given, settings
from hypothesis import strategies as st

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.comparisons import compare_recipes
from smoothsweep.orchestrator.result.estimates import compare


def both(mean):
    return {0: mean, 1: mean}


def test_the_numbers_are_those_of_all_pairs_at_once():
    frame, samples = audit({(r, ""): both(m) for r, m in (("a", 0.2), ("b", 0.5), ("c", 0.55))})
    found = cells(frame, samples).evidence_by("embedder_acc1")
    values = {r: np.stack([samples[k]["embedder_acc1"][s].by_class for s in (0, 1)]) for k, r in enumerate("abc")}
    expected = compare_recipes(values).between("a", "b")
    gap, back = found.against("a", "b"), found.against("b", "a")
    assert (gap.difference, gap.low, gap.high) == pytest.approx((expected.difference, expected.low, expected.high))
    assert (gap.verdict, back.verdict, gap.n) == ("lower", "higher", 2)
    assert (back.low, back.high) == pytest.approx((-gap.high, -gap.low))
    assert found.pairs == 3 and found.against("a", "stranger").n == 0


def test_distances_keep_their_sign_and_their_verdict():
    leaks = {("near", ""): {0: 0.5, 1: 0.51, 2: 0.52}, ("far", ""): {0: 1.2, 1: 1.21, 2: 1.19}}
    frame, samples = audit(leaks, metric="dist_face", by_class=False)
    found = cells(frame, samples).evidence_by("dist_face")
    gap = found.against("far", "near")
    assert found.recommendation.best == "far" and found.classes is None
    assert gap.difference == pytest.approx(0.69) and gap.verdict == "higher" and gap.low > 0
    assert found.mean("far") == pytest.approx(1.2)


def test_a_seed_that_most_have_counts_and_who_lacks_it_is_left_out():
    full = {(r, ""): {0: m, 1: m, 2: m} for r, m in zip("abcd", (0.2, 0.4, 0.5, 0.6), strict=True)}
    frame, samples = audit(full | {("late", ""): {0: 0.45}})
    found = cells(frame, samples).evidence_by("embedder_acc1")
    assert found.seeds == (0, 1, 2) and found.left_out == ("late",) and "late" not in found.rows
    assert found.missing == {"late": {"": (1, 2)}}
    # The baseline is never left out for the others' seeds.
    found = cells(frame, samples, baseline_recipe="late").evidence_by("embedder_acc1")
    assert found.seeds == (0,) and found.left_out == ()


def test_the_recipe_in_front_keeps_its_seeds_while_two_remain():
    full = {(r, ""): {0: m, 1: m, 2: m} for r, m in zip("abcd", (0.2, 0.4, 0.5, 0.6), strict=True)}
    two, one = {0: 0.05, 2: 0.05}, {0: 0.05}
    for mine, seeds, left_out in ((two, (0, 2), ()), (one, (0, 1, 2), ("front",))):
        found = cells(*audit(full | {("front", ""): mine})).evidence_by("embedder_acc1")
        assert (found.seeds, found.left_out) == (seeds, left_out)


def test_the_accuracy_asked_for_and_the_baseline():
    accs = {"low": 0.5, "base": 0.6, "good": 0.95}
    leaks = {(r, ""): {**both(m), 2: m} for r, m in (("low", 0.1), ("base", 0.7), ("good", 0.3))}
    frame, samples = audit(leaks, accs=accs)
    found = cells(frame, samples, min_test_acc=0.9, baseline_recipe="base").evidence_by("embedder_acc1")
    assert found.recommendation.best == "good" and found.recommendation.allowed == ("good",)
    # The less accurate are compared too: tables print their differences.
    assert set(found.compared) == set(accs) and found.pairs == 3
    assert found.against("good", "base").verdict == "lower"
    nobody = cells(frame, samples, min_test_acc=0.99).evidence_by("embedder_acc1")
    assert nobody.recommendation.best is None and set(nobody.rows) == set(accs)
    frame["test_acc"] = np.nan
    assert cells(frame, samples, min_test_acc=0.1).evidence_by("embedder_acc1").recommendation.best is None


def test_tables_hold_the_corrected_difference_under_one_attack():
    leaks = {
        (r, attack): both(m + shift)
        for attack, shift in (("x", 0.0), ("y", 0.1))
        for r, m in (("base", 0.5), ("b", 0.2), ("c", 0.49))
    }
    frame, samples = audit(leaks)
    told = with_gaps(cells(frame, samples, rows_of_baselines=[None, 0, 0, None, 3, 3]))
    assert told["embedder_acc1_verdict"].tolist()[:3] == ["", "lower", "inconclusive"]
    for row, recipe in ((4, "b"), (5, "c")):  # the strongest attack on each: those pay for having looked at both
        one = cells(frame, samples).evidence_by("embedder_acc1").reduction(recipe, "base")
        ends = told.loc[row, ["embedder_acc1_diff_low", "embedder_acc1_diff_high"]].tolist()
        assert ends == [-one.high, -one.low]
        assert one.comparisons == 2 * 3 and one.attack == one.attack_reference == "y"
    x = cells(frame, samples).gather("embedder_acc1", {"base": 0, "b": 1, "c": 2}).against("b", "base")
    assert told.loc[1, "embedder_acc1_diff_low"] == pytest.approx(x.low) and told.loc[1, "embedder_acc1_diff_n"] == 2


def test_a_baseline_that_names_its_attack_is_compared_with_those_of_others():
    """As the swaps of an attack's stages are; corrected for all that are compared across attacks."""
    frame, samples = audit({("a", "x"): both(0.6), ("b", "x"): both(0.5), ("a", "y"): both(0.3), ("a", "z"): both(0.6)})
    found = with_gaps(cells(frame, samples, rows_of_baselines=[None, 0, 0, 0]))
    assert found["embedder_acc1_diff"].isna().tolist() == [True, False, False, False]
    values = {row: np.stack([samples[row]["embedder_acc1"][seed].by_class for seed in (0, 1)]) for row in (0, 2, 3)}
    among = compare_recipes(values, among=2)
    for row in (2, 3):
        pair = among.between(0, row)
        told = found.loc[row, ["embedder_acc1_diff", "embedder_acc1_diff_low", "embedder_acc1_diff_high"]]
        assert told.tolist() == pytest.approx([-pair.difference, -pair.high, -pair.low])


def test_across_attacks_other_recipes_vary_with_each_other_and_one_recipe_with_itself():
    """A recipe's own attacks share its training: their spread says nothing of what two trainings differ by."""
    leaks = {("a", "x"): both(0.6), ("a", "y"): both(0.5), ("b", "y"): both(0.4), ("c", "y"): both(0.3)}
    frame, samples = audit(leaks)
    found = with_gaps(cells(frame, samples, rows_of_baselines=[None, 0, 0, 0]))
    values = {row: np.stack([samples[row]["embedder_acc1"][seed].by_class for seed in (0, 1)]) for row in range(4)}
    for family, rows in (((0, 1), (1,)), ((0, 2, 3), (2, 3))):
        compared = compare_recipes({row: values[row] for row in family}, among=3)
        for row in rows:
            pair = compared.between(0, row)
            ends = found.loc[row, ["embedder_acc1_diff_low", "embedder_acc1_diff_high"]].tolist()
            assert ends == pytest.approx([-pair.high, -pair.low])


def test_across_attacks_a_row_that_lacks_a_seed_is_compared_by_itself():
    frame, samples = audit({("a", "x"): both(0.6), ("b", "y"): both(0.5), ("c", "y"): both(0.2), ("d", "y"): {1: 0.4}})
    found = with_gaps(cells(frame, samples, rows_of_baselines=[None, 0, 0, 0]))
    assert found["embedder_acc1_diff_n"].tolist()[1:] == [2, 2, 1]
    metric = "embedder_acc1"
    alone = compare(metric_of(metric), samples[3][metric], samples[0][metric], QUICK, among=3)
    assert found.loc[3, "embedder_acc1_diff"] == pytest.approx(alone.difference)


@settings(max_examples=20, deadline=None)
@given(
    means=st.lists(st.sampled_from([0.2, 0.4, 0.6]), min_size=6, max_size=6),
    references=st.sampled_from([(None, 0, 0, None, 3, 3), (None, 0, 0, 0, 0, 0)]),
    metric=st.sampled_from(["embedder_acc1", "test_acc"]),
)
def test_a_pair_of_the_answer_has_the_same_verdict_in_the_table_of_every_recipe(means, references, metric):
    """Whether the baseline is a recipe, compared under each attack, or a cell that names its attack."""
    names = [(recipe, attack) for attack in "xy" for recipe in "abc"]
    frame, samples = audit(dict(zip(names, map(both, means), strict=True)))
    compared = cells(frame, samples, rows_of_baselines=references, primary="embedder_acc1")
    table = with_gaps(compared)
    worst = cells(frame, samples).worst("embedder_acc1")
    answer = compared.evidence_by(metric, "embedder_acc1")
    for row, other in enumerate(references):
        if other is None or not {row, other} <= set(worst.values()):
            continue
        told = compared.between_rows(answer, row, other)
        shown = table.loc[row, [f"{metric}{end}" for end in ("_diff", "_diff_low", "_diff_high", "_verdict")]]
        assert tuple(shown) == (told.difference, told.low, told.high, told.verdict)
