"""The numbers of an audit where nothing is alike: seconds, devices, queries, shares differ by seed and recipe."""

import numpy as np
import pandas as pd
import pytest

from smoothsweep.core.metrics.comparisons import compare_recipes
from smoothsweep.orchestrator.reading.audit.result import AuditNotes, read_audit
from smoothsweep.orchestrator.result.data import Axis, ReportData, StageLink
from smoothsweep.orchestrator.result.summary import summarise

NAMES, SEEDS, PEOPLE = ["Zoe", "Ann", "Bob", "Cy", "Di"], (2, 7, 5), (4, 0, 2, 3)
"""Five classes, of which the second has no reconstructions."""
ATTACKS = {"ppa": "gradients", "rlb": "scores", "brep": "labels", "random": "none", "chosen": "scores"}
CONTROLS = ("random", "chosen")
LEAKS = {
    "mine": {"ppa": 0.5, "rlb": 0.6, "brep": 0.3, "random": 0.05, "chosen": 0.2},
    "plain": {"ppa": 0.7, "rlb": 0.4, "brep": 0.5, "random": 0.1, "chosen": 0.3},
    "fixed": {"ppa": 0.1, "rlb": 0.2, "brep": 0.25, "random": 0.1, "chosen": 0.4},
}
ACCURACY = {"mine": 0.9, "plain": 0.8, "fixed": 0.7}


def rates(recipe, attack, seed):
    """A rate for each person, by its place."""
    return np.array([LEAKS[recipe][attack] + 0.01 * seed * (place - 1.5) / 10 for place in range(len(PEOPLE))])


def links(recipe, attack, seed):
    """Stages of a trial: of another length each, some on two devices; `common` serves all recipes."""
    at, trial = list(ATTACKS).index(attack), f"{recipe}-{attack}-{seed}"
    return (
        StageLink(stage="target", path=f"t/{recipe}/{seed}", seconds=100.0 + seed, devices=2.0),
        StageLink(stage="prior", path="common", seconds=1000.0),
        StageLink(stage="pool", path=f"pool/{recipe}/{seed}", seconds=10.0 * (at + 1), devices=3.0),
        StageLink(stage="attack", path=f"a/{trial}", seconds=1.0 * seed, devices=1.5),
        StageLink(stage="judge_embedder", path=f"j/{trial}", seconds=7.0),
    )


def data(recipes=tuple(LEAKS), seeds=SEEDS, attacks=tuple(ATTACKS)):
    rows, classes, linked = [], [], {}
    for recipe in recipes:
        for attack in attacks:
            for seed in seeds:
                trial, hits = f"{recipe}-{attack}-{seed}", rates(recipe, attack, seed)
                rows.append(
                    {
                        "trial": trial,
                        "seed": seed,
                        "status": "done",
                        "failure": None,
                        "recipe_name": recipe,
                        "attack_name": attack,
                        "attack_access": ATTACKS[attack],
                        "attack_control": attack in CONTROLS,
                        "attack_published": True,
                        "test_acc": ACCURACY[recipe] + 0.001 * seed,
                        "embedder_acc1": float(hits.mean()),
                        "embedder_real_acc": 0.9 + 0.01 * seed,
                        "queries": None if attack == "random" else 10.0 * seed,
                    }
                )
                classes += [
                    {"trial": trial, "class": label, "embedder_acc1": hit}
                    for label, hit in zip(PEOPLE, hits, strict=True)
                ]
                linked[trial] = links(recipe, attack, seed)
    axes = (Axis(key="recipe_name", bare=True, defense=True), Axis(key="attack_name", role="attack", bare=True))
    return ReportData(
        title="t",
        results=pd.DataFrame(rows),
        per_class=pd.DataFrame(classes),
        axes=axes,
        links=linked,
        baseline={"recipe_name": "plain"} if "plain" in recipes else {},
    )


def read(given, **notes):
    return read_audit(given, summarise(given, resamples=100), AuditNotes(names=NAMES, classes=5, **notes))


@pytest.fixture(scope="module")
def audit():
    return read(data(), recipe="mine", planned={"fixed": 9.0, "plain": 8.0})


def test_attacks_then_controls_each_from_the_strongest(audit):
    assert [one.attack for one in audit.reached] == ["rlb", "ppa", "brep", "chosen", "random"]
    assert [one.leak for one in audit.reached] == pytest.approx([0.6, 0.5, 0.3, 0.2, 0.05])
    assert {level: one.attack for level, one in audit.by_access().items()} == {
        "labels": "brep",
        "scores": "rlb",
        "gradients": "rlb",
    }
    assert audit.strongest.attack == "rlb" and audit.chance == 1 / 5 and audit.classes == 5
    assert audit.test_acc == pytest.approx(0.9 + 0.001 * np.mean(SEEDS))
    assert audit.ceiling == pytest.approx(0.9 + 0.01 * np.mean(SEEDS))


