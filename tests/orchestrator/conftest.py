"""A made-up sweep with everything a report meets: seeds, attacks, failures, gaps, and names that mean harm."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from smoothsweep.core.defenses.labels import recipe_words
from smoothsweep.orchestrator.reading.numbers.model import (
    Axis,
    ContactSheet,
    PaperReference,
    ReportData,
    SheetRow,
    StageLink,
    Tile,
)
from smoothsweep.orchestrator.reading.toy import ToyData, ToyFigure, ToyPanel
from smoothsweep.orchestrator.tracking.server.connection import connect
from smoothsweep.sweeps.paper_settings import Standing
from tests.commands import Commands, commands

HOSTILE = "<script>alert(1)</script>"
NAMES = (HOSTILE, 'Zoë "Z" O\'Hara & Söhne', "王小明", "]]><b>x", "plain name")

# alpha -> test accuracy, independent judge, evaluator
TRUTH = {-0.2: (0.86, 0.13, 0.95), -0.05: (0.87, 0.28, 0.97), 0.0: (0.872, 0.39, 0.98), 0.1: (0.875, 0.50, 0.99)}
AXES = (
    Axis(key="alpha"),
    Axis(key="attack_loss", role="attack", values={"ce": "cross entropy", "poincare": "Poincaré"}),
)


def trial_id(*parts: Any) -> str:
    return sha256(repr(parts).encode()).hexdigest()[:12]


def make_frames(
    *, seeds: int = 3, classes: int = 20, losses: tuple[str, ...] = ("ce", "poincare"), noise: float = 0.02
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """results and per_class with the paper's direction built in; the Poincaré attack sees little of it."""
    rng = np.random.default_rng(0)
    names = [*NAMES, *(f"person {i}" for i in range(classes))][:classes]
    rows, hits = [], []
    for loss in losses:
        for seed in range(seeds):
            for alpha, (acc, judge, evaluator) in TRUTH.items():
                trial = trial_id(alpha, loss, seed)
                mean = judge if loss == "ce" else 0.3 + 0.45 * judge
                shift, by_class = rng.normal(0, noise), {}
                for key, centre in (("embedder_acc1", mean), ("attack_acc1", evaluator)):
                    by_class[key] = np.clip(rng.normal(centre + shift, 0.1, classes), 0, 1)
                hits.append(pd.DataFrame({"trial": trial, "class": names, **by_class}))
                wobble = np.random.default_rng([seed, round(1000 * alpha + 500)]).normal(0, 0.004)
                rows.append(
                    {
                        "trial": trial,
                        "seed": seed,
                        "status": "done",
                        "failure": None,
                        "protocol": "clean",
                        "alpha": alpha,
                        "attack_loss": loss,
                        "test_acc": acc + wobble,
                        "ece": 0.05 + abs(wobble),
                        "dist_face": 1.1 - mean + shift,
                        "dist_eval": 151.4 - 100 * mean + 50 * shift,
                        "xi_train": None,
                        "fid": None,
                        "gradient_cosine": 0.2 + 0.8 * judge,
                        "target_conf": 0.99,
                        "embedder_real_acc": 0.985,
                        "evaluator_real_acc": 0.91,
                        **{key: float(values.mean()) for key, values in by_class.items()},
                    }
                )
    return pd.DataFrame(rows), pd.concat(hits, ignore_index=True)


def spoil(results: pd.DataFrame) -> pd.DataFrame:
    """One trial failed, one never ran: their metrics are gone."""
    results = results.copy()
    metrics = [c for c in results.columns if results[c].dtype == float and c not in ("alpha", "seed")]
    for row, status, failure in ((0, "failed", f"worker died: {HOSTILE}"), (len(results) - 1, "missing", None)):
        results.loc[row, ["status", "failure"]] = [status, failure]
        results.loc[row, metrics] = np.nan
    return results


def picture(seed: int, size: int = 16) -> np.ndarray:
    """uint8 [size, size, 3]."""
    return np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8)


