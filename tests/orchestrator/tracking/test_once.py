"""Nothing is in MLflow twice, what has been replaced is not shown, and the newest sweep comes first."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from urllib.parse import parse_qs

import pytest
from mlflow import MlflowClient
from mlflow_look import doubled, look, record, reported

from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.manifests import sealed
from smoothsweep.orchestrator.tracking.recipes import recipe_id
from smoothsweep.orchestrator.tracking.tracker import Tracker, list_sweep_pages
from smoothsweep.tasks.registry import TASKS
from tests.dear import first_of


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
    write_mine, calls = mine._record_recipes, []

    def beside(*arguments):
        calls.append(1)
        if len(calls) == 1:
            other._record_recipes(*arguments)
        means = write_mine(*arguments)
        if gone and len(calls) == 1:
            for run in look(uri)[1]["recipe"]:
                mine._client.delete_run(run.info.run_id)
        return means

    monkeypatch.setattr(mine, "_record_recipes", beside)
    mine.close_sweep(parent, trials)
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


GRID = {"recipe.defense.alpha": [0.0, -0.2]}


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
    assert record(loaded, store, before).remarks == []
    names = {"trial": {trial.id for trial in before}, "recipe": set(map(recipe_id, before))}
    with monkeypatch.context() as raised:
        raised.setitem(TASKS, kind, replace(TASKS[kind], version=TASKS[kind].version + 1))
        later = load(seeds=[1], grid=GRID)
        after = finished(later)
        assert {trial.id for trial in after}.isdisjoint(trial.id for trial in before)
        remarks = record(later, store, after).remarks
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
        assert record(later, store, after).remarks == [], "once"
    again = load(seeds=[1], grid=GRID)
    record(again, store, trials_of(again))
    found = runs(uri)
    assert {what: set(found[what]) for what in names} == names
    assert not [run for run in found["recipe"].values() if "smoothsweep.replaced_by" in run.data.tags]


@pytest.fixture
def client(load, store, uri, finished):
    """MLflow with two sweeps of one store."""
    for name in ("older", "newer"):
        loaded = load(name=name)
        trials = finished(loaded)
        record(loaded, store, trials, verdicts=reported(loaded, trials, store))
    return MlflowClient(uri, uri)


def test_the_newest_sweep_comes_first_with_a_filter_and_an_order_that_mlflow_takes(client, uri):
    found = list_sweep_pages(uri)
    assert [one.sweep for one in found] == ["newer", "older"]
    number = client.get_experiment_by_name("newer").experiment_id
    place, _, query = found[0].table.partition("?")
    asked = {key: value for key, (value,) in parse_qs(query).items()}
    assert place == f"/#/experiments/{number}/runs" and asked["compareRunsMode"] == "TABLE"
    shown = client.search_runs([number], asked["searchFilter"], order_by=[f"{asked['orderByKey']} ASC"])
    assert [run.data.tags["smoothsweep.kind"] for run in shown] == ["trial"] * 2
    leaks = [run.data.metrics["embedder_acc1"] for run in shown]
    assert leaks == sorted(leaks) and "compareRunsMode=CHART" in found[0].charts
