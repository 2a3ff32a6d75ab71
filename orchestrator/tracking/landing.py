"""Where a user who opens MLflow should arrive: the newest sweep, its trials side by side."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from smoothsweep.orchestrator.tracking.runs import KIND
from smoothsweep.orchestrator.tracking.server import connect
from smoothsweep.orchestrator.tracking.verdicts import ORDER

MODEL_TRAINING = {"mlflow.experimentKind": "custom_model_development"}  # the pages open on runs and their comparison
AT_MOST = 20  # experiments that are looked into


@dataclass(frozen=True, kw_only=True)
class SweepPages:
    """One sweep's pages. table, charts: their address from the server's root on."""

    sweep: str
    table: str
    charts: str


def list_sweep_pages(uri: str) -> list[SweepPages]:
    """The sweeps of a tracking store, the one that was worked on last first. InputError if there is no MLflow."""
    client = connect(uri)
    pages = []
    for experiment in client.search_experiments(max_results=AT_MOST, order_by=["last_update_time DESC"]):
        newest = {"max_results": 1, "order_by": ["attributes.start_time DESC"]}
        if runs := client.search_runs([experiment.experiment_id], f"tags.`{KIND}` = 'sweep'", **newest):
            pages.append((runs[0].info.start_time, experiment))
    return [
        SweepPages(sweep=page.name, table=route(page.experiment_id), charts=route(page.experiment_id, charts=True))
        for _, page in sorted(pages, key=lambda pair: -pair[0])
    ]


def route(experiment_id: str, *, charts: bool = False) -> str:
    """Where the trials lie on any MLflow server, from its root on: as a table, the least leak first, or as charts."""
    query = {
        "searchFilter": f"tags.`{KIND}` = 'trial'",
        "orderByKey": f"metrics.`{ORDER}`",
        "orderByAsc": "true",
        "workflowType": "machine_learning",
        "compareRunsMode": "CHART" if charts else "TABLE",
    }
    return f"/#/experiments/{experiment_id}/runs?{urlencode(query)}"
