"""A noise-aware search: few seeds first, more where the frontier is unclear, and what the records tell of them."""

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from made import ALPHA, KIND, load, work_off

from smoothsweep.orchestrator.planning.proposals import Proposal
from smoothsweep.orchestrator.planning.trials import trials_of
from smoothsweep.orchestrator.search.shared.outcomes import Aims
from smoothsweep.orchestrator.search.shared.places import place
from smoothsweep.orchestrator.search.shared.setup import Setup, Wait, strategy
from smoothsweep.orchestrator.search.strategies.noise.tried import tried_recipes
from smoothsweep.orchestrator.search.strategies.noise_aware import expected_worth
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.search import Constraint
from smoothsweep.sweeps.space import Dimension, make_space

SEARCH = {"strategy": "noise_aware", "recipes": 10, "in_flight": 2}
LEVELS = tuple(round(0.05 * index, 2) for index in range(21))


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    folder = tmp_path_factory.mktemp("noise_aware")
    loaded, store = load(folder, SEARCH, baseline={ALPHA: 0.0}), Store(root=folder / "store")
    agenda, ended = work_off(loaded, store)
    return loaded, store, agenda, ended


def test_recipes_meet_one_seed_first_and_more_where_they_may_count(searched):
    _, _, agenda, ended = searched
    first = [one for one in agenda.proposals if one.of is None]
    more = [one for one in agenda.proposals if one.of is not None]
    assert (first[0].origin, first[0].seeds) == ("baseline", None)  # compared with all others
    assert len(first) == 10 and {one.seeds for one in first[1:]} == {1} and agenda.ended_by == "recipes"
    assert 1 <= len(more) < 9 and {(one.origin, one.seeds) for one in more} == {("replication", None)}
    assert all(agenda.proposals[one.of].values == one.values and one.of < one.number for one in more)
    assert len({one.of for one in more}) == len(more)
    assert len({trial.id for trial in ended}) == len(ended) == 2 + 9 + len(more)  # no seed is run twice


def test_each_trial_is_there_once_and_recipes_of_some_seeds_are_not_compared(searched):
    loaded, store, agenda, ended = searched
    trials = trials_of(loaded, store)
    assert sorted(trial.id for trial in trials) == sorted(trial.id for trial in ended)
    phases = Counter(trial.phase for trial in trials)
    more = sum(one.of is not None for one in agenda.proposals)
    assert phases == {"sweep": 2 + 2 * more, "proxy": 9 - more}


def test_failed_recipes_get_no_more_seeds(tmp_path):
    loaded, store = load(tmp_path, SEARCH), Store(root=tmp_path / "store")
    agenda, _ = work_off(loaded, store, fails=lambda trial: trial.cell.values[KIND] == "ramp")
    failed = {one.number for one in agenda.proposals if one.values[KIND] == "ramp"}
    assert failed and not failed & {one.of for one in agenda.proposals}
    assert sum(one.of is None for one in agenda.proposals) == 10


# ---- simulated spaces, where the truth is known


def simulated(value, *, seed, recipes, constraints=None, noise=0.05, in_flight=1, seeds=2, objectives=None):
    """The proposals of a search over x in LEVELS whose trials are value(x) -> columns, and noise."""
    setup = Setup(
        space=make_space([Dimension(key="x", choices=LEVELS)]),
        seed=seed,
        recipes=recipes,
        lag=in_flight,
        seeds=seeds,
        aims=Aims(objectives=objectives or {"test_acc": "max", "embedder_acc1": "min"}, constraints=constraints or {}),
        identity=lambda values: json.dumps(values, sort_keys=True),
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
    for seed in range(4):
        proposals = simulated(crossing, seed=seed, recipes=12, noise=0.02)
        more = {one.of for one in proposals}
        for one in proposals:
            if one.of is None and one.values["x"] != 0.5:
                side = "near" if 0.35 <= one.values["x"] <= 0.5 else "far" if one.values["x"] >= 0.75 else None
                met.get(side, []).append(one.number in more)
    assert np.mean(met["near"]) > 0.6 and np.mean(met["far"]) < 0.2


def test_the_search_finds_the_best_of_a_noisy_objective():
    best = []
    for seed in range(4):
        proposals = simulated(
            lambda x: {"test_acc": 1 - 4 * (x - 0.7) ** 2}, seed=seed, recipes=9, objectives={"test_acc": "max"}
        )
        full = [one.values["x"] for one in proposals if one.seeds is None]
        best.append(min((abs(x - 0.7) for x in full), default=1.0))
    assert max(best) <= 0.15


def test_what_misses_a_constraint_gets_few_seeds():
    """Leak falls with x, and accuracy with it: above 0.5 it misses the constraint, by far above 0.75."""

    def value(x):
        return {"embedder_acc1": 1 - x, "test_acc": 0.9 - 0.8 * x}

    counts = Counter()
    for seed in range(3):
        proposals = simulated(
            value,
            seed=seed,
            recipes=10,
            noise=0.02,
            objectives={"embedder_acc1": "min"},
            constraints={"test_acc": Constraint(at_least=0.5)},
        )
        counts.update(one.values["x"] > 0.75 for one in proposals if one.of is not None)
        assert max(one.values["x"] for one in proposals if one.seeds is None) >= 0.35
    assert counts[True] == 0 and counts[False] >= 3


@pytest.mark.parametrize("seed", range(3))
def test_what_is_in_flight_counts_as_what_it_may_turn_out_to_be(seed):
    """Beside a recipe in flight its neighbours promise less than they do without it."""
    setup = Setup(
        space=make_space([Dimension(key="x", choices=LEVELS)]),
        seed=seed,
        seeds=2,
        aims=Aims(objectives={"test_acc": "max", "embedder_acc1": "min"}),
        identity=lambda values: str(values["x"]),
    )
    ran = [Proposal(number=number, values={"x": x}) for number, x in enumerate((0.0, 0.1, 0.8, 0.9, 1.0))]
    outcomes = {one.number: setup.aims.outcome(row := crossing(one.values["x"]), {1: row, 2: row}) for one in ran}
    flying = [*ran, Proposal(number=5, values={"x": 0.45}, seeds=1)]
    asked = [place(setup, {"x": 0.5}), place(setup, {"x": 0.4})]
    known = [tried_recipes(setup, proposals, outcomes, visible=5) for proposals in (ran, flying)]
    alone, beside = (expected_worth(setup, one, asked, 9) for one in known)
    assert (beside < 0.6 * alone).all() and (alone > 0).all()
