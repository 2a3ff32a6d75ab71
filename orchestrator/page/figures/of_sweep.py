"""Every figure of a sweep's report, drawn when it is asked for: by a template, or as a file of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from smoothsweep.core.checks import present
from smoothsweep.orchestrator.page.drawing.canvas import Canvas
from smoothsweep.orchestrator.page.drawing.colours import Colours
from smoothsweep.orchestrator.page.drawing.sheets import sheet_image
from smoothsweep.orchestrator.page.figures import features, searched, strips
from smoothsweep.orchestrator.page.figures.accuracy_leak import draw, plot
from smoothsweep.orchestrator.page.figures.curves import epochs, stability
from smoothsweep.orchestrator.page.figures.curves.advantage import advantage_figure
from smoothsweep.orchestrator.page.figures.curves.queries import query_curves
from smoothsweep.orchestrator.page.figures.panels import Panels
from smoothsweep.orchestrator.page.figures.two_leaks import two_leaks_figure
from smoothsweep.orchestrator.result.data import FeatureView, Objective, Progress, ReportData, progress
from smoothsweep.orchestrator.result.defenses import DefenseFamily, DefenseGroup, defense_groups
from smoothsweep.orchestrator.result.display import MANY, judges_shown, sheet_recipes
from smoothsweep.orchestrator.result.leaks import advantage_panels
from smoothsweep.orchestrator.result.membership import two_leaks
from smoothsweep.orchestrator.result.summary import Summary

OVERVIEW, OVERVIEW_PLOT = 860.0, 360.0
"""Width of an overview, and height of its plots: a README shows it as it is."""
OVERVIEW_OF_ONE = 500.0
"""Width of an overview with one plot and no reconstructions."""
OVERVIEW_ROWS = 3
"""Classes of the contact sheet that the overview shows."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of one sweep; None, or nothing, where there is nothing to show."""

    data: ReportData
    summary: Summary
    colours: Colours

    def frontier(self) -> Canvas | None:
        title = "The accuracy-leak frontier: test accuracy against leak of every recipe"
        return plot([self.panels.frontier()], 620, 390, title)

    def attacks(self) -> list[Canvas | None]:
        """One for each attack and judge that the first plot does not show."""
        alone = self.summary.primary if self.panels.frontier() else None
        return [plot([panel], 500, 390) for panel in self.panels.attacks(but=alone)]

    def two_leaks(self) -> Canvas | None:
        return two_leaks_figure(two_leaks(self.data, self.summary), self.summary, self.colours)

    def judges(self) -> Canvas | None:
        return strips.judges(self.summary, self.colours)

    def exposure(self) -> Canvas | None:
        return strips.exposure(self.summary, self.colours)

    def alphas(self) -> Canvas | None:
        return epochs.alpha_curves(self.data.alpha_curves, self.colours, self._named)

    def training(self) -> Canvas | None:
        logs = {name: rows for name, rows in self.data.training_curves.items() if name in self._named}
        return epochs.training_curves(logs, self.colours)

    def feature_maps(self) -> Canvas | None:
        return features.feature_maps(self._features, self.colours)

    def feature_violins(self) -> Canvas | None:
        return features.feature_violins(self._features, self.colours)

    def advantage(self) -> Canvas | None:
        return advantage_figure(advantage_panels(self.summary))

    def gradients(self) -> Canvas | None:
        return stability.gradient_curves(self.data.gradient_curves, self.colours)

    def queries(self) -> Canvas | None:
        return query_curves(self.data.queries, self.colours)

    def search(self, gone: Progress) -> Canvas:
        return epochs.search_steps(present(self.data.search, "search"), gone)

    def searched(self) -> list[tuple[Objective, Canvas]]:
        """The recipes of the search by their parameters, once coloured by each objective."""
        view = self.data.search
        drawn = (
            []
            if view is None
            else [(objective, searched.coordinates(view, objective)) for objective in view.objectives]
        )
        return [(objective, canvas) for objective, canvas in drawn if canvas is not None]

    def importance(self) -> Canvas | None:
        return None if self.data.search is None else searched.importance(self.data.search)

    def best(self, group: DefenseGroup) -> Canvas | None:
        title = "The best recipe of each defense: test accuracy against leak"
        return plot([self.panels.best(group)], 1024, 500, title)

    def families(self, group: DefenseGroup) -> list[tuple[DefenseFamily, Canvas | None]]:
        panels = self.panels.families(group, self.summary.deciding)
        title = f"test accuracy against leak by the {self.summary.spec.label}"
        return [(family, plot([panel], 360, 320, f"{panel.title}: {title}")) for family, panel in panels]

    def defenses(self, group: DefenseGroup, metric: str, attack: str | None = None) -> Canvas | None:
        """All families side by side."""
        panels = [panel for _, panel in self.panels.families(group, metric, attack)]
        return plot(panels, 360, 320, f"Every defense by the {self.summary.metric(metric).label}", across=3)

    def overview(self) -> Canvas | None:
        """A picture for MLflow and a README: reconstructions, and accuracy against leak.

        Beside them the deciding judge's plot under the attack that works best against each recipe; below them those of
        two judges under the one attack.
        """
        worst = self.panels.frontier() if len(self.summary.attacks) > 1 else None
        panels = self.panels.attacks()[:2] if worst is None else [worst]
        if not self.data.sheets and not panels:
            return None
        sheet = sheet_image(self.data.sheets[0], rows=OVERVIEW_ROWS) if self.data.sheets else None
        side_by_side = sheet is not None and len(panels) == 1
        width = OVERVIEW if side_by_side or len(panels) > 1 else OVERVIEW_OF_ONE
        # few columns make a narrow strip, not huge faces
        wide = min(OVERVIEW / 2 if side_by_side else width, 0.9 * sheet.width) if sheet else 0.0
        strip = wide * sheet.height / sheet.width if sheet else 0.0
        plot_height = OVERVIEW_PLOT if panels else 0.0
        canvas = Canvas(width, max(strip, plot_height) if side_by_side else strip + plot_height, self.data.title)
        left, top = (wide, 0.0) if side_by_side else (0.0, strip)
        if sheet is not None:
            start = 0.0 if side_by_side else (width - wide) / 2
            axes = canvas.axes(start, 0, start + wide, strip, grid=None)
            axes.imshow(np.asarray(sheet), interpolation="lanczos", aspect="auto")
            axes.axis("off")
        share = (width - left) / max(1, len(panels))
        for index, panel in enumerate(panels):
            draw(canvas, panel, left + index * share, top, share, OVERVIEW_PLOT)
        return canvas

    def files(self) -> dict[str, Canvas | None]:
        """File name -> figure."""
        panels, title = self.panels.attacks(), "Test accuracy against leak for each recipe"
        figures = {
            "accuracy-leak.svg": plot(panels, 500, 390, title, across=len(judges_shown(self.summary))),
            "judges.svg": self.judges(),
            "exposure.svg": self.exposure(),
            "two_leaks.svg": self.two_leaks(),
            "alpha-curves.svg": self.alphas(),
            "training-curves.svg": self.training(),
            "features-maps.png": self.feature_maps(),
            "features-distances.png": self.feature_violins(),
            "advantage.svg": self.advantage(),
            "gradient-stability.svg": self.gradients(),
            "leak-queries.svg": self.queries(),
            "overview.png": self.overview(),
        }
        for number, (_, canvas) in enumerate(self.searched(), start=1):
            figures[f"search-recipes-{number}.svg"] = canvas
        gone = None if self.data.search is None else progress(self.data.search)
        figures["search-importance.svg"] = self.importance()
        figures["search-progress.svg"] = None if gone is None else self.search(gone)
        measured = self.summary.primary in self.summary.measured
        for number, group in enumerate(defense_groups(self.summary) if measured else (), start=1):
            figures[f"defense-curves-{number}.svg"] = self.defenses(group, self.summary.deciding)
            figures[f"defense-best-{number}.svg"] = self.best(group)
        return figures

    @cached_property
    def panels(self) -> Panels:
        return Panels(summary=self.summary, colours=self.colours)

    @cached_property
    def _features(self) -> dict[str, FeatureView]:
        """Features of every recipe where there are few, else of those that the decision is about."""
        recipes = sheet_recipes(self.summary)
        return {recipe: view for recipe, view in self.data.features.items() if recipe in recipes}

    @cached_property
    def _named(self) -> frozenset[str]:
        """The recipes whose curves have names: all of a few, else those that the decision is about."""
        known = {*self.data.alpha_curves, *self.data.training_curves}
        return frozenset(sheet_recipes(self.summary) if len(self.summary.recipes) > MANY else known)
