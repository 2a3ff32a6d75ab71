"""Made-up tables of a sweep over defenses."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np
import pandas as pd

from tests.orchestrator.made_reports import trial_id

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
