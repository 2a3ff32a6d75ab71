"""Every figure of a sweep's report, drawn when it is asked for, and once: by a template, or as a file of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from smoothsweep.orchestrator.page.figures import curves, recipes
from smoothsweep.orchestrator.page.figures.accuracy_leak import Panels, draw, plot
from smoothsweep.orchestrator.page.figures.canvas import Canvas
from smoothsweep.orchestrator.page.figures.colours import Colours
from smoothsweep.orchestrator.page.pictures import sheet_image
from smoothsweep.orchestrator.result.data import FeatureView, Objective, ReportData
from smoothsweep.orchestrator.result.defenses import DefenseFamily, DefenseGroup, defense_groups
from smoothsweep.orchestrator.result.display import MANY, judges_shown, sheet_recipes
from smoothsweep.orchestrator.result.leaks import advantage_panels
from smoothsweep.orchestrator.result.standing import membership_frame
from smoothsweep.orchestrator.result.summary import Summary

OVERVIEW, OVERVIEW_OF_ONE, OVERVIEW_PLOT, OVERVIEW_ROWS = 860.0, 500.0, 360.0, 3
"""Width of an overview, as a README shows it, and of one without reconstructions; height of its plot; its classes."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of one sweep; None, or nothing, where there is nothing to show. `figures["judges.svg"]` draws one."""

    data: ReportData
    summary: Summary
    colours: Colours
    drawn: dict[str, Canvas | None] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Canvas | None:
        """One of `FILES`."""
        if name not in self.drawn:
            self.drawn[name] = FILES[name](self)
        return self.drawn[name]

    def frontier(self) -> Canvas | None:
        title = "The accuracy-leak frontier: test accuracy against leak of every recipe"
        return plot([self.panels.frontier()], 620, 390, title)

    def attacks(self) -> list[Canvas | None]:
        """One for each attack and judge that the first plot does not show."""
        alone = self.summary.primary if self.panels.frontier() else None
        return [plot([panel], 500, 390) for panel in self.panels.attacks(but=alone)]

    @cached_property
    def searched(self) -> list[tuple[Objective, Canvas]]:
        """The recipes of the search by their parameters, once coloured by each objective."""
        view = self.data.search
        drawn = [(aim, curves.coordinates(view, aim)) for aim in view.objectives] if view else []
        return [(objective, canvas) for objective, canvas in drawn if canvas is not None]

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
        canvas = Canvas(wide + rest, max(high, OVERVIEW_PLOT if panel else 0.0), self.data.title)
        if sheet:
            axes = canvas.axes((0, 0, wide, high), grid=None)
            axes.imshow(np.asarray(sheet), interpolation="lanczos", aspect="auto")
            axes.axis("off")
        if panel:
            draw(canvas, panel, wide, 0, rest, OVERVIEW_PLOT)
        return canvas

    def files(self) -> dict[str, Canvas | None]:
        """File name -> figure."""
        figures = {name: self[name] for name in FILES}
        for place, (_, canvas) in enumerate(self.searched, start=1):
            figures[f"search-recipes-{place}.svg"] = canvas
        measured = self.summary.primary in self.summary.measured
        for place, group in enumerate(defense_groups(self.summary) if measured else (), start=1):
            figures[f"defense-curves-{place}.svg"] = self.defenses(group, self.summary.deciding)
            figures[f"defense-best-{place}.svg"] = self.best(group)
        return figures

    @cached_property
    def panels(self) -> Panels:
        return Panels(summary=self.summary, colours=self.colours)

    @cached_property
    def features(self) -> dict[str, FeatureView]:
        """Features of every recipe where there are few, else of those that the decision is about."""
        shown = sheet_recipes(self.summary)
        return {recipe: view for recipe, view in self.data.features.items() if recipe in shown}

    @cached_property
    def named(self) -> frozenset[str]:
        """The recipes whose curves have names: all of a few, else those that the decision is about."""
        known = {*self.data.alpha_curves, *self.data.training_curves}
        return frozenset(sheet_recipes(self.summary) if len(self.summary.recipes) > MANY else known)


FILES: dict[str, Callable[[Figures], Canvas | None]] = {
    "accuracy-leak.svg": lambda one: plot(
        one.panels.attacks(), 500, 390, "Accuracy against leak of each recipe", across=len(judges_shown(one.summary))
    ),
    "judges.svg": lambda one: recipes.judges(one.summary, one.colours),
    "exposure.svg": lambda one: recipes.exposure(one.summary, one.colours),
    "two_leaks.svg": lambda one: recipes.membership(membership_frame(one.data, one.summary), one.summary, one.colours),
    "alpha-curves.svg": lambda one: curves.alpha_curves(one.data.alpha_curves, one.colours, one.named),
    "training-curves.svg": lambda one: curves.training_curves(one.data.training_curves, one.colours, one.named),
    "features-maps.png": lambda one: recipes.feature_maps(one.features, one.colours),
    "features-distances.png": lambda one: recipes.feature_violins(one.features, one.colours),
    "advantage.svg": lambda one: curves.advantage_figure(advantage_panels(one.summary)),
    "gradient-stability.svg": lambda one: curves.gradient_curves(one.data.gradient_curves, one.colours),
    "leak-queries.svg": lambda one: curves.query_curves(one.data.queries, one.colours),
    "search-progress.svg": lambda one: curves.search_steps(one.data.search),
    "search-importance.svg": lambda one: curves.importance(one.data.search),
    "overview.png": Figures.overview,
}
"""File name -> what draws it."""
