"""A made-up sweep with everything a report meets: seeds, attacks, failures, gaps, and names that mean harm."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd
import pytest

from orchestrator.report import (
    Axis,
    ContactSheet,
    PaperReference,
    ReportData,
    SheetRow,
    StageLink,
    Tile,
    ToyData,
    ToyFigure,
    ToyPanel,
)
from sweeps.paper_settings import Standing

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
                        "trial": trial, "seed": seed, "status": "done", "failure": None, "protocol": "clean",
                        "alpha": alpha, "attack_loss": loss, "test_acc": acc + wobble, "ece": 0.05 + abs(wobble),
                        "dist_face": 1.1 - mean + shift, "dist_eval": 151.4 - 100 * mean + 50 * shift,
                        "xi_train": None, "fid": None, "gradient_cosine": 0.2 + 0.8 * judge, "target_conf": 0.99,
                        "embedder_real_acc": 0.985, "evaluator_real_acc": 0.91,
                        **{key: float(values.mean()) for key, values in by_class.items()},
                    }
                )  # fmt: skip
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
                "alpha\u00a00": [0.0] * 40, "alpha\u00a00.1": [0.1] * 40},
            "training_curves": {
                name: [
                    {"epoch": e, "loss": s + np.exp(-e / 9), "train_acc": 1 - 0.9 * np.exp(-e / 8),
                     "test_acc": 0.87 - 0.8 * np.exp(-e / 7) if e % 2 else float("nan")}
                    for e in range(40)
                ]
                for name, s in (("alpha\u00a0\u22120.2", 0.1), ("alpha\u00a00", 0.2), ("alpha\u00a00.1", 0.5))
            },
            "sheets": (make_sheet(),),
            "links": {
                trial: (
                    StageLink(stage="target", path="../store/target/ab12/manifest.json", seconds=62.4),
                    StageLink(stage="attack", path="javascript:alert(1)", seconds=3725.0, cached=True),
                )
                for trial in results["trial"]
            },
            "paper": PaperReference(
                table="1", datasets=("facescrub",),
                standings={
                    row["trial"]: Standing(
                        axes={"dataset": "facescrub", "architecture": "resnet152", "defense": "label_smoothing",
                              "alpha": row["alpha"], "samples_per_class": None, "attack": "ppa"},
                        incomparable={"dist_eval": "features of another network"},
                    )
                    for row in results.to_dict("records")
                },
            ),
        }  # fmt: skip
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
            ToyPanel(alpha=alpha, confidence=confidence, predicted=distances.argmin(-1), path=path, steps=steps,
                     distance=float(end), label="hard labels" if alpha == 0 else "", paper_steps=paper[0],
                     paper_distance=paper[1])
        )  # fmt: skip
    figures = (
        ToyFigure(title="Stopping at 95 % confidence", panels=tuple(panels), caption="As in the paper's Figure 1."),
        ToyFigure(title="5,000 steps without stopping", panels=tuple(panels), caption="As in the paper's Figure 8."),
    )
    return ToyData(
        title="The two-dimensional example", points=points, labels=labels, target_class=2, figures=figures,
        class_names=("blue squares", "green circles", "orange pentagons"), intro=(f"Comment {HOSTILE}",),
    )  # fmt: skip
