"""The two-dimensional example's table and page, as the paper's Figures 1 and 8, read from the store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors.numpy import load_file

from smoothsweep.core.files import write_file
from smoothsweep.core.same_code import TREE
from smoothsweep.core.text import minus
from smoothsweep.orchestrator.page.figures.canvas import INK, Canvas
from smoothsweep.orchestrator.page.render import figure_files, fill, trial_rows
from smoothsweep.orchestrator.planning.trial import Trial
from smoothsweep.orchestrator.result.data import Axis, ReportData
from smoothsweep.orchestrator.result.format import ABSENT, aligned, ascii_text, significant
from smoothsweep.orchestrator.result.rows import relative_links, write_results
from smoothsweep.orchestrator.stages.stage import code_version
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.expand import LoadedSweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER = TREE / "sweeps" / "paper" / "toy.json"
NO_STOP_STEPS, EXTENT, SIDE, YELLOW = 5000, (-15.0, 15.0), 300, "#ffd60a"
TARGET_CLASS = 2
CLASSES = (("green circles", "#3f8f4f", "o"), ("blue squares", "#3b6fb6", "s"), ("orange pentagons", "#e07b1a", "p"))
FIGURES = (
    ("path", "distance", "The attack stops at 95 % confidence (Figure 1)"),
    ("endless_path", "distance_no_stop", f"The attack goes on for {NO_STOP_STEPS:,} steps (Figure 8)"),
)
HEAD = ("", "alpha", "steps", "steps, the paper's", "distance", "distance, the paper's")


def write_toy_report(
    loaded: LoadedSweep, trials: list[Trial], store: Store, failures: dict[str, str], out: Path
) -> tuple[str, list[Path], None]:
    """Write results.parquet and report.html into `out`; returns the table as text, the files, and no result."""
    table = write_results(trials, store, failures, out)
    done = [trial for trial in trials if store.has(trial.stages[0])]
    alphas = dict(zip(table["trial"], table["recipe_alpha"], strict=True))
    paper = {row["alpha"]: row for row in json.loads(PAPER.read_text())["rows"]}
    held = {alphas[trial.id]: load_file(store.path(trial.stages[0]) / "toy.safetensors") for trial in done}
    rows = []
    for path, column, title in FIGURES:
        for trial in done:
            alpha, distance = alphas[trial.id], store.metrics(trial.stages[0])[column]
            published = paper.get(alpha, {}) if path == "path" else {}
            steps = len(held[alpha]["path"]) - 2 if path == "path" else NO_STOP_STEPS
            distance_text = "left all bounds" if distance is None else significant(distance)
            theirs = [str(published.get(name) or "") for name in ("steps", "distance")]
            rows.append((title, minus(f"{alpha:g}"), f"{steps:,}", theirs[0], distance_text, theirs[1]))
    files = [out / "results.parquet"]
    if done:
        drawn = [toy_figure(title, path, held) for path, _, title in FIGURES]
        for number, canvas in enumerate(drawn, start=1):
            write_file(out / "figures" / f"toy-{number}.svg", canvas.file("toy.svg"), parents=True)
        write_file(out / "figures" / "overview.png", drawn[0].file("overview.png"))
        links = {trial.id: relative_links(trial, store, out) for trial in done}
        shown = ReportData(title=loaded.sweep.name, results=table, axes=(Axis(key="recipe_alpha"),), links=links)
        page = fill(
            "toy.html",
            title=loaded.sweep.name,
            classes=CLASSES,
            target=TARGET_CLASS,
            figures=drawn,
            head=HEAD,
            rows=rows,
            trials=trial_rows(shown),
            colour_rules="",
            intro=[paragraph for paragraph in loaded.intro.split("\n\n") if paragraph],
            about={"Sweep file": loaded.source, "Store": store.location, "Code": code_version()},
        )
        write_file(out / "report.html", page)
        files.append(out / "report.html")
    lines = [HEAD, *([cell or ABSENT for cell in row] for row in rows)]
    text = "\n".join(aligned([[ascii_text(cell) for cell in line] for line in lines], {0}))
    return text, [*files, *figure_files(out)], None


def toy_figure(title: str, name: str, held: Mapping[float, Mapping[str, np.ndarray]]) -> Canvas:
    """The panels of all models side by side. name: of the attack's path among the arrays; held: alpha -> arrays."""
    canvas = Canvas((SIDE + 6) * len(held), SIDE + 36, title)
    for index, (alpha, arrays) in enumerate(held.items()):
        left = (SIDE + 6) * index + 3
        axes = canvas.axes((left, 34, left + SIDE, 34 + SIDE), grid=None)
        _draw_panel(axes, arrays, arrays[name])
        axes.set_title(f"alpha {minus(f'{alpha:g}')}", fontsize=10, color=INK)
    return canvas


def _draw_panel(axes: Axes, held: Mapping[str, np.ndarray], path: np.ndarray) -> None:
    """Confidence as background, the training points, the attack's path, and the gap to the nearest point."""
    unsure = 1 / len(CLASSES)  # white where the model is unsure, the class's colour where it is certain
    certainty = np.clip((held["confidence"] - unsure) / (1 - unsure), 0, 1)[..., None]
    colours = np.array([list(bytes.fromhex(colour[1:])) for _, colour, _ in CLASSES], dtype=float)
    shaded = 255 + (colours[held["prediction"].astype(int)] - 255) * certainty * 0.55
    background = shaded.round().astype(np.uint8)[::-1]  # north up
    axes.imshow(background, extent=(*EXTENT, *EXTENT), interpolation="bilinear", aspect="auto")
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