def make_sheet(
    rows: int = 5, columns: tuple[str, ...] = ("alpha\u00a0\u22120.2", "alpha\u00a00", "alpha\u00a00.1")
) -> ContactSheet:
    def row(index: int) -> SheetRow:
        tiles = [Tile(image=picture(10 * index + c), recognised=c == 1, note="0.92") for c in range(len(columns) - 1)]
        return SheetRow(name=NAMES[index], real=Tile(image=picture(index)), reconstructions=(*tiles, None))

    return ContactSheet(
        title="Five classes", columns=columns, rows=tuple(row(i) for i in range(rows)), caption="Cross entropy"
    )


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow database with its tables and nothing in them, to be copied: making one costs seven seconds."""
    path = tmp_path_factory.mktemp("empty") / "mlflow.db"
    connect(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def make_data() -> Callable[..., ReportData]:
    """Builds a full report's data; keyword arguments replace fields."""

    def build(**changes: Any) -> ReportData:
        results, per_class = make_frames()
        epochs = np.arange(40)
        ramp = np.clip((epochs - 20) / 10, 0, 1)
        fields: dict[str, Any] = {
            "title": "Quickstart: does smoothing leak?",
            "results": spoil(results),
            "per_class": per_class,
            "axes": AXES,
            "intro": ("Twenty look-alike identities.", f"A comment with {HOSTILE} in it."),
            "facts": {"store": "store/", "device": "cpu, 2 cores", "wall time": "12 min"},
            "baseline": {"alpha": 0.0},
            "reasons": {"fid": "no FID judge at this scale", "xi_train": "the sweep does not ask for it"},
            "alpha_curves": {
                "alpha\u00a0\u22120.2": list(-0.2 * ramp),
                "alpha\u00a00": [0.0] * 40,
                "alpha\u00a00.1": [0.1] * 40,
            },
            "training_curves": {
                name: [
                    {
                        "epoch": e,
                        "loss": s + np.exp(-e / 9),
                        "train_acc": 1 - 0.9 * np.exp(-e / 8),
                        "test_acc": 0.87 - 0.8 * np.exp(-e / 7) if e % 2 else float("nan"),
                    }
                    for e in range(40)
                ]
                for name, s in (("alpha\u00a0\u22120.2", 0.1), ("alpha\u00a00", 0.2), ("alpha\u00a00.1", 0.5))
            },
            "sheets": (make_sheet(),),
            "links": {
                trial: (
                    StageLink(stage="target", path="../store/target/ab12/manifest.json", seconds=62.4),
                    StageLink(stage="attack", path="javascript:alert(1)", seconds=3725.0),
                )
                for trial in results["trial"]
            },
            "paper": PaperReference(
                table="1",
                datasets=("facescrub",),
                standings={
                    row["trial"]: Standing(
                        axes={
                            "dataset": "facescrub",
                            "architecture": "resnet152",
                            "defense": "label_smoothing",
                            "alpha": row["alpha"],
                            "samples_per_class": None,
                            "attack": "ppa",
                        },
                        incomparable={"dist_eval": "features of another network"},
                    )
                    for row in results.to_dict("records")
                },
            ),
        }
        return ReportData(**(fields | changes))

    return build


