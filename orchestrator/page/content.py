"""What the templates of a sweep's page are given: the findings, the tables' rows, and figures drawn where asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from core.metrics.table import CLASS_METRICS, METRICS, Metric, metric_of
from orchestrator.page.colours import Colours, assign
from orchestrator.page.figures import curves, strips
from orchestrator.page.figures.accuracy_leak import grid_of, one_plot
from orchestrator.page.figures.panels import attack_panels, best_panel, family_panels, frontier_panel
from orchestrator.reading.defenses.families import (
    CHEAP,
    DefenseGroup,
    Point,
    accuracy_floor,
    defense_groups,
    rows_of,
    versus,
)
from orchestrator.reading.defenses.order import ARMS, Order, agreement, our_order, paper_orders
from orchestrator.reading.defenses.readings import reading, reference_words
from orchestrator.reading.defenses.training_time import training_costs
from orchestrator.reading.findings import costs, fresh, judge_ranks, pairs, searches
from orchestrator.reading.findings.findings import find, limits
from orchestrator.reading.findings.frontier import frontier_words
from orchestrator.reading.findings.shown import MANY, judges_shown
from orchestrator.reading.findings.tables import seeds, shown_metrics
from orchestrator.reading.numbers.decision import decide
from orchestrator.reading.numbers.evidence import leak_sign
from orchestrator.reading.numbers.format import axis_value, is_null
from orchestrator.reading.numbers.model import Axis, ReportData
from orchestrator.reading.numbers.search_model import progress
from orchestrator.reading.numbers.summary import Summary
from orchestrator.reading.published.comparison import (
    SYMBOLS,
    beside_paper,
    dataset_names,
    printed,
    row_words,
    share_words,
)

MOST_COLUMNS = 6
"""Metrics side by side that still fit a printed page."""

SHORT = 6
"""Recipes of the first screen's table."""


def everything(data: ReportData, summary: Summary) -> dict[str, Any]:
    """The names that the templates of a sweep's page know."""
    colours = assign(summary)
    return {
        "data": data, "summary": summary, "colours": colours, "colour_rules": colours.css(), "trials": data.every_trial,
        "axes": data.axes, "findings": find(data, summary), "choice": decide(summary), "limits": limits(data, summary),
        "level": f"{100 * summary.settings.level:g}\u00a0%", "MANY": MANY, "seeds": seeds, "METRICS": METRICS,
        "CLASS_METRICS": CLASS_METRICS, "frontier_words": frontier_words, "axis_value": axis_value,
        "short_rows": _short_rows(summary), "keys": shown_metrics(summary), "domain": _domain, "micro": _micro,
        "groups_of_metrics": _groups_of_metrics(summary), "seed_of": _seeds_of(data), "judges": judges_shown(summary),
    } | _figures(data, summary, colours) | _comparing(data, summary) | _defenses(data, summary)  # fmt: skip


def _figures(data: ReportData, summary: Summary, colours: Colours) -> dict[str, Any]:
    """Figures as functions: drawn where a template asks for them."""
    named = pairs.sheet_recipes(summary) if len(summary.recipes) > MANY else None
    logs = {name: rows for name, rows in data.training_curves.items() if named is None or name in named}

    def main() -> Any:
        panel = frontier_panel(summary, colours)
        title = "The accuracy-leak frontier: test accuracy against leak of every recipe"
        return panel and one_plot(panel, 620, 390, title)

    def apart() -> list[Any]:
        alone = summary.primary if frontier_panel(summary, colours) else None
        return [one_plot(panel, 500, 390) for panel in attack_panels(summary, colours, but=alone)]

    return {
        "main_figure": main,
        "attack_figures": apart,
        "judges_figure": lambda: strips.judges(summary, colours),
        "exposure_figure": lambda: strips.exposure(summary, colours),
        "triangle": lambda everyone: strips.triangle(summary, summary.evidence, everyone),
        "alpha_figure": lambda: curves.alpha_curves(data.alpha_curves, colours, named),
        "training_figure": lambda: curves.training_curves(logs, colours),
        "search_figure": lambda view, gone: curves.search_steps(view, gone),
    }


def _comparing(data: ReportData, summary: Summary) -> dict[str, Any]:
    return {
        "pairs": pairs, "fresh": fresh, "ranks": judge_ranks, "searches": searches, "costs": costs,
        "checked": fresh.checked(data, summary), "spending": costs.costs(data, summary), "progress": progress,
        "published": beside_paper(data, summary), "SYMBOLS": SYMBOLS, "dataset_names": dataset_names,
        "printed": printed, "row_words": row_words, "share_words": share_words, "leak_sign": leak_sign,
    }  # fmt: skip


