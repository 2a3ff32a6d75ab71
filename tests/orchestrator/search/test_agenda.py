"""What a search does next: when it proposes, what it opens, how it ends, and what is known of it."""

from __future__ import annotations

import numpy as np
import pytest
from made import ALPHA, KIND, SPACE, START, finish, load, work_off

from smoothsweep.orchestrator.planning.trial import PROPOSALS, ProposalLog, trials_of
from smoothsweep.orchestrator.search.agenda import Agenda, write_end
from smoothsweep.orchestrator.search.record import importances, search_view
from smoothsweep.orchestrator.search.setup import Wait
from smoothsweep.orchestrator.store.base import Store

OPTUNA = {"strategy": "optuna", "recipes": 6, "in_flight": 3}  # four to start with, two that the model chooses
RANDOM = {"strategy": "random", "recipes": 14}
RUNGS = [{"keep": 0.5, "set": {"attack.steps": 1, "classes": [0, 1]}}, {"keep": 0.5, "set": {"attack.steps": 2}}]
HALVING = {"strategy": "halving", "recipes": 8, "audit": 2, "rungs": RUNGS}
SMALL_GRID = {"strategy": "grid", "space": {ALPHA: {"choices": [-0.2, 0.0]}, KIND: {"choices": ["constant", "ramp"]}}}


def proposed(loaded, store):
    return [(p.number, p.values, p.rung, p.origin) for p in ProposalLog(loaded, store).proposals()]


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


@pytest.mark.parametrize("strategy", ["random", "optuna", "noise_aware"])
def test_a_small_space_ends_when_it_is_exhausted(tmp_path, strategy):
    loaded = load(tmp_path, {**SMALL_GRID, "strategy": strategy, "recipes": 50})
    agenda, ended = work_off(loaded, Store(root=tmp_path / "store"))
    assert agenda.ended_by == "exhausted" and sum(proposal.of is None for proposal in agenda.proposals) == 3
    assert len({trial.id for trial in ended}) == len(ended)
    assert 3 <= len(ended) <= 6 if strategy == "noise_aware" else len(ended) == 6  # three recipes under two seeds


def test_failed_recipes_are_told_as_failed_and_the_search_goes_on(tmp_path):
    loaded, store = load(tmp_path, OPTUNA), Store(root=tmp_path / "store")
    agenda, _ = work_off(loaded, store, fails=lambda trial: trial.cell.values[KIND] == "ramp" and trial.seed == 2)
    failed = {p.number for p in agenda.proposals if p.values[KIND] == "ramp"}
    assert failed and {n for n, outcome in agenda.outcomes.items() if outcome.status == "failed"} == failed
    assert len(agenda.proposals) == OPTUNA["recipes"]


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


def test_the_parameter_that_decides_comes_first_and_the_shares_are_a_whole(loaded):
    accuracy, leak = importances(loaded, drawn(40))
    assert leak.objective == "embedder_acc1" and leak.recipes == 40
    assert leak.shares[0][0] == ALPHA and leak.shares[0][1] > 0.9
    assert accuracy.shares[0][0] == START and accuracy.shares[0][1] > 0.6
    for one in (accuracy, leak):
        assert sum(share for _, share in one.shares) == pytest.approx(1.0)
        assert {key for key, _ in one.shares} == {ALPHA, KIND, START}
    assert importances(loaded, drawn(12)) == importances(loaded, drawn(12))
