"""The two-dimensional example: what its page is made from, and what it shows, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Literal

import numpy as np
import pandas as pd

from smoothsweep.core.checks import present
from smoothsweep.core.text import minus
from smoothsweep.orchestrator.reading.numbers.format import count, significant
from smoothsweep.orchestrator.reading.numbers.model import StageLink


@dataclass(frozen=True, kw_only=True)
class ToyPanel:
    """One attack on one model of the two-dimensional example.

    Attributes:
        confidence: [R, R] in [0, 1], the highest class probability; row r and column c lie at the r-th y and c-th x of
            R even steps through the extent, both ascending.
        predicted: Int [R, R], the class it belongs to, if known.
        path: [T, 2], the attack's points from start to end.
        distance: Distance from the end to the nearest training point of the target class, None where the attack left
            all bounds.
        paper_steps, paper_distance: The published numbers, None where there are none.
    """

    alpha: float
    confidence: np.ndarray
    path: np.ndarray
    steps: int
    distance: float | None
    label: str = ""
    predicted: np.ndarray | None = None
    paper_steps: int | None = None
    paper_distance: float | None = None

    def __post_init__(self) -> None:
        if self.confidence.ndim != 2 or self.confidence.shape[0] != self.confidence.shape[1]:
            raise ValueError(f"toy panel: expected confidence [R, R], got {self.confidence.shape}")
        if self.path.ndim != 2 or self.path.shape[1] != 2 or not len(self.path):
            raise ValueError(f"toy panel: expected path [T, 2], got {self.path.shape}")


@dataclass(frozen=True, kw_only=True)
class ToyFigure:
    """Panels side by side, as in the paper's Figure 1 (with a stopping criterion) or 8 (without)."""

    title: str
    panels: tuple[ToyPanel, ...]
    caption: str = ""


@dataclass(frozen=True, kw_only=True)
class ToyData:
    """The two-dimensional example: points [N, 2] with labels int [N] into class_names, and what the attacks did.

    Colours and shapes follow the words in the class names ("orange pentagons") where they say any.

    Attributes:
        extent: Lowest and highest x and y shown.
        results: One row per trial as in `ReportData`, for the trials' states.
    """

    title: str
    points: np.ndarray
    labels: np.ndarray
    class_names: tuple[str, ...]
    target_class: int
    figures: tuple[ToyFigure, ...]
    results: pd.DataFrame | None = None
    extent: tuple[float, float] = (-15.0, 15.0)
    protocol: Literal["clean", "paper"] = "paper"
    intro: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, Sequence[StageLink]] = field(default_factory=dict)


def _distance(panel: ToyPanel) -> str:
    return significant(present(panel.distance, "distance"))


def toy_answer(data: ToyData) -> tuple[str, ...]:
    """What the first figure shows, in one or two sentences."""
    if not data.figures or not data.figures[0].panels:
        return ("Nothing has been computed yet.",)
    known = [(panel.distance, panel) for panel in data.figures[0].panels if panel.distance is not None]
    panels = [panel for _, panel in sorted(known, key=itemgetter(0))]
    if not panels:
        return ("No attack ended anywhere near: each left all bounds.",)
    near, far = panels[0], panels[-1]
    first = (
        f"With alpha {_alpha(near)} the attack ends {_distance(near)} from the nearest training point of "
        f"its target class, after {count(near.steps, 'step')}."
    )
    if near is far:
        return (first,)
    between = "".join(
        f" With alpha {_alpha(panel)}: {_distance(panel)}, {count(panel.steps, 'step')}." for panel in panels[1:-1]
    )
    return (
        first,
        f"With alpha {_alpha(far)} it ends {_distance(far)} away, after {count(far.steps, 'step')}.{between}",
        "One model and one start each: an illustration, not evidence.",
    )


def _alpha(panel: ToyPanel) -> str:
    return minus(f"{panel.alpha:g}")
