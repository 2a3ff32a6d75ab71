"""MLflow: the record people compare in. A view of the store, written by the driver alone, and only ever added to once.

One experiment per sweep name; in it one parent run for the sweep and one child run per trial, found again by the
trial's fingerprint. Every point is written with the time its stage finished, so that writing it a second time (after
a kill, say) writes the identical row, which MLflow drops.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from core.errors import InputError
from orchestrator.pictures import contact_sheet_png
from orchestrator.results import METRIC_COLUMNS, TOY_COLUMNS, trial_row
from orchestrator.stage import Stage
from orchestrator.store import Store
from orchestrator.trial import Trial

TRIAL_TAG, SWEEP_TAG = "smoothsweep.trial", "smoothsweep.sweep"
METRICS_PER_CALL = 1000  # MLflow's limit
NO_CURVE = ("epoch", "seconds")  # every other column of a history is one, a defense's own facts included
TIMEOUT_S = "20"  # of one request; a server that is away costs seconds, not the sweep


def local_uri(store: Store) -> str:
    return f"sqlite:///{store.root / 'mlflow.db'}"


class Tracker:
    """Writes trials of one sweep into MLflow. Construction connects; InputError if there is no server at the URI."""

    def __init__(self, uri: str, *, store: Store, experiment: str) -> None:
        self.store = store
        self._client = _connect(uri)
        self._experiment_id = self._experiment(experiment, uri)
        self.uri = uri

    def sweep_run(self, name: str, tags: dict[str, str]) -> str:
        """The parent run of this sweep: found by its tag, else created. Returns its id."""
        run_id = self._find(SWEEP_TAG, name)
        if run_id is None:
            tags = {SWEEP_TAG: name, "mlflow.runName": name, "mlflow.source.name": "smoothsweep", **tags}
            return self._client.create_run(self._experiment_id, tags=tags).info.run_id
        for key, value in tags.items():
            self._client.set_tag(run_id, key, value)
        return run_id

    def record(self, trial: Trial, parent: str, failure: str | None = None) -> None:
        """Write everything known of the trial into its run. Calling it again changes nothing."""
        row = trial_row(trial, self.store, failure)
        run_id, status = self._trial_run(trial, parent)
        if status == "FINISHED":
            return
        self._client.log_batch(run_id, params=_params(row), tags=_tags(row))
        for batch in _chunks(list(self._points(trial, row))):
            self._client.log_batch(run_id, metrics=batch)
        with tempfile.TemporaryDirectory() as folder:
            for path in self._artifacts(trial, row, Path(folder)):
                self._client.log_artifact(run_id, str(path))
        self._client.set_terminated(run_id, "FINISHED" if row["status"] == "done" else "FAILED")

    def close_sweep(self, parent: str, files: list[Path], failed: int) -> None:
        """Add the sweep's report and table to its parent run, and end it."""
        for path in files:
            self._client.log_artifact(parent, str(path))
        self._client.set_terminated(parent, "FAILED" if failed else "FINISHED")

    def _experiment(self, name: str, uri: str) -> str:
        found = self._client.get_experiment_by_name(name)
        if found is not None:
            if found.lifecycle_stage != "active":
                self._client.restore_experiment(found.experiment_id)
            return found.experiment_id
        location = (self.store.root / "mlartifacts" / name).as_uri() if uri.startswith("sqlite:") else None
        kind = {"mlflow.experimentKind": "custom_model_development"}  # the pages open on runs and their comparison
        return self._client.create_experiment(name, artifact_location=location, tags=kind)

    def _trial_run(self, trial: Trial, parent: str) -> tuple[str, str]:
        """(run id, status) of the trial's run, created in one transaction with its tags if there is none."""
        run_id = self._find(TRIAL_TAG, trial.id)
        if run_id is not None:
            return run_id, self._client.get_run(run_id).info.status
        tags = {TRIAL_TAG: trial.id, "mlflow.parentRunId": parent, "mlflow.runName": trial.label}
        return self._client.create_run(self._experiment_id, tags=tags).info.run_id, "RUNNING"

    def _find(self, tag: str, value: str) -> str | None:
        runs = self._client.search_runs([self._experiment_id], f"tags.`{tag}` = '{value}'", max_results=1)
        return runs[0].info.run_id if runs else None

    def _points(self, trial: Trial, row: dict[str, Any]) -> Iterator[Any]:
        from mlflow.entities import Metric

        finished = [self.store.manifest(s)["finished_at"] for s in trial.stages if self.store.has(s)]
        at = int(max(finished, default=0) * 1000)
        for column in (*METRIC_COLUMNS, *TOY_COLUMNS):
            value = row.get(column)
            if value is not None and math.isfinite(value):
                yield Metric(column, float(value), at, 0)
        for stage in trial.stages:
            history = self.store.path(stage) / "history.parquet"
            if stage.name == "target" and history.is_file():
                yield from _curve_points(pd.read_parquet(history), stage, self.store)

    def _artifacts(self, trial: Trial, row: dict[str, Any], folder: Path) -> Iterator[Path]:
        """The trial's table, manifests and contact sheet as files to log."""
        table = folder / "result.json"
        table.write_text(json.dumps({"columns": list(row), "data": [[_plain(v) for v in row.values()]]}))
        yield table
        manifests = folder / "manifests.json"
        done = [s for s in trial.stages if self.store.has(s)]
        manifests.write_text(json.dumps({s.name: self.store.manifest(s) for s in done}, indent=1))
        yield manifests
        for stage in done:
            rows = self.store.path(stage) / "per_class.parquet"
            if rows.is_file():
                target = folder / f"{stage.name}_per_class.parquet"
                target.write_bytes(rows.read_bytes())
                yield target
        sheet = contact_sheet_png(trial, self.store)
        if sheet is not None:
            (folder / "contact_sheet.png").write_bytes(sheet)
            yield folder / "contact_sheet.png"


