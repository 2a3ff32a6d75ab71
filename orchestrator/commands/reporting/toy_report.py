"""The two-dimensional example's table and page, read from the store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from safetensors.numpy import load_file

from smoothsweep.core.tree import TREE
from smoothsweep.orchestrator.page.writing import figure_files, write_report
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.reading.results import relative_links, write_results
from smoothsweep.orchestrator.reading.toy import ToyData, ToyFigure, ToyPanel
from smoothsweep.orchestrator.stages.code_version import code_version
from smoothsweep.orchestrator.store.common.base import Store
from smoothsweep.orchestrator.tracking.runs.verdicts import Verdicts
from smoothsweep.sweeps.loaded import LoadedSweep

PAPER = TREE / "sweeps" / "paper" / "toy.json"
CLASS_NAMES, TARGET_CLASS = ("green circles", "blue squares", "orange pentagons"), 2
NO_STOP_STEPS = 5000


def write_toy_report(
    loaded: LoadedSweep, trials: list[Trial], store: Store, failures: dict[str, str], out: Path
) -> tuple[str, list[Path], Verdicts]:
    """Write results.parquet and report.html into `out`; returns the table as text, the files, and no verdicts."""
    table = write_results(trials, store, failures, out)
    paper = {row["alpha"]: row for row in json.loads(PAPER.read_text())["rows"]}
    files = [out / "results.parquet"]
    done = [trial for trial in trials if store.has(trial.stages[0])]
    if done:
        files.append(write_report(_toy_data(loaded, done, store, table, paper, out), out))
    return _text(table, paper), [*files, *figure_files(out)], Verdicts()


def _toy_data(
    loaded: LoadedSweep, trials: list[Trial], store: Store, table: pd.DataFrame, paper: Mapping[float, Any], out: Path
) -> ToyData:
    arrays = {trial.id: load_file(store.path(trial.stages[0]) / "toy.safetensors") for trial in trials}
    first = arrays[trials[0].id]
    stopping = tuple(_panel(t, store, arrays[t.id], paper, stops=True) for t in trials)
    endless = tuple(_panel(t, store, arrays[t.id], paper, stops=False) for t in trials)
    return ToyData(
        title=loaded.sweep.name,
        points=first["points"],
        labels=first["labels"],
        class_names=CLASS_NAMES,
        target_class=TARGET_CLASS,
        results=table,
        figures=(
            ToyFigure(title="The attack stops at 95 % confidence", panels=stopping, caption="The paper's Figure 1."),
            ToyFigure(title=f"The attack goes on for {NO_STOP_STEPS:,} steps", panels=endless, caption="Figure 8."),
        ),
        intro=tuple(paragraph for paragraph in loaded.intro.split("\n\n") if paragraph),
        facts={"Sweep file": loaded.source, "Store": store.location, "Code": code_version()},
        links={t.id: relative_links(t, store, out) for t in trials},
    )


def _panel(
    trial: Trial, store: Store, arrays: Mapping[str, Any], paper: Mapping[float, Any], *, stops: bool
) -> ToyPanel:
    metrics, alpha = store.metrics(trial.stages[0]), trial.settings.alpha
    published = paper.get(alpha, {}) if stops else {}
    path = arrays["path" if stops else "endless_path"]
    return ToyPanel(
        alpha=alpha,
        confidence=arrays["confidence"],
        predicted=arrays["prediction"],
        path=path,
        steps=len(path) - 2 if stops else NO_STOP_STEPS,
        distance=metrics["distance" if stops else "distance_no_stop"],
        paper_steps=published.get("steps"),
        paper_distance=published.get("distance"),
    )


def _text(table: pd.DataFrame, paper: Mapping[float, Any]) -> str:
    lines = [f"{'alpha':>7} {'steps':>7} {'paper':>7} {'distance':>10} {'paper':>7}"]
    for row in table.to_dict("records"):
        published = paper.get(row["recipe_alpha"], {})
        steps = "-" if pd.isna(row["steps"]) else f"{row['steps']:.0f}"
        distance = "-" if pd.isna(row["distance"]) else f"{row['distance']:.3f}"
        lines.append(
            f"{row['recipe_alpha']:>7g} {steps:>7} {published.get('steps', '-'):>7} {distance:>10} "
            f"{published.get('distance') or '-':>7}"
        )
    return "\n".join(lines)
