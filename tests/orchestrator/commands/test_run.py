"""The whole path on real Ray and real MLflow: run, run again, widen, break, report."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from smoothsweep.core.judges.columns import TIME_COLUMNS
from smoothsweep.orchestrator.cli import main
from tests.tiny import tiny_sweep, write_tiny

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def as_a_process(*arguments, **changes):
    command = [sys.executable, "-m", "smoothsweep", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**ENVIRONMENT, **changes}, timeout=280)


def table(store: Path, sweep: str = "tiny") -> pd.DataFrame:
    return pd.read_parquet(store / "sweeps" / sweep / "results.parquet").drop(columns=list(TIME_COLUMNS))


def mlflow_runs(store: Path, sweep: str = "tiny"):
    from mlflow import MlflowClient
    from mlflow.entities import ViewType

    client = MlflowClient(f"sqlite:///{store}/mlflow.db")
    experiments = [e.experiment_id for e in client.search_experiments() if e.name == sweep]
    return client, client.search_runs(experiments, run_view_type=ViewType.ALL)


@pytest.fixture(scope="module")
def apart(smoothsweep, tmp_path_factory, empty_database):
    """The same sweep in another store, one class per task, with a recipe that diverges in the place of the other."""
    folder = tmp_path_factory.mktemp("apart")
    store = folder / "store"
    store.mkdir()
    shutil.copy(empty_database, store / "mlflow.db")
    grid = {"recipe.lr": [0.001, 1.0e30]}
    sweep = write_tiny(folder, resources={"classes_per_task": 1}, grid=grid, baseline={})
    return store, smoothsweep("run", sweep, "--store", store)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, empty_database):
    """A tiny sweep run once, start to report, as users run it."""
    folder = tmp_path_factory.mktemp("tiny")
    judges = {**tiny_sweep()["judges"], "general": {}}  # its weights are nowhere
    sweep, store = write_tiny(folder, judges=judges), folder / "store"
    store.mkdir()
    shutil.copy(empty_database, store / "mlflow.db")
    done = as_a_process("run", sweep, "--store", store, SMOOTHSWEEP_WEIGHTS=folder, TORCH_HOME=folder)
    assert done.returncode == 0, done.stderr
    return sweep, store, done


def test_every_trial_has_a_row_with_every_judges_word(finished):
    _, store, done = finished
    rows = table(store)
    assert list(rows["status"]) == ["done", "done"]
    assert list(rows["alpha"]) == [0.0, -0.2]
    for column in ("test_acc", "attack_acc1", "attack_acc5", "embedder_acc1", "xi_train", "xi_test"):
        assert rows[column].between(0, 1).all(), column
    for column in ("dist_eval", "dist_eval_plain", "dist_face", "ece", "target_conf"):
        assert (rows[column] > 0).all(), column
    assert "fid" not in rows and "fid" in json.loads(rows["reasons"][0])
    assert "2/2 trials" in done.stderr and "smoothing" in done.stdout
    [line] = [line for line in done.stderr.splitlines() if "not measured: " in line]
    assert "general (" in line and "the weights of swag_vit_b_16 are not here: smoothsweep weights stage" in line


@pytest.mark.slow
def test_other_judges_score_the_same_reconstructions_and_nothing_is_attacked(finished, smoothsweep):
    sweep, store, _ = finished
    made = [path for kind in ("target", "attack", "loot") for path in store.glob(f"{kind}/*/*")]
    kept = {path: path.stat().st_mtime_ns for path in made}
    old, changed = table(store), ("--set", "judges.evaluator.epochs=1", "--set", "judges.knowledge=null")
    done = smoothsweep("run", sweep, "--store", store, "--only-judges", *changed)
    assert done.returncode == 0, done.stderr
    new = pd.read_parquet(store / "sweeps" / "tiny-rejudged" / "results.parquet")
    assert list(new["status"]) == ["done", "done"] and "xi_train" not in new
    for column in ("test_acc", "embedder_acc1", "target_conf"):
        assert list(new[column]) == list(old[column]), column
    assert list(new["dist_eval"]) != list(old["dist_eval"]) and new["attack_acc1"].between(0, 1).all()
    assert {path: path.stat().st_mtime_ns for path in kept} == kept and table(store).equals(old)
    assert len(list((store / "target").iterdir())) == 4, "two targets, the old evaluator and the new one"


def test_the_page_is_self_contained_and_links_manifests_that_exist(finished):
    _, store, _ = finished
    folder = store / "sweeps" / "tiny"
    page = (folder / "report.html").read_text()
    assert "http://" not in page.replace("http://www.w3.org", "") and "<script src" not in page
    links = [part.split('"')[0] for part in page.split('href="') if part.split('"')[0].endswith("manifest.json")]
    assert links and all((folder / link).is_file() for link in links)


def test_mlflow_holds_one_parent_one_run_per_trial_and_the_curves(finished):
    _, store, _ = finished
    client, runs = mlflow_runs(store)
    named = [(run.data.tags["smoothsweep.kind"], run) for run in runs]
    kinds = {kind: [run for name, run in named if name == kind] for kind in ("sweep", "trial", "recipe")}
    children, (parent,) = kinds["trial"], kinds["sweep"]
    assert len(runs) == 5 and len(children) == 2 and {r.info.status for r in runs} == {"FINISHED"}
    for run in children:
        alpha = client.get_metric_history(run.info.run_id, "epoch/alpha")
        assert [(m.step, m.value) for m in alpha] == [(0, 0.0), (1, float(run.data.params["recipe_alpha"]))]
        assert {a.path for a in client.list_artifacts(run.info.run_id)} >= {"contact_sheet.png", "manifests.json"}
        assert "attack_acc1" in run.data.metrics
    assert {r.data.tags["mlflow.parentRunId"] for r in (*children, *kinds["recipe"])} == {parent.info.run_id}
    assert {a.path for a in client.list_artifacts(parent.info.run_id)} >= {"report.html", "results.parquet"}
    figures = {Path(a.path).name for a in client.list_artifacts(parent.info.run_id, "figures")}
    assert figures == {path.name for path in (store / "sweeps" / "tiny" / "figures").iterdir()}
    assert {"accuracy-leak.svg", "sheet-1.png"} <= figures


def test_a_second_run_does_nothing_twice(finished, smoothsweep, tmp_path):
    """Its report goes where it is told to; the first one's stays."""
    sweep, store, _ = finished
    before, page = table(store), (store / "sweeps" / "tiny" / "report.html").stat().st_mtime_ns
    stages = {p: p.stat().st_mtime_ns for p in store.glob("*/*/manifest.json")}
    again = smoothsweep("run", sweep, "--store", store, "--out", tmp_path / "there")
    assert again.returncode == 0, again.stderr
    assert (store / "sweeps" / "tiny" / "report.html").stat().st_mtime_ns == page
    assert {"report.html", "results.parquet"} <= {path.name for path in (tmp_path / "there").iterdir()}
    told = pd.read_parquet(tmp_path / "there" / "results.parquet").drop(columns=list(TIME_COLUMNS))
    pd.testing.assert_frame_equal(told, before)
    assert {p: p.stat().st_mtime_ns for p in store.glob("*/*/manifest.json")} == stages
    pd.testing.assert_frame_equal(table(store), before)
    client, runs = mlflow_runs(store)
    assert len(runs) == 5
    for run in runs:
        for key in run.data.metrics:
            history = client.get_metric_history(run.info.run_id, key)
            assert len(history) == len({m.step for m in history}), key


