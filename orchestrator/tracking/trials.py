"""One trial as a run: what it is, what it measured, its curves, tables and pictures."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from smoothsweep.core.files import write_file
from smoothsweep.orchestrator.page.pictures import contact_sheet_png
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.store.base import Store

TABLES = json.dumps([{"path": "result.json", "type": "table"}])  # what MLflow's pages show as a table


def trial_tags(trial: Trial, row: dict[str, Any], store: Store) -> dict[str, str]:
    """What runs are filtered by, beside their kind: phase, the code that made the numbers, why some are missing."""
    codes = dict.fromkeys(store.manifest(stage)["code_version"] for stage in trial.stages if store.has(stage))
    tags = {
        "smoothsweep.phase": trial.phase,
        "smoothsweep.reasons": row["reasons"],
        "smoothsweep.code": ", ".join(codes),
        "mlflow.loggedArtifacts": TABLES,
    }
    if row["failure"]:
        tags["smoothsweep.failure"] = row["failure"]
    return tags


def trial_status(row: dict[str, Any]) -> str:
    """The trial's status as MLflow calls it. A trial that was stopped on purpose is open, not failed."""
    if row["status"] == "done":
        return "FINISHED"
    return "KILLED" if (row["failure"] or "stopped").startswith("stopped") else "FAILED"


def write_trial_files(trial: Trial, row: dict[str, Any], store: Store, folder: Path) -> None:
    """result.json (MLflow's table format), manifests.json, the rows by class, contact_sheet.png."""
    write_file(folder / "result.json", table_json(list(row), [list(row.values())]), flush=False)
    done = [stage for stage in trial.stages if store.has(stage)]
    manifests = {stage.name: store.manifest(stage) for stage in done}
    write_file(folder / "manifests.json", json.dumps(manifests, indent=1), flush=False)
    for stage in done:
        rows = store.file(stage, "per_class.parquet")
        if rows is not None:
            write_file(folder / f"{stage.name}_per_class.parquet", rows.read_bytes(), flush=False)
    sheet = contact_sheet_png(trial, store)
    if sheet is not None:
        write_file(folder / "contact_sheet.png", sheet, flush=False)


def table_json(columns: list[str], rows: list[list[Any]]) -> str:
    """A table as MLflow's pages read it; what is not finite is null."""
    return json.dumps({"columns": columns, "data": [[_plain(value) for value in row] for row in rows]})


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
