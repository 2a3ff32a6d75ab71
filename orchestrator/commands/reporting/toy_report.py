"""The two-dimensional example's table and page, as the paper's Figures 1 and 8, read from the store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
from safetensors.numpy import load_file

from smoothsweep.core.files import write_file
from smoothsweep.core.text import minus
from smoothsweep.core.tree import TREE
from smoothsweep.orchestrator.page.drawing.canvas import INK, SOFT, Canvas
from smoothsweep.orchestrator.page.render import fill
from smoothsweep.orchestrator.page.writing import figure_files
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.result.data import Axis
from smoothsweep.orchestrator.result.format import significant
from smoothsweep.orchestrator.result.rows import relative_links, write_results
from smoothsweep.orchestrator.stages.code_version import code_version
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.orchestrator.tracking.runs import Verdicts
from smoothsweep.sweeps.loaded import LoadedSweep
from smoothsweep.sweeps.schema import ToySweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER = TREE / "sweeps" / "paper" / "toy.json"
TARGET_CLASS, NO_STOP_STEPS = 2, 5000
CLASSES = (("green circles", "#3f8f4f", "o"), ("blue squares", "#3b6fb6", "s"), ("orange pentagons", "#e07b1a", "p"))
EXTENT = (-15.0, 15.0)
SIDE, YELLOW = 300, "#ffd60a"
FIGURES = (
    ("path", "The attack stops at 95 % confidence (Figure 1)"),
    ("endless_path", f"The attack goes on for {NO_STOP_STEPS:,} steps (Figure 8)"),
)


def write_toy_report(
    loaded: LoadedSweep, trials: list[Trial], store: Store, failures: dict[str, str], out: Path
) -> tuple[str, list[Path], Verdicts]:
    """Write results.parquet and report.html into `out`; returns the table as text, the files, and no verdicts."""
    table = write_results(trials, store, failures, out)
    paper = {row["alpha"]: row for row in json.loads(PAPER.read_text())["rows"]}
    files = [out / "results.parquet"]
    done = [trial for trial in trials if store.has(trial.stages[0])]
    if done:
        alphas = [cast(ToySweep, trial.settings).alpha for trial in done]
        arrays = [load_file(store.path(trial.stages[0]) / "toy.safetensors") for trial in done]
        drawn = [toy_figure(title, name, alphas, arrays) for name, title in FIGURES]
        for number, canvas in enumerate(drawn, start=1):
            write_file(out / "figures" / f"toy-{number}.svg", canvas.file("toy.svg"), parents=True)
        write_file(out / "figures" / "overview.png", drawn[0].file("overview.png"))
        metrics = [store.metrics(trial.stages[0]) for trial in done]
        page = fill(
            "toy.html",
            title=loaded.sweep.name,
            answer=_answer(alphas, metrics),
            classes=CLASSES,
            target=TARGET_CLASS,
            figures=drawn,
            rows=_rows(alphas, arrays, metrics, paper),
            trials=table,
            axes=(Axis(key="recipe_alpha"),),
            colour_rules="",
            intro=[paragraph for paragraph in loaded.intro.split("\n\n") if paragraph],
            facts_shown={"Sweep file": loaded.source, "Store": store.location, "Code": code_version()},
            links={trial.id: relative_links(trial, store, out) for trial in done},
        )
        write_file(out / "report.html", page)
        files.append(out / "report.html")
    return _text(table, paper), [*files, *figure_files(out)], Verdicts()


def _answer(alphas: list[float], metrics: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where the attacks ended, nearest first."""
    ends = sorted((one["distance"], alpha) for one, alpha in zip(metrics, alphas, strict=True) if one["distance"])
    if not ends:
        return ["No attack ended anywhere near: each left all bounds."]
    words = "; ".join(f"with alpha {minus(f'{alpha:g}')} {significant(distance)} away" for distance, alpha in ends)
    first = f"The attack ends at these distances from the nearest training point of its target class: {words}."
    return [first, "One model and one start each: an illustration, not evidence."]


