"""What MLflow holds, as tests ask for it."""

from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import ViewType

from smoothsweep.orchestrator.commands.reporting.report import report_data
from smoothsweep.orchestrator.result.rows import results_table
from smoothsweep.orchestrator.result.sweep_result import result_of
from smoothsweep.orchestrator.running.recorder import open_recorder


def look(uri, name="tiny"):
    """The client, and the runs by kind, deleted ones left out."""
    client = MlflowClient(uri, uri)
    experiment = client.get_experiment_by_name(name)
    runs = client.search_runs([experiment.experiment_id], run_view_type=ViewType.ACTIVE_ONLY)
    kinds = {"sweep": [], "trial": [], "recipe": []}
    for run in runs:
        kinds[run.data.tags["smoothsweep.kind"]].append(run)
    return client, kinds


def doubled(client, runs):
    """Metrics of which some step holds two points."""
    found = []
    for run in runs:
        for key in run.data.metrics:
            history = client.get_metric_history(run.info.run_id, key)
            if len(history) != len({point.step for point in history}):
                found.append((run.info.run_name, key))
    return found


def files(client, run):
    """Paths of a run's artifacts, those in folders too."""
    found, waiting = set(), [None]
    while waiting:
        for entry in client.list_artifacts(run.info.run_id, waiting.pop()):
            waiting.append(entry.path) if entry.is_dir else found.add(entry.path)
    return found


def text_of(client, run, path):
    """An artifact's text."""
    return Path(client.download_artifacts(run.info.run_id, path)).read_text()


def record(loaded, store, trials, failures=None, files=(), models="none", **closing):
    """Write all of it, as the end of a sweep does."""
    recorder = open_recorder(loaded, store, None, models=models)
    for trial in trials:
        recorder.add(trial, (failures or {}).get(trial.id))
    recorder.finish()
    recorder.close(trials, list(files), failed=len(failures or {}), **closing)
    assert not recorder.unwritten, recorder.unwritten
    return recorder


def reported(loaded, trials, store):
    """The result of a sweep."""
    table = results_table(trials, store, {})
    return result_of(report_data(loaded, trials, store, table, store.root))
