"""Where a user who opens MLflow should arrive: the newest sweep, its trials side by side."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.orchestrator.tracking.pages.views import route, saved_views
from smoothsweep.orchestrator.tracking.runs.runs import KEYS, KIND
from smoothsweep.orchestrator.tracking.runs.verdicts import VERDICT
from smoothsweep.orchestrator.tracking.server.connection import connect

MODEL_TRAINING = {"mlflow.experimentKind": "custom_model_development"}  # the pages open on runs and their comparison
PRIMARY_METRIC = "mlflow.experiment.primaryMetric"
AT_MOST = 20  # experiments that are looked into


@dataclass(frozen=True, kw_only=True)
class SweepPages:
    """One sweep's pages. table, charts: their address from the server's root on."""

    sweep: str
    table: str
    charts: str


def list_sweep_pages(uri: str) -> list[SweepPages]:
    """The sweeps of a tracking store, the one that was worked on last first.

    Views that are missing, of a sweep recorded before there were any, are added. InputError if there is no MLflow.
    """
    client = connect(uri)
    pages = []
    for experiment in client.search_experiments(max_results=AT_MOST, order_by=["last_update_time DESC"]):
        last = _last_run(client, experiment.experiment_id)
        if last is not None:
            leak = experiment.tags.get(f"{PRIMARY_METRIC}.name")
            show(client, experiment, leak if leak in BY_KEY and BY_KEY[leak].group == "leak" else None)
            pages.append((last, experiment))
    pages.sort(key=lambda pair: -pair[0])
    return [
        SweepPages(sweep=page.name, table=route(page.experiment_id), charts=route(page.experiment_id, charts=True))
        for _, page in pages
    ]


def show(client: Any, experiment: Any, leak: str | None, measured: Collection[str] | None = None) -> None:
    """Have the experiment's pages show model training, with saved views. Calling it again changes nothing.

    measured: names of the metrics that its runs hold; None to ask for those of one trial and one recipe.
    """
    if measured is None:
        measured = _measured(client, experiment.experiment_id)
    tags = {**MODEL_TRAINING, **saved_views(leak, measured, at=experiment.creation_time)}
    for key, value in tags.items():
        if experiment.tags.get(key) != value:
            client.set_experiment_tag(experiment.experiment_id, key, value)


def _last_run(client: Any, experiment_id: str) -> int | None:
    """When a sweep was begun here last, in milliseconds; None where there is no run of ours."""
    runs = _some(client, experiment_id, "sweep")
    return runs[0].info.start_time if runs else None


def _measured(client: Any, experiment_id: str) -> set[str]:
    runs = [run for kind in ("trial", "recipe") for run in _some(client, experiment_id, kind)]
    runs += _some(client, experiment_id, "trial", f" and tags.`{VERDICT}` LIKE '%'")  # controls have none
    return {name for run in runs for name in run.data.metrics}


def _some(client: Any, experiment_id: str, kind: str, having: str = "") -> list[Any]:
    """The newest run of a kind, if there is one. having: a further condition in MLflow's own words."""
    assert kind in KEYS
    return client.search_runs(
        [experiment_id], f"tags.`{KIND}` = '{kind}'{having}", max_results=1, order_by=["attributes.start_time DESC"]
    )