def tracking_errors() -> tuple[type[Exception], ...]:
    """What MLflow raises when it cannot be reached or refuses a write."""
    from mlflow.exceptions import MlflowException

    return (MlflowException,)


def _connect(uri: str) -> Any:
    """A client that has spoken with the tracking store once; quiet, without telemetry, impatient."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", TIMEOUT_S)
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    import logging

    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        client.search_experiments(max_results=1)
    except (MlflowException, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"--tracking-uri {uri}: expected an MLflow tracking store, got: {reason}") from None
    return client


def _curve_points(history: pd.DataFrame, stage: Stage, store: Store) -> Iterator[Any]:
    """Per-epoch curves of the target, effective alpha included; step = zero-based epoch."""
    from mlflow.entities import Metric

    at = int(store.manifest(stage)["finished_at"] * 1000)
    for name in history.columns.difference(NO_CURVE, sort=False):
        for epoch, value in zip(history["epoch"], history[name], strict=True):
            if value is not None and math.isfinite(value):
                yield Metric(f"epoch/{name}", float(value), at, int(epoch))


def _params(row: dict[str, Any]) -> list[Any]:
    from mlflow.entities import Param

    skipped = {"trial", "status", "failure", "reasons", *METRIC_COLUMNS, *TOY_COLUMNS}
    return [Param(k, str(v)) for k, v in row.items() if k not in skipped and not k.startswith("seconds_")]


def _tags(row: dict[str, Any]) -> list[Any]:
    from mlflow.entities import RunTag

    tags = {"smoothsweep.reasons": row["reasons"]}
    if row["failure"]:
        tags["smoothsweep.failure"] = row["failure"]
    return [RunTag(key, value[:4000]) for key, value in tags.items()]


def _chunks(points: list[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(points), METRICS_PER_CALL):
        yield points[start : start + METRICS_PER_CALL]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