@pytest.fixture(scope="session")
def toy_data() -> ToyData:
    """Three clouds, three models, straight attack paths."""
    rng = np.random.default_rng(1)
    centres = np.array([[-6.0, -4.0], [6.0, -4.0], [0.0, 7.0]])
    labels = np.repeat([0, 1, 2], 30)
    points = centres[labels] + rng.normal(0, 1.0, (90, 2))
    axis = np.linspace(-15, 15, 100)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1)
    distances = np.linalg.norm(grid[:, :, None] - centres, axis=-1)
    panels = []
    for alpha, sharpness, reach, steps in ((0.0, 1.0, 0.7, 763), (0.05, 0.3, 0.95, 3113), (-0.05, 5.0, 0.5, 53)):
        logits = -sharpness * distances
        soft = np.exp(logits - logits.max(-1, keepdims=True))
        confidence = (soft / soft.sum(-1, keepdims=True)).max(-1)
        path = np.linspace(centres[1], centres[1] + reach * (centres[2] - centres[1]), steps + 1)
        end = np.linalg.norm(points[labels == 2] - path[-1], axis=1).min()
        paper = {0.0: (763, 3.23), 0.05: (3113, 0.65), -0.05: (53, None)}[alpha]
        panels.append(
            ToyPanel(
                alpha=alpha,
                confidence=confidence,
                predicted=distances.argmin(-1),
                path=path,
                steps=steps,
                distance=float(end),
                label="hard labels" if alpha == 0 else "",
                paper_steps=paper[0],
                paper_distance=paper[1],
            )
        )
    figures = (
        ToyFigure(title="Stopping at 95 % confidence", panels=tuple(panels), caption="As in the paper's Figure 1."),
        ToyFigure(title="5,000 steps without stopping", panels=tuple(panels), caption="As in the paper's Figure 8."),
    )
    return ToyData(
        title="The two-dimensional example",
        points=points,
        labels=labels,
        target_class=2,
        figures=figures,
        class_names=("blue squares", "green circles", "orange pentagons"),
        intro=(f"Comment {HOSTILE}",),
    )


# defense -> test accuracy, independent judge under cross entropy, seconds of a training over plain training's
DEFENSES: tuple[tuple[dict[str, Any], tuple[float, float, float]], ...] = (
    ({"kind": "label_smoothing", "alpha": 0.0}, (0.93, 0.62, 1.0)),
    ({"kind": "label_smoothing", "alpha": 0.1}, (0.935, 0.70, 1.0)),
    ({"kind": "label_smoothing", "alpha": -0.05}, (0.925, 0.50, 1.0)),
    ({"kind": "label_smoothing", "alpha": -0.2}, (0.90, 0.30, 1.0)),
    ({"kind": "mid", "beta": 0.001}, (0.925, 0.61, 1.1)),
    ({"kind": "mid", "beta": 0.003}, (0.91, 0.58, 1.1)),
    ({"kind": "mid", "beta": 0.01}, (0.86, 0.47, 1.1)),
    ({"kind": "bido", "lambda_input": 0.05, "lambda_label": 0.5}, (0.915, 0.55, 1.8)),
    ({"kind": "bido", "lambda_input": 0.05, "lambda_label": 1.0}, (0.89, 0.44, 1.8)),
    ({"kind": "bido", "lambda_input": 0.05, "lambda_label": 0.5, "measure": "coco"}, (0.90, 0.52, 1.6)),
    ({"kind": "freeze", "stages": 1}, (0.92, 0.60, 0.8)),
    ({"kind": "freeze", "stages": 2}, (0.88, 0.48, 0.6)),
    ({"kind": "random_erasing"}, (0.92, 0.46, 1.0)),
    ({"kind": "random_erasing", "area": [0.2, 0.6]}, (0.90, 0.38, 1.0)),
    ({"kind": "skip_removal"}, (0.87, 0.43, 1.0)),
    ({"kind": "skip_removal", "scale": 0.5}, (0.915, 0.57, 1.0)),
    ({"kind": "dropout", "p": 0.3}, (0.93, 0.61, 1.0)),
    ({"kind": "dropout", "p": 0.5}, (0.925, 0.60, 1.0)),
    ({"kind": "dropout", "p": 0.5, "smoothing": {"alpha": -0.05}}, (0.915, 0.47, 1.0)),
    ({"kind": "weight_decay", "value": 0.0005}, (0.935, 0.63, 1.0)),
    ({"kind": "weight_decay", "value": 0.005}, (0.92, 0.57, 1.0)),
    ({"kind": "focal", "gamma": 2.0}, (0.925, 0.66, 1.0)),
    ({"kind": "confidence_penalty", "beta": 0.1}, (0.93, 0.65, 1.0)),
    ({"kind": "mixup", "alpha": 0.4}, (0.935, 0.56, 1.0)),
    ({"kind": "mixup", "alpha": 0.4, "smoothing": {"alpha": -0.05}}, (0.92, 0.45, 1.0)),
    ({"kind": "logit_clipping", "norm": 5.0}, (0.55, 0.20, 1.0)),
    ({"kind": "loft", "rank": 50}, (0.92, 0.57, 1.0)),
    ({"kind": "at_at"}, (0.915, 0.50, 7.0)),
    ({"kind": "ssd", "eps": 0.5}, (0.91, 0.55, 1.0)),
    ({"kind": "dp_sgd", "noise": 0.5}, (0.87, 0.40, 9.0)),
    ({"kind": "trap_mid"}, (0.90, 0.45, 4.0)),
)


