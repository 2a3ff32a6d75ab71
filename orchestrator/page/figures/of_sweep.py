"""Every figure of a sweep's report, drawn once: for the page, or as a file of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from smoothsweep.orchestrator.page.figures import charts
from smoothsweep.orchestrator.page.figures.accuracy_leak import Panels, draw, plot
from smoothsweep.orchestrator.page.figures.canvas import Canvas, Colours, assign
from smoothsweep.orchestrator.page.pictures import sheet_image
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.display import MANY
from smoothsweep.orchestrator.result.sweep_result import SweepResult

OVERVIEW, OVERVIEW_OF_ONE, OVERVIEW_PLOT, OVERVIEW_ROWS = 860.0, 500.0, 360.0, 3
"""Width of an overview, as a README shows it, and of one without reconstructions; height of its plot; its classes."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of one sweep; None, or nothing, where there is nothing to show.

    data: the curves and pictures that the result does not hold.
    """

    data: ReportData
    result: SweepResult

    @cached_property
    def colours(self) -> Colours:
        return assign(self.result)

    @cached_property
    def panels(self) -> Panels:
        rows, looks = self.data.results, self.data.looks
        done = rows[(rows["status"] == "done") & (rows["seed"].isin(looks.of_look(0)) if looks else True)]
        return Panels(result=self.result, seeds=done.drop_duplicates("trial").set_index("trial"), colours=self.colours)

    @cached_property
    def drawn(self) -> dict[str, Canvas | None]:
        """File name -> figure."""
        data, result, colours = self.data, self.result, self.colours
        pictured, judges = result.facts["pictured"], len(result.facts["judges"])
        features = {recipe: view for recipe, view in data.features.items() if recipe in pictured}
        # Curves have names: all of a few recipes, else of those that the decision is about.
        named = pictured if len(result.recipes) > MANY else [*data.histories]
        attacks = plot(self.panels.attacks(), 500, 390, "Accuracy against leak of each recipe", across=judges)
        return {
            "accuracy-leak.svg": attacks,
            "judges.svg": charts.judges(result, colours),
            "exposure.svg": charts.exposure(result, colours),
            "two_leaks.svg": charts.membership(result, colours),
            "alpha-curves.svg": charts.alpha_curves(data.histories, colours, named),
            "training-curves.svg": charts.training_curves(data.histories, colours, named),
            "features-maps.png": charts.feature_maps(features, colours),
            "features-distances.png": charts.feature_violins(features, colours),
            "advantage.svg": charts.advantage_figure(result.facts["advantage"]),
            "gradient-stability.svg": charts.gradient_curves(data.gradient_curves, colours),
            "search-progress.svg": charts.search_steps(data.search),
            "search-importance.svg": charts.importance(data.search),
            "overview.png": self.overview(),
        }

    def frontier(self) -> Canvas | None:
        title = "The accuracy-leak frontier: test accuracy against leak of every recipe"
        return plot([self.panels.frontier()], 620, 390, title)

    def attacks(self) -> list[Canvas | None]:
        """One for each attack and judge that the first plot does not show."""
        alone = self.result.facts["leak"] if self.panels.frontier() else None
        return [plot([panel], 500, 390) for panel in self.panels.attacks(but=alone)]

    def families(self, setting: Mapping[str, Any]) -> list[tuple[dict[str, Any], Canvas | None]]:
        """Each defense of a setting of the result with its figure."""
        title = f"test accuracy against leak by the {self.result.labels[self.result.facts['leak']]}"
        panels = self.panels.families(setting)
        return [(family, plot([panel], 360, 320, f"{panel.title}: {title}")) for family, panel in panels]

    def defenses(self, setting: Mapping[str, Any]) -> Canvas | None:
        """All families side by side."""
        panels = [panel for _, panel in self.panels.families(setting)]
        label = self.result.labels[self.result.facts["leak"]]
        return plot(panels, 360, 320, f"Every defense by the {label}", across=3)

    def overview(self) -> Canvas | None:
        """A picture for MLflow and a README: reconstructions beside accuracy against leak, by the deciding judge under
        the attack that works best against each recipe."""
        panel = self.panels.frontier() or next(iter(self.panels.attacks()), None)
        sheet = sheet_image(self.data.sheets[0], rows=OVERVIEW_ROWS) if self.data.sheets else None
        if sheet is None and panel is None:
            return None
        # few columns make a narrow strip, not huge faces
        wide = min(OVERVIEW / 2, 0.9 * sheet.width) if sheet else 0.0
        high = wide * sheet.height / sheet.width if sheet else 0.0
        rest = 0.0 if panel is None else OVERVIEW - wide if sheet else OVERVIEW_OF_ONE
        canvas = Canvas(wide + rest, max(high, OVERVIEW_PLOT if panel else 0.0), self.result.name)
        if sheet:
            axes = canvas.axes((0, 0, wide, high), grid=None)
            axes.imshow(np.asarray(sheet), interpolation="lanczos", aspect="auto")
            axes.axis("off")
        if panel:
            draw(canvas, panel, wide, 0, rest, OVERVIEW_PLOT)
        return canvas

    def files(self) -> dict[str, Canvas | None]:
        """File name -> figure, with those of which a sweep has several."""
        figures = dict(self.drawn)
        for place, setting in enumerate(self.result.facts["settings"], start=1):
            figures[f"defense-curves-{place}.svg"] = self.defenses(setting)
        return figures
