"""What is counted, what is kept, when it is enough, and what is refused before it starts."""

import json

import pytest

from smoothsweep.orchestrator.commands.plan import plan_text
from smoothsweep.orchestrator.planning.plan import make_plan, plan_summary
from smoothsweep.orchestrator.planning.trial import ProposalLog, recipe_of, trials_of
from smoothsweep.orchestrator.search import agenda
from smoothsweep.orchestrator.search.agenda import Agenda, Meter, forecast_of, spent
from smoothsweep.orchestrator.search.record import frontier_recipes
from smoothsweep.orchestrator.stages.stage import with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.search import Budget
from tests.orchestrator.search.made import ALPHA, finish, load, work_off

RANDOM = {"strategy": "random", "recipes": 6}


def snapshot(running=(), ended=()):
    return {
        "running": [{"stage": kind, "fingerprint": "f", "device_seconds": s} for kind, s in running],
        "events": [{"what": "work", "stage": kind, "fingerprint": "f", "device_seconds": s} for kind, s in ended],
    }


def test_device_time_of_what_runs_and_what_has_ended_counts(tmp_path):
    meter = Meter(Store(root=tmp_path), "s", Budget(device_hours=0.1))
    meter.update(snapshot(running=[("target", 100.0)]))
    meter.update(snapshot(running=[("target", 150.0), ("attack", 20.0)]))
    assert meter.device_s == 170.0 and meter.exceeded() is None
    meter.update(snapshot(running=[("attack", 140.0)], ended=[("target", 220.0)]))
    assert meter.device_s == 360.0 and meter.exceeded() == "0.1 of 0.1 device-hours"
    assert Meter(Store(root=tmp_path), "other", None).exceeded(0.9) is None
    meter = Meter(Store(root=tmp_path), "reserved", Budget(device_hours=0.1))
    meter.update(snapshot(ended=[("target", 290.0)]))
    assert meter.exceeded(0.2) == "0.0806 of 0.1 device-hours" and meter.exceeded() is None


def test_a_killed_run_loses_nothing_that_was_noted(tmp_path):
    store = Store(root=tmp_path)
    first = Meter(store, "s", None)
    first.update(snapshot(running=[("target", 30.0)], ended=[("data", 5.0)]))
    first.save()
    first.update(snapshot(running=[("target", 40.0)]))
    first.save()  # and here it is killed
    second = Meter(store, "s", Budget(device_hours=50 / 3600))
    assert second.device_s == 45.0
    second.update(snapshot(ended=[("target", 10.0)]))
    second.save()
    assert second.exceeded() and spent(store, "s")[0] == 55.0
    notes = [path for path in (store.sweep_folder("s") / "spent").iterdir() if ".copy" not in path.name]
    lines = [json.loads(line) for path in notes for line in path.read_text().splitlines()[1:]]
    assert len(notes) == 2 and sum("wall_seconds" in line for line in lines) == 2


@pytest.fixture
def often(monkeypatch):
    """Every look at the notes of other drivers is taken at once."""
    monkeypatch.setattr(agenda, "LOOK_EVERY_S", 1e-9)


@pytest.mark.parametrize("drivers", [2, 3])
def test_what_all_drivers_of_a_sweep_spend_at_the_same_time_counts(tmp_path, often, drivers):
    """Two drivers once used 6,000 s, noted 3,000 and neither stopped at 3,600."""
    store, share = Store(root=tmp_path), 3000.0
    meters = [Meter(store, "s", Budget(device_hours=1.0)) for _ in range(drivers)]
    stopped = []
    for done in range(0, int(share) + 1, 100):
        for number, meter in enumerate(meters):
            meter.update(snapshot(running=[("target", float(done))]))
            meter.save()
            if meter.exceeded():
                stopped.append((done, number))
    first = {number: min(done for done, other in stopped if other == number) for number in range(drivers)}
    assert all(abs(done * drivers - 3600) <= 100 * drivers for done in first.values()), "each stops at the limit"
    assert spent(store, "s")[0] == drivers * share == meters[-1].device_s
    assert Meter(store, "s", None).device_s == drivers * share
    Meter(store, "another", None).save()
    assert spent(store, "another")[0] == 0.0


@pytest.mark.parametrize(
    ("runs", "expected"),
    [([(0, 10), (20, 5)], 15), ([(0, 10), (5, 10)], 15), ([(0, 100), (10, 5), (50, 100)], 150), ([(3, 4), (3, 4)], 4)],
)
def test_minutes_of_drivers_at_the_same_time_count_once(tmp_path, runs, expected):
    store = Store(root=tmp_path)
    for number, (began, seconds) in enumerate(runs):
        store.write_note("s", f"spent/{number}.jsonl", b'{"wall_seconds": %d, "began": %d}\n' % (seconds, began))
    by_seconds = sum(any(began <= at < began + long for began, long in runs) for at in range(200))
    assert spent(store, "s")[1] == by_seconds == expected


