"""What smoothing gives an attack relative to plain training: the paper's Figure 2."""

from __future__ import annotations

import math
from collections.abc import Sequence

from smoothsweep.core.text import minus
from smoothsweep.orchestrator.page.drawing.canvas import INK, SOFT, Canvas, limits, plain, words_for
from smoothsweep.orchestrator.page.drawing.colours import CATEGORIES
from smoothsweep.orchestrator.page.figures.curves import lines
from smoothsweep.orchestrator.result.leaks import AdvantagePanel

WIDE, HIGH, ACROSS = 430.0, 300.0, 2


def advantage_figure(panels: Sequence[AdvantagePanel]) -> Canvas | None:
    """A panel each, two in a row; None without any. Above the line more leaks than from plain training."""
    if not panels:
        return None
    across, rows = min(ACROSS, len(panels)), -(-len(panels) // ACROSS)
    canvas = Canvas(across * WIDE, rows * HIGH, "The attacker's gain relative to plain training")
    for number, panel in enumerate(panels):
        _draw(canvas, panel, WIDE * (number % ACROSS), HIGH * (number // ACROSS))
    return canvas


def _draw(canvas: Canvas, panel: AdvantagePanel, left: float, top: float) -> None:
    box = (left + 52, top + 34, left + WIDE - 20, top + HIGH - 48)
    axes = lines.panel(canvas, box, panel.title, panel.x_label, whole=False)
    axes.axhline(0, color=SOFT, lw=1)
    seen = [0.0]
    for index, (name, points) in enumerate(panel.curves.items()):
        colour = CATEGORIES[index % len(CATEGORIES)][0]
        (line,) = axes.plot([p.x for p in points], [p.value for p in points], "o-", ms=5, lw=2, color=colour)
        line.set_label(words_for(name))
        canvas.describe(line, name)
        held = [p for p in points if math.isfinite(p.low) and math.isfinite(p.high)]
        if held:
            low, high = [p.low for p in held], [p.high for p in held]
            axes.vlines([p.x for p in held], low, high, color=colour, lw=1, alpha=0.6)
        seen += [end for p in points for end in (p.value, p.low, p.high) if math.isfinite(end)]
    axes.set(ylim=limits(seen))
    axes.yaxis.set_major_formatter(lambda value, _: minus(f"{100 * value:+.0f} %") if value else "0")
    axes.xaxis.set_major_formatter(plain)
    axes.legend(fontsize=10.5, frameon=False, labelcolor=INK)
