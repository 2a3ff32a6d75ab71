"""Where somebody arrives who opens MLflow on a store: the newest sweep, with views, whoever recorded it."""

import json

import pytest
from mlflow import MlflowClient
from mlflow_look import record

from smoothsweep.orchestrator.tracking import list_sweep_pages
from smoothsweep.orchestrator.tracking.pages.landing import MODEL_TRAINING
from smoothsweep.orchestrator.tracking.pages.views import TAG


@pytest.fixture
def recorded(load, store, uri, finished):
    """Two sweeps of one store; returns a function that gives the tags of their experiments."""
    for name in ("older", "newer"):
        loaded = load(name=name)
        record(loaded, store, finished(loaded))
    client = MlflowClient(uri, uri)
    return client, lambda name: client.get_experiment_by_name(name)


def test_the_newest_sweep_comes_first_with_its_saved_views(recorded, uri):
    client, experiment = recorded
    found = list_sweep_pages(uri)
    assert [one.sweep for one in found] == ["newer", "older"]
    number = experiment("newer").experiment_id
    page = f"/#/experiments/{number}/runs?viewStateShareKey=trials&workflowType=machine_learning"
    assert found[0].table == f"{page}&compareRunsMode=TABLE"
    assert found[0].charts.endswith("compareRunsMode=CHART")
    state = json.loads(json.loads(experiment("newer").tags[f"{TAG}trials"])["state"])
    shown = client.search_runs([number], state["searchFilter"], order_by=[f"{state['orderByKey']} ASC"])
    assert [run.data.tags["smoothsweep.kind"] for run in shown] == ["trial"] * 2, "MLflow itself takes filter and order"
    wanted = {"metrics.`test_acc`", "metrics.`embedder_acc1`", "tags.`smoothsweep.verdict`"}
    assert wanted <= {*state["selectedColumns"]}


def test_what_an_older_version_recorded_gets_them_when_it_is_opened(recorded, uri):
    client, experiment = recorded
    before = experiment("older").tags
    for key in (*MODEL_TRAINING, f"{TAG}trials", f"{TAG}recipes"):
        client.delete_experiment_tag(experiment("older").experiment_id, key)
    list_sweep_pages(uri)
    healed = experiment("older")
    assert healed.tags == before
    list_sweep_pages(uri)
    assert experiment("older").last_update_time == healed.last_update_time, "nothing is written twice"


def test_an_experiment_of_somebody_else_is_left_alone(recorded, uri):
    client, experiment = recorded
    number = client.create_experiment("other")
    client.create_run(number)
    assert [one.sweep for one in list_sweep_pages(uri)] == ["newer", "older"] and experiment("other").tags == {}
