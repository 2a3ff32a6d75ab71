"""The search on the page: progress in closed form, what ended it, and whether the cheap attacks may choose."""

import re
from dataclasses import replace

import pytest
from made_rows import ALPHA, made_data
from made_searches import OBJECTIVES, halving, proposed, view

from smoothsweep.orchestrator.page.render import part
from smoothsweep.orchestrator.result.data import Objective, paired_with_full, progress
from smoothsweep.orchestrator.result.format import ascii_text
from smoothsweep.orchestrator.result.searches import marks, search_sentences
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of


def text(*parts):
    return ascii_text(" ".join(map(str, parts)).replace("\u00a0", " "))


def test_hypervolume_grows_with_what_is_found_and_counts_the_time_of_all():
    first, beaten, better = proposed(0, 0.8, 0.5), proposed(1, 0.7, 0.6), proposed(2, 0.9, 0.5)
    found = progress(view(first, beaten, better))
    assert found.reference == (0.0, 1.0)
    assert found.values == pytest.approx((0.8 * 0.5, 0.8 * 0.5, 0.9 * 0.5))
    assert found.hours == pytest.approx((0.1, 0.2, 0.3)) and found.best == (2,)


def test_cheap_attacks_cost_time_but_add_nothing_and_neither_does_what_misses_a_constraint():
    cheap, missed = proposed(0, 0.99, 0.01, rung=0), proposed(1, 0.99, 0.01, feasible=False)
    open_one, failed = proposed(2, None, None, status="open"), proposed(3, None, None, status="failed")
    found = progress(view(cheap, missed, open_one, failed, proposed(4, 0.5, 0.5)))
    assert found.hours == pytest.approx((0.5,)) and found.values == pytest.approx((0.25,)) and found.best == (4,)
    assert progress(view(cheap, missed, open_one, failed)) is None and progress(view()) is None


def test_a_recipe_under_some_of_the_seeds_costs_time_and_is_no_result_yet():
    lucky, other, again = proposed(0, 0.99, 0.01, seeds=1), proposed(1, 0.5, 0.5), proposed(2, 0.8, 0.4)
    shown = view(lucky, other, again, strategy="noise_aware")
    found = progress(shown)
    assert found.hours == pytest.approx((0.2, 0.3)) and found.values == pytest.approx((0.25, 0.48))
    assert found.best == (2,) and [one.number for one in shown.full] == [1, 2]
    assert text(*marks(lucky, found)) == "1 seed only" and marks(again, found) == ["frontier"]
    assert text(*marks(proposed(3, 0.9, 0.2, seeds=2), None)) == "2 seeds only"


def test_distances_are_measured_from_the_worst_seen():
    far = Objective(column="dist_face", way="max")
    points = [
        proposed(k, a, None, objectives={"test_acc": a, "dist_face": d})
        for k, (a, d) in enumerate(((0.5, 1.0), (0.4, 1.5), (0.3, 0.8)))
    ]
    found = progress(view(*points, objectives=(OBJECTIVES[0], far)))
    assert found.reference == (0.0, 0.8) and found.values[-1] == pytest.approx(0.5 * 0.2 + 0.4 * 0.5)


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


def test_one_objective_may_be_driven_either_way_and_the_best_so_far_never_gets_worse():
    """Of five proposals an open one and one that misses a constraint cost time and show nothing."""
    accuracies = (0.6, 0.8, 0.7, 0.9, 0.85)
    proposals = [
        replace(proposed(number, accuracy, 1 - accuracy), device_hours=number + 1.0)
        for number, accuracy in enumerate(accuracies)
    ]
    proposals[1] = replace(proposals[1], feasible=False)
    proposals[3] = replace(proposals[3], status="open")
    for objective, values, best in ((OBJECTIVES[0], (0.6, 0.7, 0.85), (4,)), (OBJECTIVES[1], (0.4, 0.3, 0.15), (4,))):
        found = progress(view(*proposals, objectives=(objective,)))
        assert [one.number for one in found.met] == [0, 2, 4] and found.hours == (1.0, 6.0, 15.0)
        assert found.values == pytest.approx(values) and found.best == best and found.reference == ()
    falling = [replace(proposed(number, accuracy, 0.5), device_hours=1.0) for number, accuracy in ((0, 0.9), (1, 0.4))]
    found = progress(view(*falling, objectives=(OBJECTIVES[0],)))
    assert found.values == pytest.approx((0.9, 0.9)) and found.best == (0,)
