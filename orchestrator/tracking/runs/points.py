"""Metrics as MLflow stores them: the numbers of a trial, its target's curves by epoch, its gradients' by step."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from smoothsweep.core.judges.table import stage_that_draws
from smoothsweep.core.readers.tables import read_rows
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.stages.stage import Stage, with_ancestors
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.tracking.runs.names import metrics_of

NO_CURVE = ("epoch", "seconds")  # every other column of a history is one, a defense's own facts included
PER_CALL = 1000  # MLflow's limit of metrics, params and tags together
PARAMS_PER_CALL = 100


def trial_points(trial: Trial, row: dict[str, Any], store: Store) -> Iterator[Any]:
    """Every metric of the trial, each at the time when its last stage finished."""
    from mlflow.entities import Metric

    at = finished_at(trial, store)
    for name, value in metrics_of(row).items():
        yield Metric(name, value, at, 0)
    for stage in trial.stages:
        if stage.name == "target" and store.has(stage):
            yield from _curves(stage, store)
        if stage.name == stage_that_draws("gradient_curves") and store.has(stage):
            yield from _gradients(stage, store)


def finished_at(trial: Trial, store: Store) -> int:
    """When the last of its finished stages ended, in milliseconds; 0 before any has."""
    finished = [store.manifest(stage)["finished_at"] for stage in trial.stages if store.has(stage)]
    return int(max(finished, default=0) * 1000)


def work_ms(trial: Trial, store: Store) -> int:
    """How long its finished stages took, one after the other, in milliseconds; those that it shares with others too."""
    finished = [stage for stage in with_ancestors(trial.stages) if store.has(stage)]
    return int(1000 * sum(store.manifest(stage)["seconds"] for stage in finished))


def _curves(stage: Stage, store: Store) -> Iterator[Any]:
    """Effective alpha, losses, logit gap, accuracies; step = zero-based epoch."""
    from mlflow.entities import Metric

    path = store.file(stage, "history.parquet")
    if path is None:
        return
    history, at = read_rows(path), int(store.manifest(stage)["finished_at"] * 1000)
    for name in history.columns.difference(NO_CURVE, sort=False):
        for epoch, value in zip(history["epoch"], history[name], strict=True):
            if value is not None and math.isfinite(value):
                yield Metric(f"epoch/{name}", float(value), at, int(epoch))


def _gradients(stage: Stage, store: Store) -> Iterator[Any]:
    """What was met along the descents, means over the classes; step = zero-based step of the descent."""
    from mlflow.entities import Metric

    path = store.file(stage, "gradients.parquet")
    if path is None:
        return
    at = int(store.manifest(stage)["finished_at"] * 1000)
    rows: Any = read_rows(path).itertuples()
    for row in rows:
        if math.isfinite(row.mean):
            yield Metric(f"descent/gradients_{row.quantity}_{row.loss}", float(row.mean), at, int(row.step))


def write(client: Any, run_id: str, *, params: dict[str, str], tags: dict[str, str], points: list[Any]) -> None:
    """Params, tags and metrics of a run in as few calls as MLflow's limits allow, mostly one."""
    from mlflow.entities import Param, RunTag

    params_left = [Param(key, value) for key, value in params.items()]
    run_tags = [RunTag(key, value[:4900]) for key, value in tags.items()]
    while params_left or run_tags or points:
        now, params_left = params_left[:PARAMS_PER_CALL], params_left[PARAMS_PER_CALL:]
        room = PER_CALL - len(now) - len(run_tags)
        client.log_batch(run_id, metrics=points[:room], params=now, tags=run_tags)
        points, run_tags = points[room:], []


def digest_of(points: Sequence[Any]) -> str:
    """Fingerprint of points, for a tag of the run that holds them: MLflow returns infinity as another number, and NaN
    equals nothing, so that no metric is read back to compare it. Equal points may be written twice."""
    told = [(point.key, point.step, point.timestamp, repr(point.value)) for point in points]
    return sha256(repr(told).encode()).hexdigest()[:12]


@contextmanager
def already_gone() -> Generator[None]:
    """Take what is to be deleted, and is not there, for deleted: by another driver, or before a kill."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
