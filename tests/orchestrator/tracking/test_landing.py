"""Where a user arrives who opens MLflow on a store: the newest sweep, its trials with the least leak first."""

from urllib.parse import parse_qs

import pytest
from mlflow import MlflowClient
from mlflow_look import record, reported

from smoothsweep.orchestrator.tracking import list_sweep_pages


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
