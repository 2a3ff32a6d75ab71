"""A noise-aware search: few seeds first, more where the frontier is unclear, and what the records tell of them."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from smoothsweep.core.metrics.frontier import hypervolume
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.search.noise_aware import (
    NoiseModel,
    SeenTrials,
    TriedRecipe,
    expected_gains,
    first_shares,
    gains,
    new_recipes,
)
from smoothsweep.orchestrator.search.setup import Aims, Setup, Wait, place, strategy
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.space import Dimension, make_space
from tests.orchestrator.search.made import ALPHA, load, work_off

SEARCH = {"strategy": "noise_aware", "recipes": 10, "in_flight": 2}
LEVELS = tuple(round(0.05 * index, 2) for index in range(21))


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    folder = tmp_path_factory.mktemp("noise_aware")
    loaded, store = load(folder, SEARCH, baseline={ALPHA: 0.0}), Store(root=folder / "store")
    agenda, ended = work_off(loaded, store)
    return loaded, store, agenda, ended


def test_recipes_meet_one_seed_first_and_more_where_they_may_count(searched):
    loaded, store, agenda, ended = searched
    first = [one for one in agenda.proposals if one.of is None]
    more = [one for one in agenda.proposals if one.of is not None]
    assert (first[0].origin, first[0].seeds) == ("baseline", None)  # compared with all others
    assert len(first) == 10 and {one.seeds for one in first[1:]} == {1} and agenda.ended_by == "recipes"
    assert 1 <= len(more) < 9 and {(one.origin, one.seeds) for one in more} == {("replication", None)}
    assert all(agenda.proposals[one.of].values == one.values and one.of < one.number for one in more)
    assert len({one.of for one in more}) == len(more)
    assert len({trial.id for trial in ended}) == len(ended) == 2 + 9 + len(more)  # no seed is run twice
    trials = trials_of(loaded, store)
    assert sorted(trial.id for trial in trials) == sorted(trial.id for trial in ended)
    phases = Counter(trial.phase for trial in trials)  # recipes of some seeds are not compared
    assert phases == {"sweep": 2 + 2 * len(more), "proxy": 9 - len(more)}


# ---- simulated spaces, where the truth is known


def setup_of(*dimensions, objectives, constraints=None, **changes):
    return Setup(
        space=make_space(dimensions),
        aims=Aims(objectives=objectives, constraints=constraints or {}),
        identity=lambda values: json.dumps(values, sort_keys=True),
        **changes,
    )


def simulated(value, *, seed, recipes, constraints=None, noise=0.05, seeds=2, objectives=None):
    """The proposals of a search over x in LEVELS whose trials are value(x) -> columns, and noise."""
    setup = setup_of(
        Dimension(key="x", choices=LEVELS),
        objectives=objectives or {"test_acc": "max", "embedder_acc1": "min"},
        constraints=constraints,
        seed=seed,
        recipes=recipes,
        lag=1,
        seeds=seeds,
    )
    propose, proposals, outcomes = strategy("noise_aware"), [], {}
    while (found := propose(setup, proposals, outcomes)) is not None:
        assert not isinstance(found, Wait)  # one after the other: all are settled
        proposals.append(found)
        by_seed = {}
        for one in range(found.seeds or seeds):
            random = np.random.default_rng([seed, round(100 * found.values["x"]), one])
            by_seed[one] = {key: v + noise * random.standard_normal() for key, v in value(found.values["x"]).items()}
        means = {key: float(np.mean([row[key] for row in by_seed.values()])) for key in by_seed[0]}
        outcomes[found.number] = setup.aims.outcome(means, by_seed)
    return proposals


def crossing(x):
    """From 0.5 on accuracy falls and leak no longer: what lies there is dominated by what lies at 0.5."""
    return {"test_acc": 0.9 - max(0.0, x - 0.5), "embedder_acc1": 0.6 - min(x, 0.5)}


def test_seeds_go_where_the_frontier_is():
    """Recipes that others beat by several times the noise stay with one seed; those on the frontier get the second."""
    met = {"near": [], "far": []}
    for seed in range(3):
        proposals = simulated(crossing, seed=seed, recipes=12, noise=0.02)
        more = {one.of for one in proposals}
        for one in proposals:
            if one.of is None and one.values["x"] != 0.5:
                side = "near" if 0.35 <= one.values["x"] <= 0.5 else "far" if one.values["x"] >= 0.75 else None
                met.get(side, []).append(one.number in more)
    assert np.mean(met["near"]) > 0.6 and np.mean(met["far"]) < 0.2


def seen(values, recipe, seed, places):
    places = np.asarray(places, dtype=float).reshape(len(places), -1)
    return SeenTrials(
        places=places,
        groups=np.arange(places.shape[1]),
        recipe=np.array(recipe),
        seed=np.array(seed),
        values=np.array(values, dtype=float),
    )


def test_the_posterior_is_that_of_conditioning_one_normal_distribution():
    given = seen([1.0, 1.4, 0.2, 0.9], [0, 0, 1, 2], [1, 2, 1, 2], [0.1, 0.5, 0.9])
    noise = np.array([0.05, 0.2, 0.1])
    model = NoiseModel(seen=given, lengths=np.array([0.4]), signal=1.3, noise=noise, seed=0.07, shift=0.5, scale=2.0)
    asked = np.array([[0.3], [0.9]])

    def kernel(a, b):
        gap = np.sqrt(5) * abs(a - b) / 0.4
        return 1.3 * (1 + gap + gap * gap / 3) * np.exp(-gap)

    at = [*asked[:, 0], *(given.places[row, 0] for row in given.recipe)]
    joint = np.array([[kernel(a, b) for b in at] for a in at])
    for i in range(4):
        joint[2 + i, 2 + i] += noise[given.recipe[i]]
        for j in range(4):
            joint[2 + i, 2 + j] += 0.07 * (given.seed[i] == given.seed[j])
    inverse = np.linalg.inv(joint[2:, 2:])
    mean = 0.5 + 2.0 * joint[:2, 2:] @ inverse @ ((given.values - 0.5) / 2.0)
    covariance = 4.0 * (joint[:2, :2] - joint[:2, 2:] @ inverse @ joint[2:, :2])
    found_mean, found_covariance = model.posterior(asked)
    assert found_mean == pytest.approx(mean) and found_covariance == pytest.approx(covariance)
    normals = np.random.default_rng(0).standard_normal((40_000, 2))
    drawn = model.draws(asked, normals)
    assert drawn.mean(axis=0) == pytest.approx(mean, abs=0.03)
    assert np.cov(drawn.T) == pytest.approx(covariance, abs=0.05)


@pytest.mark.parametrize(("objectives", "seed"), [(2, 0), (2, 1), (3, 2), (3, 3)])
def test_a_gain_is_a_difference_of_hypervolumes(objectives, seed):
    random = np.random.default_rng(seed)
    front, candidates = random.random((6, objectives)), 1.2 * random.random((9, objectives))
    reference, ways = np.full(objectives, 0.9), ["min"] * objectives
    before = hypervolume(front, reference, ways)
    after = [hypervolume(np.vstack([front, one]), reference, ways) for one in candidates]
    assert gains(front, candidates, reference) == pytest.approx(np.array(after) - before, abs=1e-12)
    alone = [hypervolume(one[None], reference, ways) for one in candidates]
    assert gains(front[:0], candidates, reference) == pytest.approx(np.array(alone), abs=1e-12)


def test_expected_gains_are_means_over_draws_of_what_counts_in_each():
    candidates = np.array([[0.1], [0.5], [2.0]])
    assert gains(np.array([[0.4], [0.6]]), candidates, np.array([1.0])) == pytest.approx([0.3, 0.0, 0.0])
    reference = np.array([1.0, 1.0])
    lucky = np.array([[[0.2, 0.2]], [[0.8, 0.8]]])  # in the first draw
    all_count = np.ones((2, 1), dtype=bool)
    found = expected_gains(lucky, all_count, np.array([[[0.5, 0.5]], [[0.5, 0.5]]]), all_count, reference)
    assert found == pytest.approx([(0.0 + 0.25 - 0.04) / 2])
    met = expected_gains(
        np.array([[[0.2, 0.2]], [[0.2, 0.2]]]),
        np.array([[False], [True]]),
        np.array([[[0.5, 0.5], [0.1, 0.1]], [[0.5, 0.5], [0.1, 0.1]]]),
        np.array([[True, True], [True, False]]),
        reference,
    )
    assert met == pytest.approx([0.25 / 2, 0.81 / 2]), "what misses a constraint counts for nothing"


NAMES = Dimension(key="name", choices=("a", "b", "c"))
STEPS = Dimension(key="steps", low=0.0, high=1.0, step=0.25)
OF_B = Dimension(key="of_b", choices=(1, 2), when={"name": ("b",)})


def tried(setup, values):
    return TriedRecipe(
        number=0,
        values=values,
        positions=place(setup, values),
        seeds=1,
        of=2,
        by_seed={1: {"test_acc": 0.5}},
        is_open=False,
        has_failed=False,
    )


@pytest.mark.parametrize("count", [1, 4, 7])
def test_the_first_design_holds_both_ends_and_every_level_once(count):
    shares = first_shares(count, 3, np.empty((0, 3)), 3)
    levels = np.linspace(0, 1, count) if count > 1 else [0.5]
    assert all(sorted(column) == pytest.approx(levels) for column in shares.T)


def test_a_small_space_is_compared_as_a_whole_but_for_what_was_tried():
    setup = setup_of(NAMES, STEPS, OF_B, objectives={"test_acc": "max"})
    known = [tried(setup, {"name": "a", "steps": 0.5}), tried(setup, {"name": "b", "steps": 0.25, "of_b": 2})]
    found = new_recipes(setup, known, number=2)
    assert len(found) == 5 * (1 + 2 + 1) - 2 and all(one.values not in found for one in known)
