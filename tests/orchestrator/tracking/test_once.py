"""Nothing is in MLflow twice: not what was measured again before it was whole, not what two drivers write at once."""

import json
import sqlite3

import pytest
from mlflow import MlflowClient
from mlflow_look import doubled, look, record

from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.manifests import sealed
from smoothsweep.orchestrator.tracking import Tracker
from smoothsweep.orchestrator.tracking.tracker import Closing


def _again(store, trials, *, later_s, value=None):
    """Judge the trials again, as after damage: a later end, and other numbers where a value is given."""
    for trial in trials:
        stage = next(stage for stage in trial.stages if stage.name == "judge_embedder")
        path = store.path(stage) / "manifest.json"
        manifest = json.loads(path.read_text())
        manifest["finished_at"] += later_s
        if value is not None:
            manifest["metrics"]["embedder_acc1"] = value
        path.write_text(json.dumps(sealed(manifest)))


@pytest.mark.parametrize("value", [None, 0.4321])
def test_what_was_measured_again_before_its_run_was_whole_is_there_once(load, store, uri, finished, value):
    loaded = load()
    trials = finished(loaded)
    record(loaded, store, trials)
    _, kinds = look(uri)
    for run in [*kinds["trial"], *kinds["recipe"]]:  # as a driver leaves them that is killed between two calls
        MlflowClient(uri).update_run(run.info.run_id, status="RUNNING")
    _again(store, trials, later_s=60.0, value=value)
    again = Store(root=store.root)
    record(loaded, again, trials)
    client, kinds = look(uri)
    assert not doubled(client, [run for runs in kinds.values() for run in runs])
    for run in [*kinds["trial"], *kinds["recipe"]]:
        assert run.info.status == "FINISHED"
        assert value is None or run.data.metrics["embedder_acc1"] == value
    assert (len(kinds["trial"]), len(kinds["recipe"])) == (2, 2)


@pytest.mark.parametrize("gone", [False, True], ids=["both write", "each deletes the other's"])
def test_two_drivers_that_end_together_leave_one_run_of_each(load, store, uri, finished, gone, monkeypatch):
    loaded = load()
    trials = finished(loaded)
    mine, other = (Tracker(uri, store=store, experiment="tiny", loaded=loaded) for _ in range(2))
    parent = mine.sweep_run("tiny", {})
    for trial in trials:
        mine.record(trial, parent)
    other.refresh()
    write_mine, calls = mine._recipes.record_all, []

    def beside(*arguments):
        calls.append(1)
        if len(calls) == 1:
            other._recipes.record_all(*arguments)
        means = write_mine(*arguments)
        if gone and len(calls) == 1:
            for run in look(uri)[1]["recipe"]:
                mine._client.delete_run(run.info.run_id)
        return means

    monkeypatch.setattr(mine._recipes, "record_all", beside)
    mine.close_sweep(parent, Closing(trials=trials, files=(), failed=0))
    client, kinds = look(uri)
    assert [len(kinds[kind]) for kind in ("sweep", "trial", "recipe")] == [1, 2, 2]
    assert not doubled(client, [run for runs in kinds.values() for run in runs])
    assert len(calls) == 1 + gone


def test_no_metric_that_mlflow_holds_decides_anything(load, store, uri, finished):
    """It returns infinity as 1.8e308, and NaN equals nothing: what a run holds is told by tags of ours."""
    loaded = load()
    trials = finished(loaded)
    record(loaded, store, trials)
    before = {run.info.run_id for runs in look(uri)[1].values() for run in runs}
    database = sqlite3.connect(uri.removeprefix("sqlite:///"))
    for table in ("metrics", "latest_metrics"):
        database.execute(f"UPDATE {table} SET value = 1.7976931348623157e308, is_nan = (value < 0.5)")
    database.commit()
    database.close()
    for run in [*look(uri)[1]["trial"], *look(uri)[1]["recipe"]]:  # as a driver leaves them that is killed
        MlflowClient(uri).update_run(run.info.run_id, status="RUNNING")
    record(loaded, Store(root=store.root), trials)
    _, kinds = look(uri)
    assert {run.info.run_id for runs in kinds.values() for run in runs} == before
    assert {run.info.status for runs in kinds.values() for run in runs} == {"FINISHED"}
