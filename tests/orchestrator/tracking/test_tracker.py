"""What MLflow is told: rows and verdicts, models registered; whatever fails there, the sweep goes on."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from mlflow import MlflowClient
from mlflow.entities import ViewType

from smoothsweep.orchestrator.commands.reporting.report import report_data
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.rows import results_table, trial_row
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of
from smoothsweep.orchestrator.running.recorder import open_recorder
from smoothsweep.orchestrator.tracking.runs import NUMBERS, VERDICT
from smoothsweep.orchestrator.tracking.tracker import Tracker
from tests.mlflow_look import doubled, files, look, record, reported, text_of

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


def told(result, word="reduces", **changes):
    """The result with this verdict on its second recipe; None for none."""
    given = {"verdict": word, "reduction": 0.3, "reduction_low": 0.1, "reduction_high": 0.5, "hidden": -0.1}
    given |= {"hidden_low": None, "hidden_high": None, **changes}
    mine = result.recipes["recipe"].str.contains("0.2", regex=False)
    columns = {name: [value if one else None for one in mine] for name, value in given.items()}
    return replace(result, recipes=result.recipes.assign(**columns))


@pytest.fixture
def swept(load, finished, store, tmp_path):
    """A sweep of two recipes, its trials and its summary, whose recipe is called as the report does."""
    loaded = load()
    trials = finished(loaded)
    data = report_data(loaded, trials, store, results_table(trials, store, {}), tmp_path)
    return loaded, trials, result_of(data, summarise(data))


def by_alpha(runs):
    return {float(run.data.params["recipe_alpha"]): run for run in runs}


def test_a_verdict_is_written_once_where_it_is_missing_and_told_anew_where_it_has_changed(swept, store, uri):
    loaded, trials, result = swept
    given = told(result)

    def after(**closing):
        record(loaded, store, trials, **closing)
        client, kinds = look(uri)
        assert not doubled(client, [run for runs in kinds.values() for run in runs])
        recipe, (parent,) = by_alpha(kinds["recipe"])[-0.2], kinds["sweep"]
        return client, recipe, by_alpha(kinds["trial"])[-0.2], parent

    half = {"another": "diverged"}
    _, recipe, trial, _ = after(failures=half)  # as by a version without verdicts
    assert VERDICT not in recipe.data.tags and VERDICT not in trial.data.tags

    _, recipe, trial, parent = after(result=given, failures=half)
    assert recipe.data.tags[VERDICT] == trial.data.tags[VERDICT] == "reduces"
    assert not {*NUMBERS, "test_acc"} & {*parent.data.metrics}, "a number of half a sweep could not be taken back"
    assert not {*NUMBERS} & {*recipe.data.metrics}

    for _ in range(2):
        client, recipe, _, parent = after(result=given)
    assert recipe.data.metrics["reduction_low"] == 0.1
    assert "hidden_low" not in recipe.data.metrics, "nothing bounds it"
    assert {"test_acc", "embedder_acc1"} <= set(parent.data.metrics)
    assert len(client.get_metric_history(parent.info.run_id, "test_acc")) == 1

    changed = told(result, "hides", reduction=0.0, reduction_low=-0.1, reduction_high=0.1)
    client, recipe, _, _ = after(result=changed)
    assert recipe.data.tags[VERDICT] == "hides" and recipe.data.metrics["reduction"] == 0.0
    assert [point.step for point in client.get_metric_history(recipe.info.run_id, "reduction")] == [0, 1]
    assert [point.value for point in client.get_metric_history(recipe.info.run_id, "hidden")] == [-0.1]

    gone = told(result, None, **dict.fromkeys(("reduction", "reduction_low", "reduction_high", "hidden")))
    _, recipe, trial, _ = after(result=gone)
    assert recipe.data.tags[VERDICT] == trial.data.tags[VERDICT] == "", "what is no longer said does not stay"


def test_a_duration_is_that_of_the_work(load, finished, store, uri):
    """The made-up stages took 20 s each; recording took none of that, and that a trial had failed first neither."""
    loaded = load()
    record(loaded, store, trials_of(loaded)[:1], failures={trials_of(loaded)[0].id: "diverged"})
    trials = finished(loaded)
    record(loaded, store, trials, wall_s=100.0)
    _, kinds = look(uri)
    lasted = {kind: {run.info.end_time - run.info.start_time for run in runs} for kind, runs in kinds.items()}
    (worked,) = lasted["trial"] | lasted["recipe"]
    assert lasted["sweep"] == {100_000} and worked % 20_000 == 0
    assert worked >= 20_000 * (len(trials[0].stages) + 4), "public images, prior, pool and candidates are work as well"
    assert int(1.7e12) in {run.info.end_time for run in kinds["trial"] + kinds["recipe"]}
