"""Recipes are compared over attacks and seeds that all of them have met; the others are named with what they lack."""

from itertools import product

from compared_cells import audit, cells
from hypothesis import assume, given
from hypothesis import strategies as st

from smoothsweep.orchestrator.result.cells import complete_cases
from smoothsweep.orchestrator.result.display import incomplete_sentences

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
    found, missing = all_cells.evidence_by("embedder_acc1"), all_cells.cases("embedder_acc1").missing
    assume(found is not None)
    assert found.recommendation.best not in missing and not set(found.rows) & set(missing)
    for recipe in missing:
        assert all(found.against(recipe, other).n == 0 for other in RECIPES)


def test_a_recipe_whose_strong_attacks_are_missing_does_not_win():
    """Complete, `hard` leaks most; with its two strongest attacks missing or failed it would seem to leak least."""
    leaks = {(r, a): dict.fromkeys(SEEDS, 0.5) for r, a in product(("plain", "soft"), ATTACKS)}
    leaks |= {("hard", "entropy"): dict.fromkeys(SEEDS, 0.05)}
    hidden = {("hard", a): dict.fromkeys(SEEDS, 0.8) for a in ATTACKS[1:]}
    whole = cells(*audit(leaks | hidden), baseline_recipe="plain").evidence_by("embedder_acc1")
    assert whole.recommendation.best != "hard" and not whole.missing
    part = cells(*audit(leaks | {at: {} for at in hidden}), baseline_recipe="plain")
    found = part.evidence_by("embedder_acc1")
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
