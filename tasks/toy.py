"""The paper's two-dimensional example as one stage: train, invert, measure, keep what the figures need."""

from __future__ import annotations

from pathlib import Path

from tasks.context import Config, Inputs, Metrics, TaskContext


def run_toy(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Writes toy.safetensors (data, confidence map, attack paths with and without stopping)."""
    raise NotImplementedError
