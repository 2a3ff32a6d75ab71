"""Saved views of MLflow's page of runs: which runs, in which order, with which columns and charts.

MLflow keeps a view that a user named and shared as a tag of the experiment, which every browser reads that opens a
link with its name: key and fields as in mlflow/mlflow, mlflow/server/js/src/experiment-tracking/components/
experiment-page/utils/savedViewEnvelope.ts, models/ExperimentPageUIState.tsx and ../runs-charts/runs-charts.types.ts.
A shared view cannot hold which rows are expanded; a filter shows the runs that it leaves at the top level instead.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any
from urllib.parse import urlencode

from smoothsweep.core.judges.columns import BY_KEY, CLOSED_SET
from smoothsweep.orchestrator.reading.findings.display import KNOWLEDGE
from smoothsweep.orchestrator.tracking.runs.runs import KIND
from smoothsweep.orchestrator.tracking.runs.verdicts import HIDING, NUMBERS, ORDER, STRONGEST, VERDICT

TAG = "mlflow.sharedViewState."
TRIALS, RECIPES = "trials", "recipes"
NAMES = {TRIALS: "Trials", RECIPES: "Recipes: means over seeds"}
RUN_NAME = "attributes.`Run Name`"
CURVES = ("epoch/alpha", "epoch/test_acc", "epoch/train_acc", "epoch/loss", "epoch/logit_gap")
MOST_JUDGES = 3
"""Most judges with a chart of their own beside the metric that decides: a tag holds 5,000 letters."""
CURVES_SECTION, FIRST_SECTION, OTHERS_SECTION = "epoch", "Accuracy against leak", "Model metrics"


def saved_views(leak: str | None, measured: Collection[str], *, at: int) -> dict[str, str]:
    """Tags of an experiment that are its saved views.

    Args:
        leak: The metric that decides, None where none was measured.
        measured: Names of the metrics that runs hold.
        at: When the views were made, in milliseconds; equal arguments give equal tags.
    """
    tags = {}
    for view, kind in ((TRIALS, "trial"), (RECIPES, "recipe")):
        state = json.dumps(_state(kind, leak, measured), separators=(",", ":"))
        tags[TAG + view] = json.dumps({"name": NAMES[view], "createdAt": at, "state": state}, separators=(",", ":"))
    return tags


def route(experiment_id: str, view: str = TRIALS, *, charts: bool = False) -> str:
    """Where the page lies on any MLflow server, from its root on: its table, or its charts; of model training."""
    mode = "CHART" if charts else "TABLE"
    query = {"viewStateShareKey": view, "workflowType": "machine_learning", "compareRunsMode": mode}
    return f"/#/experiments/{experiment_id}/runs?{urlencode(query)}"


def _state(kind: str, leak: str | None, measured: Collection[str]) -> dict[str, Any]:
    seeds = ["n_seeds"] if kind == "recipe" else []
    columns = [
        *(f"metrics.`{key}`" for key in (*_columns(leak, measured), *seeds, *NUMBERS)),
        *(f"tags.`{key}`" for key in (VERDICT, HIDING)),
    ]
    order = (
        {}
        if leak is None
        else {
            "orderByKey": f"metrics.`{ORDER if ORDER in measured else STRONGEST}`",
            "orderByAsc": ORDER in measured or BY_KEY[leak].better == "low",
        }
    )
    return {
        "searchFilter": f"tags.`{KIND}` = '{kind}'",
        **order,
        "selectedColumns": ["attributes.`Duration`", *columns],
        "columnOrder": [RUN_NAME, *columns, "duration", "runDateAndNestInfo"],  # as the page's grid calls its columns
        "columnWidths": {RUN_NAME: 340, "duration": 90},  # pixels
        "runsHiddenMode": "SHOW_ALL",  # else the charts hold ten runs
        "hideEmptyCharts": True,
        "isAccordionReordered": True,  # sections in this order
        "compareRunSections": [
            {"uuid": name, "name": name, "display": name != OTHERS_SECTION, "isReordered": False}
            for name in (FIRST_SECTION, CURVES_SECTION, OTHERS_SECTION)
        ],
        "compareRunCharts": _charts(leak, measured, CURVES if kind == "trial" else ()),
    }


def _columns(leak: str | None, measured: Collection[str]) -> list[str]:
    """The target's accuracy, the leak that decides, then what the other judges say.

    Rates of verification are left out unless they decide: a tag has no room for them, and the page can add any column.
    """
    wanted = dict.fromkeys(("test_acc", *([leak] if leak else ()), *CLOSED_SET, KNOWLEDGE))
    return [key for key in wanted if key in measured]


def _charts(leak: str | None, measured: Collection[str], curves: Collection[str]) -> list[dict[str, Any]]:
    charts = []
    judges = [key for key in CLOSED_SET if key in measured][:MOST_JUDGES]
    for judge in dict.fromkeys(([leak] if leak else []) + judges):
        title = f"test accuracy against {BY_KEY[judge].label}"
        charts.append(_scatter(title, ("METRIC", "test_acc"), ("METRIC", judge)))
    if leak is not None:
        charts.append(_scatter(f"alpha against {BY_KEY[leak].label}", ("PARAM", "recipe_alpha"), ("METRIC", leak)))
    return charts + [_line(key) for key in curves if key in measured]


def _scatter(title: str, x: tuple[str, str], y: tuple[str, str]) -> dict[str, Any]:
    axes = {name: {"type": axis[0], "key": axis[1]} for name, axis in (("xaxis", x), ("yaxis", y))}
    return {"type": "SCATTER", "displayName": title, **axes, **_card(title, FIRST_SECTION), "runsCountToCompare": 100}


def _line(key: str) -> dict[str, Any]:
    return {
        "type": "LINE",
        "metricKey": key,
        "selectedMetricKeys": [key],
        "xAxisKey": "step",
        "lineSmoothness": 0,
        "range": {},
        "yAxisKey": "metric",
        "useGlobalXaxisKey": True,
        **_card(key, CURVES_SECTION),
    }


def _card(name: str, section: str) -> dict[str, Any]:
    return {"uuid": name, "metricSectionId": section, "deleted": False, "isGenerated": False}
