"""Every strategy by what it declares, proposes next and refuses, and what is known of it afterwards."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.metrics.frontier import hypervolume
from smoothsweep.orchestrator.planning.trial import PROPOSALS, Proposal, ProposalLog, trials_of
from smoothsweep.orchestrator.search.agenda import Agenda, search_setup, write_end
from smoothsweep.orchestrator.search.noise_aware import (
    NoiseModel,
    SeenTrials,
    gains,
)
from smoothsweep.orchestrator.search.record import importances, search_view
from smoothsweep.orchestrator.search.setup import (
    Aims,
    Setup,
    Wait,
    ordered,
    propose_halving,
    survivors,
    worst_by_seed,
)
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.search import STRATEGIES, Constraint, Rung
from smoothsweep.sweeps.space import Dimension, make_space
from tests.orchestrator.search.made import ALPHA, KIND, SPACE, START, finish, load, work_off

OWN = {key for kind in STRATEGIES.values() for key in kind.own}
GIVEN = {
    "sampler": "tpe",
    "rungs": [{"keep": 0.5, "set": {"attack.steps": 2}}],
    "audit": 1,
    "first_seeds": 1,
}
"""A value of each key that belongs to a strategy."""
BASELINE = {"recipe.defense.alpha": 0.0}
FINITE = {**SPACE, "recipe.defense.alpha": {"choices": [-0.5, -0.1, 0.3]}}


def asked(name, **changes):
    """`search` of a sweep file with this strategy, as small as it may be."""
    kind = STRATEGIES[name]
    given = {"strategy": name, "recipes": 6, "seed": 3, **{key: GIVEN[key] for key in kind.needs}}
    space = {"space": FINITE} if kind.whole_space else {}
    return {**{key: value for key, value in given.items() if key not in kind.without}, **space, **changes}


def made(folder, name, **changes):
    loaded = load(folder, asked(name, **changes), seeds=[1, 2], baseline=BASELINE)
    return loaded, Store(root=folder / "store")


@pytest.mark.parametrize("name", STRATEGIES)
def test_it_tries_the_baseline_first_and_then_recipes_of_the_space_each_once(name, tmp_path):
    loaded, store = made(tmp_path, name)
    store.open_for_writing()
    agenda, ended = work_off(loaded, store)
    proposals = agenda.proposals
    assert ended and proposals[0].origin == "baseline"
    new = [one for one in proposals if one.of is None]
    assert len({tuple(sorted(one.values.items())) for one in new}) == len(new) > 1
    space = loaded.sweep.search.dimensions
    assert all(set(one.values) <= set(space.keys) for one in new[1:])
    assert STRATEGIES[name].whole_space or len(new) <= 6


@pytest.mark.parametrize("name", STRATEGIES)
def test_killed_in_the_middle_it_proposes_what_it_would_have(name, tmp_path):
    """Another process, with what the store has; trials end in another order, and none is run twice."""
    found = []
    for folder, stop in (("whole", None), ("stopped", 3)):
        loaded, store = made(tmp_path / folder, name)
        store.open_for_writing()
        agenda, done = work_off(loaded, store, shuffle=1, stop_after=stop)
        if stop is not None:
            done += work_off(loaded, store, shuffle=2, stop_after=4)[1]
            agenda, last = work_off(loaded, store, shuffle=5)
            done += last
        assert len({trial.id for trial in done}) == len(done) == len(trials_of(loaded, store))
        found.append([(one.number, one.values, one.rung, one.origin, one.of, one.seeds) for one in agenda.proposals])
    assert found[0] == found[1] and len(found[0]) > 3


@pytest.mark.parametrize("name", STRATEGIES)
def test_keys_of_other_strategies_and_missing_ones_are_one_line(name, tmp_path):
    kind = STRATEGIES[name]
    others = {key: GIVEN[key] for key in OWN if key not in kind.own}
    useless = {key: 3 for key in kind.without}
    missing = {key: None if key == "recipes" else () for key in {*kind.needs, *({"recipes"} - set(kind.without))}}
    for key, value in {**others, **useless, **missing}.items():
        with pytest.raises(InputError, match=rf"search.*{key}: expected .* strategy") as caught:
            made(tmp_path, name, **{key: value})
        assert "\n" not in str(caught.value)
    if kind.whole_space:
        with pytest.raises(InputError, match="expected choices or a step with strategy"):
            made(tmp_path, name, space={"recipe.defense.alpha": {"low": -0.5, "high": 0.3}})


WAYS = {"test_acc": "max", "leak": "min"}
AIMS = Aims(objectives=WAYS, constraints={"test_acc": Constraint(at_least=0.5)})
points = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12)


@given(points)
def test_a_point_that_is_beaten_comes_after_what_beats_it(given_points):
    matrix = np.array(given_points, dtype=float)
    order = ordered(matrix, ["max", "min"])
    assert sorted(order) == list(range(len(matrix)))
    for place, index in enumerate(order):
        later = matrix[order[place + 1 :]]
        beats = (later[:, 0] >= matrix[index, 0]) & (later[:, 1] <= matrix[index, 1])
        assert (later[beats] == matrix[index]).all()


def through(found, count):
    """The numbers of those that survive, of this many at most."""
    entered = [Proposal(number=number, values={}, rung=0) for number in found]
    return [one.number for one in survivors(setup(keep=count / max(1, len(found))), entered, found, 0)]


def setup(keep=0.5, audit=1, recipes=4):
    return Setup(
        space=make_space([Dimension(key=ALPHA, low=0, high=100, step=1)]),
        aims=AIMS,
        identity=repr,
        recipes=recipes,
        rungs=(Rung(keep=keep, set={"attack.steps": 1}),),
        audit=audit,
    )


@given(keep=st.floats(0.05, 0.95), count=st.integers(1, 12))
def test_the_share_that_survives_is_rounded_up_and_never_nothing(keep, count):
    one = setup(keep=keep)
    entered = [Proposal(number=n, values={ALPHA: float(n)}, rung=0) for n in range(count)]
    found = {n: AIMS.outcome({"test_acc": 0.6 + n / 100, "leak": n / 100}) for n in range(count)}
    through = survivors(one, entered, found, 0)
    assert 1 <= len(through) <= count and keep * count - 1e-6 <= len(through) < keep * count + 1


RUNGS = [{"keep": 0.5, "set": {"attack.steps": 1, "classes": [0, 1]}}, {"keep": 0.5, "set": {"attack.steps": 2}}]
HALVING = {"strategy": "halving", "recipes": 8, "audit": 2, "rungs": RUNGS}


def test_the_record_tells_what_is_known(tmp_path):
    constraints = {"test_acc": {"at_least": 0.9}}
    loaded = load(tmp_path, {**HALVING, "constraints": constraints}, budget={"device_hours": 2.0})
    store = Store(root=tmp_path / "store")
    agenda, _ = work_off(loaded, store)
    write_end(ProposalLog(loaded, store), agenda.ended_by)
    record = search_view(loaded, store, str)
    assert (record.strategy, record.stopped_by, record.asked) == ("halving", "recipes", 8)
    rungs = [[p for p in record.proposals if p.rung == rung] for rung in (0, 1, None)]
    assert len(rungs[0]) == 8 and sum(p.kept for p in rungs[0]) == len(rungs[1]) <= 4
    assert sum(p.audited for p in rungs[2]) == 2 and all(p.kept is None for p in rungs[2])
    assert {p.status for p in record.proposals} == {"done"}
    first = record.proposals[0]
    assert set(first.values) <= {"alpha", "kind", "start"} and set(first.objectives) == {"test_acc", "embedder_acc1"}
    assert first.feasible == (first.objectives["test_acc"] >= 0.9)
    # a target is trained once for all rungs: only the first proposal of a recipe pays for it
    assert all(p.device_hours < rungs[0][1].device_hours for p in rungs[1])
    phases = [trial.phase for trial in trials_of(loaded, store)]
    assert phases.count("sweep") == 2 * len(rungs[2]) and phases.count("proxy") == 2 * (8 + len(rungs[1]))


@pytest.fixture
def loaded(tmp_path):
    return load(tmp_path, HALVING)


def tried(values, accuracy, leak):
    return values, {"test_acc": accuracy, "embedder_acc1": leak}


def drawn(count):
    """Leak follows alpha; accuracy follows when a ramp begins, which half of the recipes have, about a middle."""
    random, made = np.random.default_rng(3), []
    for number in range(count):
        alpha = round(float(random.choice(np.arange(-0.4, 0.11, 0.05))), 2)
        values = {ALPHA: alpha, KIND: "constant"}
        if number % 2:
            values = {ALPHA: alpha, KIND: "ramp", START: round(float(random.choice(np.arange(0, 0.71, 0.1))), 1)}
        accuracy = 0.9 - 0.2 * (values.get(START, 0.35) - 0.35)
        made.append(tried(values, accuracy, 0.5 + alpha))
    return made


def test_the_parameter_that_decides_comes_first_and_the_shares_are_a_whole(loaded, tmp_path):
    setup = search_setup(ProposalLog(loaded, Store(root=tmp_path)))
    accuracy, leak = importances(setup, drawn(40))
    assert leak.objective == "embedder_acc1" and leak.recipes == 40
    assert leak.shares[0][0] == ALPHA and leak.shares[0][1] > 0.9
    assert accuracy.shares[0][0] == START and accuracy.shares[0][1] > 0.6
    for one in (accuracy, leak):
        assert sum(share for _, share in one.shares) == pytest.approx(1.0)
        assert {key for key, _ in one.shares} == {ALPHA, KIND, START}
    assert importances(setup, drawn(12)) == importances(setup, drawn(12))


SEARCH = {"strategy": "noise_aware", "recipes": 10, "in_flight": 2}


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


OPTUNA = {"strategy": "optuna", "recipes": 6, "in_flight": 3}  # four to start with, two that the model chooses
RANDOM = {"strategy": "random", "recipes": 14}


def outcomes(*pairs):
    return {number: AIMS.outcome({"test_acc": acc, "leak": leak}) for number, (acc, leak) in enumerate(pairs)}


def proposed(loaded, store):
    return [(p.number, p.values, p.rung, p.origin) for p in ProposalLog(loaded, store).proposals()]


def test_halving_step_by_step():
    one, proposals, found = setup(), [], {}
    for _ in range(4):
        proposals.append(propose_halving(one, proposals, found))
    assert [(p.number, p.rung) for p in proposals] == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert isinstance(propose_halving(one, proposals, found), Wait)
    found = outcomes((0.9, 0.9), (0.8, 0.95), (0.7, 0.97), (0.6, 0.1))
    for _ in range(3):
        proposals.append(propose_halving(one, proposals, found))
    assert [(p.rung, p.origin, p.of) for p in proposals[4:6]] == [(None, "survivor", 0), (None, "survivor", 3)]
    assert (proposals[6].origin, proposals[6].rung) == ("audit", None) and proposals[6].of in (1, 2)
    assert [p.values for p in proposals[4:]] == [proposals[p.of].values for p in proposals[4:]]
    assert propose_halving(one, proposals, found) is None


def test_proposals_use_outcomes_up_to_the_lag_and_no_more(tmp_path):
    loaded, store = load(tmp_path, OPTUNA), Store(root=tmp_path / "store")
    agenda = Agenda(ProposalLog(loaded, store))
    agenda.begin()
    opened = [agenda.next() for _ in range(6)]  # three recipes under two seeds
    assert isinstance(agenda.next(), Wait) and len(agenda.proposals) == 3
    for trial in opened[2:]:  # all but the first recipe: the next one is still not made
        finish(store, trial)
        agenda.ended(trial, None)
    assert isinstance(agenda.next(), Wait)
    for trial in opened[:2]:
        finish(store, trial)
        agenda.ended(trial, None)
    assert not isinstance(agenda.next(), Wait) and len(agenda.proposals) == 4


def test_the_best_are_of_the_first_front_its_ends_before_its_middle():
    found = outcomes((0.9, 0.9), (0.8, 0.5), (0.7, 0.4), (0.6, 0.1), (0.6, 0.5))
    assert through(found, 2) == [0, 3]
    assert through(found, 4) == [0, 3, 1, 2]


def test_under_a_seed_the_worst_attack_counts():
    rows = [(1, {"x": 0.2}), (1, {"x": 0.6}), (2, {"x": 0.4}), (2, {"x": 0.1})]
    assert worst_by_seed(rows, "x", "min") == {1: 0.6, 2: 0.4}
    assert worst_by_seed(rows, "x", "max") == {1: 0.2, 2: 0.1}  # a distance: small is the attacker's
    assert worst_by_seed([*rows, (2, {"x": None})], "x", "min") == {}
    assert worst_by_seed([*rows, (2, {"x": float("nan")})], "x", "min") == {}


def test_another_search_under_the_same_name_starts_anew_and_keeps_the_old_proposals(tmp_path):
    store = Store(root=tmp_path / "store")
    work_off(load(tmp_path, RANDOM), store)
    changed = load(tmp_path, {**RANDOM, "space": {**SPACE, ALPHA: {"low": -1.0, "high": 0.3, "step": 0.05}}})
    assert trials_of(changed, store) == []
    agenda = Agenda(ProposalLog(changed, store))
    agenda.begin()
    kind, said = agenda.news.popleft()
    assert kind == "say" and "the search has changed: its 14 earlier proposals lie in search/proposals-" in said
    folder = store.sweep_folder("made") / "search"
    assert len(list(folder.glob("proposals-*.jsonl"))) == 1
    assert len((store.sweep_folder("made") / PROPOSALS).read_text().splitlines()) == 2  # its seal, its head
