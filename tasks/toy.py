"""The paper's two-dimensional example as one stage: train, invert, measure, keep what the figures need."""

from __future__ import annotations

from pathlib import Path

import torch

from smoothsweep.core.analysis.toy import run_toy as toy_example
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.files import save_tensors


def run_toy(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes toy.safetensors: data, confidence map, and the attack's paths with and without a stopping rule."""
    result = toy_example(config["alpha"])
    endless = result.endless
    assert endless is not None
    save_tensors(
        out / "toy.safetensors",
        {
            "points": result.points,
            "labels": result.labels,
            "axis": result.axis,
            "confidence": result.confidence,
            "prediction": result.prediction,
            "path": result.attack.path,
            "endless_path": endless.path,
        },
    )
    finite = torch.isfinite(result.attack.path).all()
    return {
        "steps": float(result.attack.steps) if result.attack.stopped else None,
        "distance": result.attack.distance if finite else None,
        "train_loss": result.train_loss,
        "distance_no_stop": endless.distance,
    }