def _defenses(data: ReportData, summary: Summary) -> dict[str, Any]:
    measured = summary.primary is not None and summary.primary in summary.measured
    colours = assign(summary)

    def best(group: Any) -> Any:
        panel = best_panel(summary, group, colours)
        return panel and one_plot(panel, 1024, 500, "The best recipe of each defense: test accuracy against leak")

    def families(group: Any) -> list[Any]:
        found = family_panels(summary, group, colours, summary.primary)
        title = f"test accuracy against leak by the {metric_of(summary.primary).label}"
        return [(family, one_plot(panel, 360, 320, f"{panel.title}: {title}")) for family, panel in found]

    def view(group: Any, metric: str, attack: str | None) -> Any:
        found = [panel for _, panel in family_panels(summary, group, colours, metric, attack)]
        return found and grid_of(found, 3, 360, 320, f"Every defense by the {metric_of(metric).label}")

    several = summary.attacks if len(summary.attacks) > 1 else []
    views = [(summary.primary, attack) for attack in several]
    views += [(metric, None) for metric in judges_shown(summary) if metric != summary.primary]
    return {
        "other_views": views, "family_bodies": _bodies, "our_orders": lambda group: _orders(summary, group),
        "shared_arms": lambda ours: [arm for arm in ARMS if any(arm in order.arms for order in ours)],
        "groups": defense_groups(summary) if measured else (), "best_figure": best, "family_figures": families,
        "other_view": view, "versus": versus, "reading": reading, "reference_words": reference_words, "CHEAP": CHEAP,
        "accuracy_floor": accuracy_floor, "rows_of": rows_of, "training_costs": training_costs, "ARMS": ARMS,
        "paper_orders": paper_orders, "agreement": agreement,
    }  # fmt: skip


def _bodies(group: DefenseGroup) -> list[tuple[str, Sequence[Point]]]:
    """(name, recipes) of every part of the table by defense."""
    first = [("No defense", (group.plain,))] if group.plain else []
    return [*first, *((family.name, family.points) for family in group.families)]


def _orders(summary: Summary, group: DefenseGroup) -> list[Order]:
    """Our orders by each judge, where there is anything beside plain training."""
    found = [order for metric in CLASS_METRICS if (order := our_order(summary, group, metric)) is not None]
    return found if any(set(order.arms) - {"none"} for order in found) else []


def _short_rows(summary: Summary) -> list[int]:
    """The rows of the first screen: each recipe that the decision is about, under its worst attack."""
    evidence = summary.evidence
    if evidence is None:
        return [int(row) for row in summary.frame.index[:SHORT]]
    few = len(evidence.rows) <= SHORT or not evidence.pairs
    chosen = list(evidence.rows) if few else pairs.chosen_recipes(summary)
    kept = [r for r in (evidence.recommendation.best, summary.baseline_recipe) if r in chosen]
    kept += [recipe for recipe in chosen if recipe not in kept]
    return [evidence.rows[recipe] for recipe in chosen if recipe in kept[:SHORT]]


def _seeds_of(data: ReportData) -> Mapping[str, int]:
    done = data.results[data.results["status"] == "done"]
    return dict(zip(done["trial"], done["seed"], strict=True))


def _domain(summary: Summary, key: str) -> tuple[float, float]:
    """The scale a column's bars share: hit rates from 0, the rest around what occurs."""
    values = pd.concat([summary.frame[key], summary.frame[f"{key}_low"], summary.frame[f"{key}_high"]]).dropna()
    if metric_of(key).unit == "percent" and metric_of(key).group == "leak":
        return 0.0, max(0.05, float(values.max()))
    means = summary.frame[key].dropna()
    room = max(float(means.max() - means.min()), abs(float(means.mean())) * 0.02, 1e-9)
    return float(means.min()) - room, float(means.max()) + room


def _micro(value: float, domain: tuple[float, float]) -> float:
    """Where a value lies in a cell of 96 pixels, its ends included."""
    share = (value - domain[0]) / (domain[1] - domain[0])
    return round(5 + 86 * min(1.0, max(0.0, share)), 2)


def _groups_of_metrics(summary: Summary) -> list[list[Metric]]:
    """Everything measured, in tables of equal width that fit a page."""
    specs = [metric_of(key) for key in summary.measured]
    tables = math.ceil(len(specs) / MOST_COLUMNS)
    each = math.ceil(len(specs) / max(1, tables))
    return [specs[start : start + each] for start in range(0, len(specs), max(1, each))]


def axes_words(axes: Sequence[Axis], row: Mapping) -> str:
    """All axes of a trial in words."""
    return ", ".join(f"{axis.name} {axis_value(axis, row[axis.key])}" for axis in axes if not is_null(row[axis.key]))


def cause(row: pd.Series) -> str:
    """Why a trial is not done."""
    if "failure" in row and not is_null(row["failure"]):
        return str(row["failure"])
    return "no cause recorded" if row["status"] == "failed" else "it has not run; run the sweep again to fill it in"
