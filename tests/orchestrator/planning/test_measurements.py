"""What is known of a stage's cost from the stages of a store, and how much of it is read."""

import math

import pytest
from tiny import write_tiny

from benchmarks.sleeping import Sleep
from smoothsweep.orchestrator.planning.costs import READ_AT_MOST, History
from smoothsweep.orchestrator.planning.plan import make_plan, plan_summary
from smoothsweep.orchestrator.planning.proposals import trials_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from tests.orchestrator.planning.measured_stages import everything_of, pretend


def forecast_of(store, sweep, change, name):
    trial = trials_of(load_sweep(sweep, [change]))[0]
    stage = next(s for s in everything_of([trial]) if s.name == name)
    return History(store).expected(stage)


@pytest.mark.parametrize(
    ("name", "alike", "other"),
    [
        ("target", "recipe.defense.alpha=0.3", "data.train_per_class=9"),
        ("target", "recipe.lr=0.3", "recipe.epochs=3"),
        ("target", "seeds=[5]", 'recipe.defense={"kind": "random_erasing"}'),
        ("attack", "recipe.epochs=3", "recipe.architecture=resnet18"),
        ("attack", "attack.lr=0.1", "prior.components=11"),
        ("attack", "classes=[0, 1, 2, 3]", "classes=[0, 1]"),
    ],
)
def test_what_a_stage_reads_counts_for_its_cost(name, alike, other, tmp_path):
    changes = {"classes": [0, 1, 2, 3], "grid": {}, "baseline": {}}
    sweep, store = write_tiny(tmp_path, **changes), Store(root=tmp_path / "store")
    for stage in everything_of(trials_of(load_sweep(sweep))):
        pretend(store, stage, 7.0)
    assert forecast_of(store, sweep, alike, name) == (7.0, 7.0, 7.0)
    assert forecast_of(store, sweep, other, name) is None


def test_measurements_outlive_their_inputs(tmp_path):
    """Inputs of finished stages may be deleted; what reading them cost is still known."""
    store = Store(root=tmp_path / "store")
    trials = trials_of(load_sweep(write_tiny(tmp_path)))
    pretend(store, trials[0].stages[2], 9.0)
    row = plan_summary(make_plan(trials, store))["by_stage"]["attack"]
    assert (row["cached"], row["to_run"], row["device_hours"]) == (1, 1, 9.0 / 3600)


def test_damaged_and_unfinished_manifests_are_measurements_less(tmp_path):
    store = Store(root=tmp_path / "store")
    stages = [Sleep(config={"classes": n, "seconds": 0}) for n in range(4)]
    for stage, seconds in zip(stages, (1.0, 3.0, 5.0, 7.0), strict=True):
        pretend(store, stage, seconds)
    (store.place(stages[2]) / "manifest.json").write_text("{")
    (store.place(stages[3]) / "manifest.json").unlink()
    assert History(store).expected(stages[0]) == (2.0, 1.0, 3.0)


def test_only_the_newest_measurements_are_read(tmp_path):
    import os

    store = Store(root=tmp_path / "store")
    for n in range(READ_AT_MOST + 3):
        stage = Sleep(config={"classes": n})
        pretend(store, stage, n)
        os.utime(store.place(stage) / "manifest.json", (1000 + n, 1000 + n))
    mean, least, most = History(store).expected(Sleep(config={}))
    assert (least, most) == (3.0, READ_AT_MOST + 2.0) and math.isclose(mean, (least + most) / 2)
