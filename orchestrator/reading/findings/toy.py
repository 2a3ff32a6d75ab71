"""What the two-dimensional example shows, in sentences."""

from __future__ import annotations

from core.words import minus
from orchestrator.reading.numbers.format import count, significant
from orchestrator.reading.numbers.model import ToyData, ToyPanel


def toy_answer(data: ToyData) -> tuple[str, ...]:
    """What the first figure shows, in one or two sentences."""
    if not data.figures or not data.figures[0].panels:
        return ("Nothing has been computed yet.",)
    known = [panel for panel in data.figures[0].panels if panel.distance is not None]
    panels = sorted(known, key=lambda panel: panel.distance)
    if not panels:
        return ("No attack ended anywhere near: each left all bounds.",)
    near, far = panels[0], panels[-1]
    first = (
        f"With alpha {_alpha(near)} the attack ends {significant(near.distance)} from the nearest training point of "
        f"its target class, after {count(near.steps, 'step')}."
    )
    if near is far:
        return (first,)
    between = "".join(
        f" With alpha {_alpha(panel)}: {significant(panel.distance)}, {count(panel.steps, 'step')}."
        for panel in panels[1:-1]
    )
    return (
        first,
        f"With alpha {_alpha(far)} it ends {significant(far.distance)} away, after {count(far.steps, 'step')}."
        f"{between}",
        "One model and one start each: an illustration, not evidence.",
    )


def _alpha(panel: ToyPanel) -> str:
    return minus(f"{panel.alpha:g}")
