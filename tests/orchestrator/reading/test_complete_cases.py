"""Recipes are compared over attacks and seeds that all of them have met; the others are named with what they lack."""

import re
from itertools import product

import pytest
from compared_cells import audit, cells
from hypothesis import assume, given
from hypothesis import strategies as st

from smoothsweep.orchestrator.reading.findings.display import NAMED, incomplete_sentences
from smoothsweep.orchestrator.reading.numbers.cells import CompleteCases, complete_cases

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
    frame, samples = audit(leaks)
    all_cells = cells(frame, samples, baseline_recipe=baseline)
    found, missing = all_cells.gather_worst("embedder_acc1"), all_cells.cases("embedder_acc1").missing
    assume(found is not None)
    assert found.recommendation.best not in missing and not set(found.rows) & set(missing)
    for recipe in missing:
        assert all(found.against(recipe, other).n == 0 for other in RECIPES)


def test_a_recipe_whose_strong_attacks_are_missing_does_not_win():
    """Complete, `hard` leaks most; with its two strongest attacks missing or failed it would seem to leak least."""
    leaks = {(r, a): dict.fromkeys(SEEDS, 0.5) for r, a in product(("plain", "soft"), ATTACKS)}
    leaks |= {("hard", "entropy"): dict.fromkeys(SEEDS, 0.05)}
    hidden = {("hard", a): dict.fromkeys(SEEDS, 0.8) for a in ATTACKS[1:]}
    whole = cells(*audit(leaks | hidden), baseline_recipe="plain").gather_worst("embedder_acc1")
    assert whole.recommendation.best != "hard" and not whole.missing
    part = cells(*audit(leaks | {at: {} for at in hidden}), baseline_recipe="plain")
    found = part.gather_worst("embedder_acc1")
    assert found.recommendation.best != "hard"
    assert found.missing == {"hard": dict.fromkeys(ATTACKS[1:], SEEDS)}
    (said,) = incomplete_sentences(part.cases("embedder_acc1"), planned=ATTACKS)
    assert said.startswith("Incomplete") and "hard (lacks logit: seeds 41, 42 and 43; averaged: seeds" in said


def test_an_attack_that_no_recipe_has_met_is_named_and_does_not_count():
    trials = {trial for trial in EVERY if trial[1] != "averaged"}
    found = complete_cases(met_of(trials))
    assert (found.recipes, found.attacks, found.missing) == (RECIPES, ATTACKS[:2], {})
    (said,) = incomplete_sentences(found, planned=ATTACKS)
    assert said.startswith("No recipe has results of averaged yet")


def told(planned=("x", "y"), words=None, **fields):
    """The sentences on cases made by hand; two attacks, two complete recipes."""
    usual = {"attacks": ("x", "y"), "seeds": (1, 2), "recipes": ("a", "b")}
    return incomplete_sentences(CompleteCases(**(usual | fields)), planned=planned, words=words)


@pytest.mark.parametrize("unused", [(7,), (7, 9), (7, 9, 11)])
def test_seeds_that_do_not_count_are_all_named_and_no_others(unused):
    (line,) = told(unused=unused)
    assert [int(number) for number in re.findall(r"\d+", line)] == list(unused)
    assert (" is " in line) == (len(unused) == 1) and ("Seeds" in line) == (len(unused) > 1)


@pytest.mark.parametrize("many", [1, NAMED - 1, NAMED, NAMED + 1, NAMED + 3])
def test_incomplete_recipes_are_named_up_to_a_number_and_the_others_counted(many):
    """Each lacks a seed of its own under one attack, and every second two of the other attack."""
    missing = {f"r{at}": {"x": (100 + at,)} | ({"y": (200 + at, 300 + at)} if at % 2 else {}) for at in range(many)}
    (line,) = told(missing=missing)
    for at in range(many):
        shown = at < NAMED
        numbers = [str(100 + at), *([str(200 + at), str(300 + at)] if at % 2 else [])]
        assert all((number in line) is shown for number in numbers) and (f"r{at} (" in line) is shown
    assert (f"{many - NAMED}\u00a0other" in line) == (many > NAMED)


def test_what_is_missing_what_does_not_count_and_what_is_unmet_are_lines_of_their_own_in_the_words_given():
    words = {"a": "first recipe", "x": "attack one", "z": "attack three"}
    lines = told(("x", "y", "z", "w"), words, missing={"a": {"x": (1,), "y": (2,)}}, unused=(5,))
    assert len(lines) == 3 and "first recipe (" in lines[0] and "attack one" in lines[0] and "; y: seed 2" in lines[0]
    assert "5" in lines[1] and "attack three" in lines[2] and "w" in lines[2] and "attack one" not in lines[2]
    assert told() == () and told((), {}) == ()
    assert told(("x",), attacks=(), missing={"a": {}}) == (), "nothing was met: another sentence says so"