def as_text(defense: dict[str, Any]) -> str:
    """A defense as the axis of a sweep gives it."""
    return " ".join(f"{key}={value}" for key, value in defense.items())


def defense_frames(
    seeds: int, classes: int, losses: tuple[str, ...], kept: Container[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """results and per_class of the defenses kept (by their text); the Poincaré attack sees less of what they hide."""
    rows, hits = [], []
    for defense, (acc, judge, cost) in (pair for pair in DEFENSES if as_text(pair[0]) in kept):
        for seed in range(seeds):
            rng = np.random.default_rng(int(trial_id(defense, seed), 16))
            trained = {"test_acc": acc + rng.normal(0, 0.004), "seconds_target": 60 * cost * (1 + rng.uniform(0, 0.1))}
            for loss in losses:
                trial = trial_id(as_text(defense), loss, seed)
                mean = judge if loss == "cross_entropy" else 0.25 + 0.5 * judge
                shift, by_class = rng.normal(0, 0.02), {}
                for key, centre in (("embedder_acc1", mean), ("attack_acc1", 0.5 + 0.5 * mean)):
                    by_class[key] = np.clip(rng.normal(centre + shift, 0.12, classes), 0, 1)
                hits.append(pd.DataFrame({"trial": trial, "class": [f"p{i}" for i in range(classes)], **by_class}))
                means = {key: float(values.mean()) for key, values in by_class.items()}
                axes = {"defense": as_text(defense), "attack_loss": loss}
                rows.append({"trial": trial, "seed": seed, "status": "done", "failure": None} | axes | trained | means)
    return pd.DataFrame(rows), pd.concat(hits, ignore_index=True)


@pytest.fixture(scope="session")
def defense_data() -> Callable[..., ReportData]:
    """Builds a sweep over defenses: 30 recipes; keyword arguments replace fields. failing: trials by their place in
    the results that failed; only: the kinds of defense to keep beside plain training."""

    def build(
        *,
        seeds: int = 3,
        classes: int = 12,
        losses: tuple[str, ...] = ("cross_entropy", "poincare"),
        failing: tuple[int, ...] = (),
        only: tuple[str, ...] | None = None,
        **changes: Any,
    ) -> ReportData:
        kept = {as_text(d): d for d, _ in DEFENSES if only is None or d["kind"] in only or d.get("alpha") == 0}
        results, per_class = defense_frames(seeds, classes, losses, kept)
        for place in failing:
            metrics = ["test_acc", "embedder_acc1", "attack_acc1", "seconds_target"]
            results.loc[place, ["status", "failure"]] = ["failed", "the loss is not finite"]
            results.loc[place, metrics] = np.nan
        axes = (
            Axis(key="defense", bare=True, defense=True, values={t: recipe_words(d).label for t, d in kept.items()}),
            Axis(key="attack_loss", role="attack", values={"poincare": "Poincaré", "cross_entropy": "cross entropy"}),
        )
        fields: dict[str, Any] = {
            "title": "Which defense?",
            "results": results,
            "per_class": per_class,
            "axes": axes,
            "baseline": {"defense": as_text(DEFENSES[0][0])},
            "defenses": {row["trial"]: kept[row["defense"]] for row in results.to_dict("records")},
        }
        return ReportData(**(fields | changes))

    return build


@pytest.fixture(scope="session")
def smoothsweep() -> Iterator[Commands]:
    """Runs a command as a user would, in a process that has its imports behind it; what it printed, and its code."""
    with commands() as run:
        yield run