def measured(store: Store, trials, seconds: float) -> None:
    """Every stage of these trials, and all they are made from, took this long."""
    for stage in with_ancestors([stage for trial in trials for stage in trial.stages]):
        store.discard(stage)
        inputs = {name: {"stage": s.name, "fingerprint": s.fingerprint} for name, s in stage.inputs.items()}
        facts = {"metrics": {}, "seconds": seconds, "inputs": inputs}
        manifest = {**facts, "stage": stage.name, "config": dict(stage.config)}
        store.commit(stage, store.draft(stage), manifest)


def summary_of(loaded, store):
    return plan_summary(make_plan(trials_of(loaded, store), store, forecast_of(ProposalLog(loaded, store))))


def test_the_plan_of_a_search_says_what_may_come_and_counts_the_re_audit_until_its_recipes_are_known(tmp_path):
    store = Store(root=tmp_path / "store")
    loaded = load(tmp_path, RANDOM, reaudit={"seeds": [9], "recipes": 2}, budget={"device_hours": 1.0})
    measured(store, Agenda(ProposalLog(loaded, store)).preview(), 60.0)
    both = summary_of(loaded, store)
    assert "at most 2 recipes audited again: " in plan_text(both)
    work_off(loaded, store, stop_after=3)
    begun = summary_of(loaded, store)
    more = begun["search"]["at_most_more_recipes"]
    assert 0 < more == 6 - len(trials_of(loaded, store)) / 2
    assert begun["search"]["budget_device_hours_left"] == 1.0
    assert f"search: at most {more:.0f} more recipe" in plan_text(begun)
    work_off(loaded, store)
    left = summary_of(loaded, store)
    assert left["search"]["at_most_more_recipes"] == 0 and left["search"]["at_most_audited_again"] == 2
    assert 0 < left["device_hours"] < both["device_hours"]
    ProposalLog(loaded, store).write_reaudit([{"recipe.defense.alpha": 0.1}])
    known = summary_of(loaded, store)
    assert known["search"] is None and known["stages_to_run"] > 0


def test_the_frontier_is_audited_again_under_fresh_seeds(tmp_path):
    store = Store(root=tmp_path / "store")
    loaded = load(
        tmp_path,
        {**RANDOM, "recipes": 12, "constraints": {"test_acc": {"at_least": 0.85}}},
        reaudit={"seeds": [101, 102, 103], "recipes": 3},
    )
    work_off(loaded, store)
    assert ProposalLog(loaded, store).reaudit() is None
    main = trials_of(loaded, store)
    recipes = frontier_recipes(loaded, main, store)
    assert 1 <= len(recipes) <= 3
    ProposalLog(loaded, store).write_reaudit(recipes)
    trials = ProposalLog(loaded, store).reaudit_trials()
    assert len(trials) == 3 * len(recipes) and {t.seed for t in trials} == {101, 102, 103}
    assert {t.phase for t in trials} == {"reaudit"} and not {t.id for t in trials} & {t.id for t in main}
    assert {trial.cell.values[ALPHA] for trial in trials} == {recipe[ALPHA] for recipe in recipes}
    for trial in trials:
        finish(store, trial)
    assert frontier_recipes(loaded, trials_of(loaded, store), store) == recipes  # which does not look at the re-audit


def test_a_grid_is_audited_again_by_its_own_recipes(tmp_path):
    store = Store(root=tmp_path / "store")
    grid = {ALPHA: [-0.3, -0.1, 0.0], "attack.loss": ["poincare", "cross_entropy"]}
    loaded = load(tmp_path, {}, grid=grid, search=None, reaudit={"seeds": [7], "recipes": 2})
    for trial in trials_of(loaded, store):
        finish(store, trial, test_acc=0.9 + trial.cell.values[ALPHA], embedder_acc1=0.5 + trial.cell.values[ALPHA])
    recipes = frontier_recipes(loaded, trials_of(loaded, store), store)
    assert recipes == [{ALPHA: 0.0}, {ALPHA: -0.3}]  # the ends of a frontier of three
    ProposalLog(loaded, store).write_reaudit(recipes)
    trials = ProposalLog(loaded, store).reaudit_trials()
    assert [recipe_of(t.cell.values) for t in trials] == [{ALPHA: -0.3}] * 2 + [{ALPHA: 0.0}] * 2
    assert trials_of(loaded, store)[-4:] == trials
