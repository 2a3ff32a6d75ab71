"""A sweep in MLflow: a run for the sweep, for every trial, for every recipe over its seeds; none of it twice."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from urllib.parse import parse_qs

import pytest
from mlflow import MlflowClient
from mlflow.entities import ViewType
from mlflow_look import doubled, files, look, record, reported, text_of

from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.rows import trial_row
from smoothsweep.orchestrator.running.recorder import open_recorder
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.store.manifests import sealed
from smoothsweep.orchestrator.tracking.runs import recipe_id
from smoothsweep.orchestrator.tracking.tracker import Tracker, list_sweep_pages

RAMP = {"recipe.defense.alpha": [0.0, -0.2]}


def test_one_run_for_the_sweep_each_trial_and_each_recipe_and_nothing_changes_when_it_is_recorded_again(
    load, store, uri, finished, tmp_path
):
    loaded = load(seeds=[1, 2], grid={**RAMP, "attack.loss": ["poincare", "cross_entropy"]})
    trials = finished(loaded)
    page = tmp_path / "report.html"
    page.write_text("<p>report</p>")
    record(loaded, store, trials, files=[page], result=reported(loaded, trials, store))
    client, kinds = look(uri)
    (parent,) = kinds["sweep"]
    assert len(kinds["trial"]) == 8 and len(kinds["recipe"]) == 4
    assert {run.info.status for runs in kinds.values() for run in runs} == {"FINISHED"}
    children = [*kinds["trial"], *kinds["recipe"]]
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    assert not doubled(client, [parent, *children])
    shown = {"report.html", "sweep/as_given.yaml", "sweep/resolved.yaml", "environment/packages.txt"}
    assert files(client, parent) >= shown
    note = parent.data.tags["mlflow.note.content"]
    assert "| n |" in note and "Tiny." in note
    named = [run for run in kinds["recipe"] if parent.data.tags["smoothsweep.recommended"] in run.info.run_name]
    assert parent.data.metrics["embedder_acc1"] in [run.data.metrics["embedder_acc1"] for run in named]
    assert f"{100 * parent.data.metrics['embedder_acc1']:.1f} " in note
    assert parent.data.tags["smoothsweep.mlflow"].startswith("3.")
    assert "seeds:" in text_of(client, parent, "sweep/with_overrides.yaml")
    assert "mlflow==" in text_of(client, parent, "environment/packages.txt")
    record(loaded, store, trials, result=reported(loaded, trials, store))
    _, after = look(uri)
    for kind in ("trial", "recipe"):
        runs = [[(run.info.run_id, run.info.end_time) for run in found[kind]] for found in (kinds, after)]
        assert runs[0] == runs[1]
    assert [run.info.run_id for run in after["sweep"]] == [parent.info.run_id]


def test_a_trials_run_holds_its_numbers_curves_and_files(load, store, uri, finished):
    loaded = load()
    trials = finished(loaded)
    record(loaded, store, trials)
    client, kinds = look(uri)
    trial = trials[1]
    run = next(run for run in kinds["trial"] if run.data.tags["smoothsweep.trial"] == trial.id)
    row = trial_row(trial, store)
    assert run.data.metrics["test_acc"] == row["test_acc"] and run.data.metrics["dist_face"] == row["dist_face"]
    assert "fid" not in run.data.metrics, "what was not measured is absent, not 0"
    for name in ("alpha", "loss", "train_acc", "test_acc", "logit_gap", "lr"):
        history = client.get_metric_history(run.info.run_id, f"epoch/{name}")
        assert [point.step for point in history] == list(range(5)), name
    assert files(client, run) >= {
        "result.json",
        "manifests.json",
        "contact_sheet.png",
        "judge_embedder_per_class.parquet",
    }
    assert run.data.tags["smoothsweep.phase"] == "sweep" and run.data.tags["smoothsweep.strategy"] == "grid"
    assert run.data.tags["smoothsweep.code"] == "bench", "the code that made the artifacts, not the one that records"


def test_params_are_numbers_under_the_same_names_and_conditional_ones_absent(load, store, uri, finished):
    schedules = [{"kind": "ramp", "start": 0.25, "end": 0.5}, {"kind": "step", "at": 0.5}, {"kind": "constant"}]
    loaded = load(grid={"recipe.defense.schedule": schedules, "recipe.defense.alpha": [-0.2]}, baseline={})
    record(loaded, store, finished(loaded))
    _, kinds = look(uri)
    params = {run.data.params["recipe_schedule"]: run.data.params for run in kinds["trial"]}
    assert float(params["ramp"]["recipe_schedule_start"]) == 0.25
    assert float(params["ramp"]["recipe_schedule_end"]) == 0.5
    assert float(params["step"]["recipe_schedule_at"]) == 0.5 and "recipe_schedule_start" not in params["step"]
    assert not [key for key in params["constant"] if key.startswith("recipe_schedule_")]
    for found in params.values():
        assert float(found["recipe_alpha"]) == -0.2 and float(found["recipe_lr"]) > 0
        assert float(found["attack_steps"]) == 3
        assert "schedule" not in found and "alpha" not in found and "None" not in found.values()
    shared = {key for key in params["ramp"] if not key.startswith("recipe_schedule_")}
    assert all(shared <= set(found) for found in params.values())


def test_means_are_over_the_seeds_and_grow_with_them(load, store, uri, finished):
    loaded = load(seeds=[1, 2], grid=RAMP)
    trials = finished(loaded)
    record(loaded, store, trials, result=reported(loaded, trials, store))
    wider = load(seeds=[1, 2, 3], grid=RAMP)
    trials = finished(wider)
    record(wider, store, trials, result=reported(wider, trials, store))
    client, kinds = look(uri)
    assert len(kinds["recipe"]) == 2
    for run in kinds["recipe"]:
        mine = [t for t in trials if recipe_id(t) == run.data.tags["smoothsweep.recipe"]]
        values = [trial_row(t, store)["embedder_acc1"] for t in mine]
        assert run.data.metrics["embedder_acc1"] == pytest.approx(sum(values) / 3)
        assert run.data.metrics["n_seeds"] == 3
        assert run.data.metrics["embedder_acc1_low"] < min(max(values), run.data.metrics["embedder_acc1"])
        history = client.get_metric_history(run.info.run_id, "embedder_acc1")
        assert [point.step for point in history] == [3], "those of fewer seeds have gone with their run"
        assert "seed" not in run.data.params and run.data.params["recipe_architecture"] == "resnet_small"
        table = json.loads(text_of(client, run, "seeds.json"))
        assert [row[table["columns"].index("seed")] for row in table["data"]] == [1, 2, 3]


def test_a_recipe_that_met_more_seeds_later_has_means_over_all_of_them(load, store, uri, finished):
    """As of a search that asks for one seed first: its trial was recorded as a proxy before the others were run."""
    loaded = load(seeds=[1, 2], grid=RAMP)
    trials = finished(loaded)
    recorder = open_recorder(loaded, store, None)
    for trial in trials:
        recorder.add(replace(trial, phase="proxy") if trial.seed == 1 else trial)
    recorder.finish()
    recorder.close(trials, failed=0, result=reported(loaded, trials, store))
    _, kinds = look(uri)
    assert [run.data.metrics["n_seeds"] for run in kinds["recipe"]] == [2, 2]
    assert all("embedder_acc1_low" in run.data.metrics for run in kinds["recipe"])
    assert {run.data.tags["smoothsweep.phase"] for run in kinds["trial"]} == {"sweep"}
    assert not [run for run in kinds["trial"] if "proxy" in run.info.run_name]


@pytest.mark.parametrize("cut", ["create_run", "log_batch", "set_terminated"])
def test_a_run_that_was_cut_off_is_completed_without_doubles(load, store, uri, finished, cut, monkeypatch):
    """The recorder's process dies in the middle of its third trial, just after or just before one call."""
    loaded = load(seeds=[1, 2])
    trials = finished(loaded)
    tracker = Tracker(uri, store=store, experiment="tiny", loaded=loaded)
    parent = tracker.sweep_run("tiny", {})
    for trial in trials[:2]:
        tracker.record(trial, parent)

    done = getattr(MlflowClient, cut)

    def dies(*arguments, **options):
        done(*arguments, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(MlflowClient, cut, dies)
        tracker.record(trials[2], parent)
    record(loaded, store, trials)
    client, kinds = look(uri)
    assert [len(kinds[kind]) for kind in ("sweep", "trial", "recipe")] == [1, 4, 2]
    assert {run.info.status for runs in kinds.values() for run in runs} == {"FINISHED"}
    assert not doubled(client, [run for runs in kinds.values() for run in runs])


def test_doubles_of_lost_requests_and_of_other_drivers_are_removed(load, store, uri, finished):
    loaded = load()
    trials = finished(loaded)
    tracker = Tracker(uri, store=store, experiment="tiny", loaded=loaded)
    parent = tracker.sweep_run("tiny", {})
    for trial in trials:
        tracker.record(trial, parent)
    client, kinds = look(uri)
    (sweep,) = kinds["sweep"]
    another = client.create_run(sweep.info.experiment_id, tags=sweep.data.tags)
    for run in kinds["trial"]:
        client.set_tag(run.info.run_id, "mlflow.parentRunId", another.info.run_id)
        client.create_run(sweep.info.experiment_id, tags=run.data.tags)
    assert [len(runs) for runs in look(uri)[1].values()] == [2, 4, 0]
    record(loaded, store, trials)
    _, kinds = look(uri)
    assert [len(kinds[kind]) for kind in ("sweep", "trial", "recipe")] == [1, 2, 2]
    children = [*kinds["trial"], *kinds["recipe"]]
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {kinds["sweep"][0].info.run_id}


def test_a_failed_trial_says_why_until_it_is_done(load, store, uri, finished):
    loaded = load()
    trials = trials_of(loaded)
    record(loaded, store, trials, failures={trials[0].id: "diverged in epoch 0", trials[1].id: "stopped: budget"})
    _, kinds = look(uri)
    found = {run.data.tags["smoothsweep.trial"]: run for run in kinds["trial"]}
    assert found[trials[0].id].info.status == "FAILED" and found[trials[1].id].info.status == "KILLED"
    assert found[trials[0].id].data.tags["smoothsweep.failure"] == "diverged in epoch 0" and not kinds["recipe"]
    finished(loaded)
    record(loaded, store, trials)
    _, kinds = look(uri)
    assert {run.info.status for run in kinds["trial"]} == {"FINISHED"} and len(kinds["trial"]) == 2
    assert not [run for run in kinds["trial"] if "smoothsweep.failure" in run.data.tags]


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
def test_two_drivers_that_end_together_leave_one_run_of_each(load, store, uri, finished, gone):
    loaded = load()
    trials = finished(loaded)
    mine, other = (Tracker(uri, store=store, experiment="tiny", loaded=loaded) for _ in range(2))
    parent = mine.sweep_run("tiny", {})
    for trial in trials:
        mine.record(trial, parent)
    other.refresh()
    met = []

    def beside():
        """Called as `mine` has written its first recipe."""
        met.append(1)
        if len(met) == 1:
            other.close_sweep(parent, trials)
        if gone and len(met) == 2:
            for run in look(uri)[1]["recipe"]:
                MlflowClient(uri).delete_run(run.info.run_id)

    mine.progress = beside
    mine.close_sweep(parent, trials)
    client, kinds = look(uri)
    assert [len(kinds[kind]) for kind in ("sweep", "trial", "recipe")] == [1, 2, 2]
    assert not doubled(client, [run for runs in kinds.values() for run in runs])


def test_two_drivers_that_record_at_once_create_each_run_once(load, store, uri, finished):
    loaded = load()
    trials = finished(loaded)
    drivers = [Tracker(uri, store=store, experiment="tiny", loaded=loaded) for _ in range(2)]

    def work(tracker):
        parent = tracker.sweep_run("tiny", {})
        for trial in trials:
            tracker.record(trial, parent)
        tracker.close_sweep(parent, trials)

    with ThreadPoolExecutor(len(drivers)) as both:
        list(both.map(work, drivers))
    client, kinds = look(uri)
    experiments = [client.get_experiment_by_name("tiny").experiment_id]
    assert len(client.search_runs(experiments, run_view_type=ViewType.ALL)) == sum(map(len, kinds.values())) == 5


@pytest.fixture
def client(load, store, uri, finished):
    """MLflow with two sweeps of one store."""
    for name in ("older", "newer"):
        loaded = load(name=name)
        trials = finished(loaded)
        record(loaded, store, trials, result=reported(loaded, trials, store))
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