def test_status_and_plan_know_that_all_is_done(finished, capsys):
    sweep, store, _ = finished
    assert main(["status", str(sweep), "--store", str(store), "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["counts"] == {"done": 2} and status["running"] == [] and not status["alive"]
    assert main(["plan", str(sweep), "--store", str(store), "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["stages_to_run"] == 0 and plan["device_hours"] == 0
    wider = ["--set", "grid.recipe\\.defense\\.alpha=[0.0]"]
    assert main(["plan", str(sweep), "--store", str(store), *wider]) == 2  # dotted grid keys are not settable
    capsys.readouterr()


def test_a_wider_grid_costs_only_the_difference(finished, capsys):
    sweep, store, _ = finished
    wider = write_tiny(sweep.parent / "..", grid={"recipe.defense.alpha": [0.0, -0.2, 0.1]})
    assert main(["plan", str(wider), "--store", str(store), "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    to_run = {name: row["to_run"] for name, row in plan["by_stage"].items() if row["to_run"]}
    assert to_run == {
        "target": 1,
        "candidates": 1,
        "attack": 1,
        "loot": 1,
        "judge_evaluator": 1,
        "judge_embedder": 1,
        "knowledge": 1,
    }


@pytest.mark.slow
def test_a_diverging_recipe_fails_alone_with_its_cause(apart):
    store, done = apart
    assert done.returncode == 1, done.stderr
    rows = table(store)
    assert list(rows["status"]) == ["done", "failed"]
    assert "diverged in epoch 0" in rows["failure"][1] and "Traceback" not in done.stderr
    _, runs = mlflow_runs(store)
    assert sum(r.info.status == "FAILED" and "smoothsweep.failure" in r.data.tags for r in runs) == 1


@pytest.mark.slow
def test_results_do_not_depend_on_how_classes_are_cut(finished, apart):
    """One class per task in another store gives the same reconstructions, bit for bit."""
    (_, store, _), (other, _) = finished, apart
    mine = {p.parent.name: digest(p) for p in other.glob("attack/*/reconstructions.safetensors")}
    theirs = {p.parent.name: digest(p) for p in store.glob("attack/*/reconstructions.safetensors")}
    assert mine and mine.items() <= theirs.items()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
