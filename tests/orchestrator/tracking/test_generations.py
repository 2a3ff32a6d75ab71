"""A sweep continued after a stage's version was raised: its earlier runs are kept, and not shown as the present."""

from dataclasses import replace

import pytest
from mlflow import MlflowClient

from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.running.recorder import open_recorder
from smoothsweep.orchestrator.tracking.recipes import recipe_id
from smoothsweep.tasks.registry import TASKS
from tests.dear import first_of

GRID = {"recipe.defense.alpha": [0.0, -0.2]}


def record(loaded, store, trials):
    recorder = open_recorder(loaded, store, None, models="none")
    for trial in trials:
        recorder.add(trial)
    recorder.finish()
    recorder.close([], failed=0)
    assert not recorder.unwritten, recorder.unwritten
    return recorder.remarks


def runs(uri):
    """Kind as the pages filter it -> fingerprints."""
    client = MlflowClient(uri, uri)
    found = {}
    for run in client.search_runs([client.get_experiment_by_name("tiny").experiment_id]):
        tags = run.data.tags
        own = tags.get("smoothsweep.recipe") or tags.get("smoothsweep.trial") or "sweep"
        found.setdefault(tags["smoothsweep.kind"], {})[own] = run
    return found


@pytest.mark.parametrize("kind", first_of(["judge_embedder", "target", "data"]))
def test_runs_of_an_earlier_version_are_retired_and_come_back_with_it(kind, load, store, uri, finished, monkeypatch):
    loaded = load(seeds=[1], grid=GRID)
    before = finished(loaded)
    assert record(loaded, store, before) == []
    names = {"trial": {trial.id for trial in before}, "recipe": set(map(recipe_id, before))}
    with monkeypatch.context() as raised:
        raised.setitem(TASKS, kind, replace(TASKS[kind], version=TASKS[kind].version + 1))
        later = load(seeds=[1], grid=GRID)
        after = finished(later)
        assert {trial.id for trial in after}.isdisjoint(trial.id for trial in before)
        remarks = record(later, store, after)
        found = runs(uri)
        assert found["trial"].keys() == {trial.id for trial in after}
        assert found["recipe"].keys() == {recipe_id(trial) for trial in after}
        gone = "runs of trials that the sweep no longer has, by other settings, code or data, are no longer shown"
        assert remarks == [f"MLflow: {2 * len(before)} {gone}"]
        for what in names:
            heirs = {run.info.run_id: run for run in found[what].values()}
            old = found[f"earlier {what}"]
            assert old.keys() == names[what]
            for run in old.values():
                heir = heirs[run.data.tags["smoothsweep.replaced_by"]]
                assert heir.data.params["recipe_alpha"] == run.data.params["recipe_alpha"]
        assert record(later, store, after) == [], "once"
    again = load(seeds=[1], grid=GRID)
    record(again, store, trials_of(again))
    found = runs(uri)
    assert {what: set(found[what]) for what in names} == names
    assert not [run for run in found["recipe"].values() if "smoothsweep.replaced_by" in run.data.tags]
