"""A made-up report of the two-dimensional example: three clouds, three models, straight attack paths."""

from __future__ import annotations

import numpy as np

from smoothsweep.orchestrator.reading.toy import ToyData, ToyFigure, ToyPanel
from tests.orchestrator.made_reports import HOSTILE


def make_toy_data() -> ToyData:
    """The report's data, the same every time."""
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
