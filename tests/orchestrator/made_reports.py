"""Made-up tables and pictures of a report: seeds, attacks, failures, gaps, and names that mean harm."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd

from smoothsweep.orchestrator.result.data import (
    Axis,
    ContactSheet,
    SheetRow,
    Tile,
)

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
        tiles = [Tile(pixels=picture(10 * index + c), recognised=c == 1) for c in range(len(columns) - 1)]
        return SheetRow(name=NAMES[index], real=Tile(pixels=picture(index)), reconstructions=(*tiles, None))

    return ContactSheet(
        title="Five classes", columns=columns, rows=tuple(row(i) for i in range(rows)), caption="Cross entropy"
    )