def _rows(
    alphas: list[float],
    arrays: list[dict[str, np.ndarray]],
    metrics: Sequence[Mapping[str, Any]],
    paper: Mapping[float, Mapping[str, Any]],
) -> list[tuple[str, ...]]:
    """Figure, alpha, steps, the paper's, distance, the paper's."""
    rows = []
    for (name, title), key in zip(FIGURES, ("distance", "distance_no_stop"), strict=True):
        for alpha, held, measured in zip(alphas, arrays, metrics, strict=True):
            published = paper.get(alpha, {}) if name == "path" else {}
            steps = len(held["path"]) - 2 if name == "path" else NO_STOP_STEPS
            distance = "left all bounds" if measured[key] is None else significant(measured[key])
            theirs = [str(published.get(one) or "") for one in ("steps", "distance")]
            rows.append((title, minus(f"{alpha:g}"), f"{steps:,}", theirs[0], distance, theirs[1]))
    return rows


def toy_figure(title: str, name: str, alphas: list[float], arrays: list[dict[str, np.ndarray]]) -> Canvas:
    """The panels of all models side by side. name: of the attack's path among the arrays."""
    canvas = Canvas((SIDE + 6) * len(alphas), SIDE + 36, title)
    for index, (alpha, held) in enumerate(zip(alphas, arrays, strict=True)):
        axes = canvas.axes((SIDE + 6) * index + 3, 34, (SIDE + 6) * index + 3 + SIDE, 34 + SIDE, grid=None)
        _draw_panel(axes, held, held[name])
        axes.set_title(f"alpha {minus(f'{alpha:g}')}", fontsize=10, color=INK)
    return canvas


def _draw_panel(axes: Axes, held: Mapping[str, np.ndarray], path: np.ndarray) -> None:
    """Confidence as background, the training points, the attack's path, and the gap to the nearest point."""
    axes.imshow(_background(held), extent=(*EXTENT, *EXTENT), interpolation="bilinear", aspect="auto")
    for label, (_, colour, mark) in enumerate(CLASSES):
        mine = held["points"][held["labels"] == label]
        axes.plot(mine[:, 0], mine[:, 1], mark, ms=5.5, color=colour, mec=INK, mew=0.6)
    finite = np.isfinite(path).all(axis=1).cumprod().astype(bool)
    drawn = path[finite] if finite[0] else np.zeros((1, 2))
    keep = np.unique(np.linspace(0, len(drawn) - 1, min(len(drawn), 400)).round().astype(int))
    drawn = np.clip(drawn[keep], 20 * EXTENT[0], 20 * EXTENT[1])  # a renderer's arithmetic ends somewhere
    for colour, width in ((INK, 5), (YELLOW, 2.8)):
        axes.plot(drawn[:, 0], drawn[:, 1], color=colour, lw=width, gid="path")
    mine = held["points"][held["labels"] == TARGET_CLASS]
    if np.isfinite(path[-1]).all():
        nearest = mine[np.linalg.norm(mine - path[-1], axis=1).argmin()]
        axes.plot(*zip(drawn[-1], nearest, strict=True), color=INK, lw=1.6, ls=(0, (4, 3)))
    for point, face in ((drawn[0], "white"), (drawn[-1], YELLOW)):
        axes.plot(*point, "o", ms=11, mfc=face, mec=INK, mew=2)
    axes.set(xlim=EXTENT, ylim=EXTENT, xticks=[], yticks=[])
    axes.tick_params(labelcolor=SOFT)


def _background(held: Mapping[str, np.ndarray]) -> np.ndarray:
    """uint8 [R, R, 3], north up: white where the model is unsure, the class's colour where it is certain."""
    unsure = 1 / len(CLASSES)
    certainty = np.clip((held["confidence"] - unsure) / (1 - unsure), 0, 1)[..., None]
    colours = np.array([list(bytes.fromhex(colour[1:])) for _, colour, _ in CLASSES], dtype=float)
    shaded = 255 + (colours[held["prediction"].astype(int)] - 255) * certainty * 0.55
    return np.ascontiguousarray(shaded.round().astype(np.uint8)[::-1])


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