def test_what_an_attack_takes_is_the_mean_over_its_seeds_by_person_on_all_devices(audit):
    """Parts and attack; neither the target's training nor the judges."""
    for at, attack in enumerate(ATTACKS):
        (one,) = [one for one in audit.reached if one.attack == attack]
        assert one.seconds == pytest.approx(np.mean([30.0 * (at + 1) + 1.5 * seed for seed in SEEDS]) / len(PEOPLE))
        queries = None if attack == "random" else 10.0 * np.mean(SEEDS)
        assert one.queries == (queries if queries is None else pytest.approx(queries)) and one.seeds == 3


def test_people_stand_by_what_the_strongest_attack_reaches_over_all_seeds(audit):
    by_place = np.mean([rates("mine", "rlb", seed) for seed in SEEDS], axis=0)
    wanted = sorted(zip(PEOPLE, by_place, strict=True), key=lambda one: -one[1])
    assert [(one.label, one.name) for one in audit.people] == [(label, NAMES[label]) for label, _ in wanted]
    assert [one.share for one in audit.people] == pytest.approx([share for _, share in wanted])
    assert audit.matched == 4


@pytest.mark.parametrize(("shares", "matched"), [([0.5, 0.5, 0.49, 0.0], 2), ([0.499] * 4, 0), ([1.0] * 4, 4)])
def test_half_of_the_reconstructions_match_and_of_two_alike_the_first_label_comes_first(shares, matched):
    given = data(("mine",))
    hits = given.per_class["class"].map(dict(zip(PEOPLE, shares, strict=True)))
    found = read(ReportData(**{**vars(given), "per_class": given.per_class.assign(embedder_acc1=hits)}))
    by_label = dict(zip(PEOPLE, shares, strict=True))
    assert [one.label for one in found.people] == sorted(PEOPLE, key=lambda label: (-by_label[label], label))
    assert found.matched == matched


def test_beyond_the_control_is_paired_by_seed_and_person_and_corrected_for_the_attacks(audit):
    sides = {
        attack: np.stack([rates("mine", attack, seed)[np.argsort(PEOPLE)] for seed in SEEDS])
        for attack in ("rlb", "chosen")
    }
    (pair,) = compare_recipes(sides, among=3, span=1.0).pairs
    found = (audit.beyond.difference, audit.beyond.low, audit.beyond.high, audit.beyond.n)
    assert found == pytest.approx((0.4, pair.low, pair.high, 3))
    without = read(data(attacks=("ppa", "rlb", "brep")), recipe="mine")
    assert without.beyond.n == 0 and np.isnan(without.beyond.difference) and without.controls == ()


def test_every_recipe_stands_under_its_own_strongest_attack_beside_the_reference(audit):
    """The signs: mine leaks .1 less than plain does, and is .1 more accurate."""
    assert [(one.recipe, one.role, one.reached.attack) for one in audit.beside] == [
        ("mine", "model", "rlb"),
        ("plain", "reference", "ppa"),
        ("fixed", "fix", "brep"),
    ]
    assert audit.reference.leak is None
    assert [one.leak.reduction for one in (audit.model, *audit.fixes)] == pytest.approx([0.1, 0.45])
    assert [one.accuracy.difference for one in audit.beside] == pytest.approx([0.1, np.nan, -0.1], nan_ok=True)
    assert [one.test_acc for one in audit.beside] == pytest.approx(
        [one + 0.001 * np.mean(SEEDS) for one in ACCURACY.values()]
    )
    assert (audit.model.recipe, audit.reference.recipe, [one.recipe for one in audit.fixes]) == (
        "mine",
        "plain",
        ["fixed"],
    )
    assert [one.planned_s for one in audit.beside] == [None, 8.0, 9.0]


def test_what_was_trained_beside_took_its_own_stages_once_each_on_all_devices(audit):
    training = 2 * sum(100.0 + seed for seed in SEEDS)
    # A pool has one path for all attacks of a recipe and seed: of those that share it the last counts.
    pools, attacks = 3 * 3 * 10.0 * len(ATTACKS), len(ATTACKS) * sum(1.5 * seed for seed in SEEDS)
    judging = 7.0 * len(ATTACKS) * len(SEEDS)
    for one in (audit.reference, *audit.fixes):
        assert one.training_s == training and one.attacking_s == pytest.approx(pools + attacks + judging)
    assert (audit.model.training_s, audit.model.attacking_s) == (None, None)


def test_without_a_reference_or_company_nothing_stands_beside():
    assert read(data(("mine",))).beside == () and read(data(("mine", "fixed")), recipe="mine").beside == ()
    alone = read(data(("mine",)), recipe=None)
    assert alone.strongest.attack == "rlb" and alone.model is None and alone.reference is None and alone.fixes == ()


def test_of_controls_alone_there_is_an_audit_without_an_attack_and_of_another_recipe_none():
    found = read(data(("mine",), attacks=CONTROLS))
    assert found.attacks == () and {one.attack for one in found.controls} == set(CONTROLS)
    assert read(data(), recipe="a recipe of nobody") is None
