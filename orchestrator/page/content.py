"""What the templates of a sweep's page are given: the findings, the tables' rows, and figures drawn where asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.orchestrator.page.figures.colours import assign
from smoothsweep.orchestrator.page.figures.of_sweep import Figures
from smoothsweep.orchestrator.result import (
    defenses,
    display,
    findings,
    leaks,
    published,
    searches,
)
from smoothsweep.orchestrator.result.data import ContactSheet, ReportData, Tile, progress
from smoothsweep.orchestrator.result.membership import ATTACKS, title_of
from smoothsweep.orchestrator.result.more_seeds import check_reaudit, meaning
from smoothsweep.orchestrator.result.standing import recipe_standings
from smoothsweep.orchestrator.result.summary import Summary, decide
from smoothsweep.orchestrator.result.sweep_result import SweepResult, rows_of

UNNAMED_ATTACK = "Reconstructions"
"""Title of the contact sheet of a sweep that varies no attack."""


@dataclass(frozen=True, kw_only=True)
class Faces:
    """One group of pictures: a tile of each class that is shown.

    Attributes:
        recipe: None for the training images.
        roles: Why it is here, "lowest leak", "baseline", "highest leak".
        row: Its row of the summary's frame, under its strongest attack.
        attack: The strongest attack, "" where the sweep varies none.
        judge: Who says which tiles are recognised.
    """

    tiles: tuple[Tile | None, ...]
    classes: tuple[str, ...]
    recipe: str | None = None
    roles: tuple[str, ...] = ()
    row: int | None = None
    attack: str = ""
    judge: str = ""


def extremes(summary: Summary) -> dict[str, tuple[str, ...]]:
    """Recipe -> its roles: the baseline, and those with the lowest and the highest leak under their strongest attacks.

    The lowest is that of the recipes accurate enough, where the sweep asks for an accuracy. {} without a leak.
    """
    evidence = summary.evidence
    leaks = {} if evidence is None else summary.leaks(evidence.metric)
    if evidence is None or not leaks:
        return {}
    best = evidence.recommendation.best
    lowest = best if best in leaks else min(leaks, key=leaks.__getitem__)
    named = {summary.baseline_recipe: "baseline", lowest: "lowest leak"}
    roles: dict[str, tuple[str, ...]] = {name: (word,) for name, word in named.items() if name in leaks}
    if summary.baseline_recipe == lowest:
        roles = {lowest: ("baseline", "lowest leak")}
    highest = max(leaks, key=leaks.__getitem__)
    if leaks[highest] > leaks[lowest]:
        roles[highest] = (*roles.get(highest, ()), "highest leak")
    return roles


def faces(summary: Summary, sheets: Sequence[ContactSheet]) -> tuple[Faces, ...]:
    """The training images, then each recipe of `extremes` that has pictures, under the attack that works best on it.

    () without pictures of any of them.
    """
    by_attack = {sheet.title: sheet for sheet in sheets}
    groups = []
    for recipe, roles in extremes(summary).items():
        row = summary.rows(summary.deciding)[recipe]
        attack = str(summary.frame.loc[row, "attack"])
        sheet = by_attack.get(attack or UNNAMED_ATTACK)
        if sheet is not None and recipe in sheet.columns:
            column = sheet.columns.index(recipe)
            tiles = tuple(row_of_sheet.reconstructions[column] for row_of_sheet in sheet.rows)
            classes = tuple(row_of_sheet.name for row_of_sheet in sheet.rows)
            group = Faces(
                tiles=tiles, classes=classes, recipe=recipe, roles=roles, row=row, attack=attack, judge=sheet.judge
            )
            groups.append((group, sheet))
    if not groups:
        return ()
    sheet = groups[0][1]
    real = Faces(
        tiles=tuple(row_of_sheet.real for row_of_sheet in sheet.rows),
        classes=tuple(row_of_sheet.name for row_of_sheet in sheet.rows),
    )
    return (real, *(group for group, _ in groups))


SHORT = 6
"""Recipes of the first screen's table."""


def everything(
    data: ReportData, summary: Summary, result: SweepResult, figures: Figures | None = None
) -> dict[str, Any]:
    """The values that the templates of a sweep's page know by these names, and figures to be drawn."""
    figures = figures or Figures(data=data, summary=summary, colours=assign(summary))
    colours = figures.colours
    done = data.results[data.results["status"] == "done"]
    first, hidden = findings.first_measured(summary), leaks.hiding_verdicts(summary)
    checked = check_reaudit(data, summary)
    return {
        "data": data,
        "summary": summary,
        "said": result.sentences,
        "colours": colours,
        "colour_rules": colours.css(),
        "trials": data.every_trial,
        "axes": data.axes,
        "figures": figures,
        "choice": decide(summary),
        "faces": () if summary.by_setting else faces(summary, data.sheets),
        "level": f"{100 * summary.settings.level:g}\u00a0%",
        "metric_of": summary.metric,
        "is_crowded": display.is_crowded(summary),
        "domain": _domain,
        "micro": _micro,
        "short_rows": _short_rows(summary),
        "first_measured": first,
        "keys": display.shown_metrics(summary),
        "seeds": display.seeds,
        "too_inaccurate": display.too_inaccurate(summary),
        "seed_of": dict(zip(done["trial"], done["seed"], strict=True)),
        "judges": display.judges_shown(summary),
        "hidden": hidden,
        "told": {recipe: display.leak_verdict(summary.spec, one) for recipe, one in hidden.verdicts.items()},
        **_verdicts(summary, first),
        "standing": recipe_standings(summary),
        "searched": _searched(data, summary),
        "checked": checked,
        "meanings": {} if checked is None else {r: meaning(summary, one) for r, one in checked.recipes.items()},
        "membership": rows_of(result.membership),
        "member_attacks": {name: title_of(name) for name in ATTACKS if name in result.membership},
        "spending": {by: rows_of(rows) for by, rows in result.costs.groupby("by", sort=False)},
        "published": published.paper_comparison(data, summary),
        "groups": _groups(data, summary),
        "other_views": _other_views(summary),
    }


def _verdicts(summary: Summary, first: Metric | None) -> dict[str, Any]:
    """Row of the frame -> its comparisons, as cells show them: by every metric, of the first screen, of settings."""
    rows, settings = summary.cells.items(), summary.by_setting and summary.primary is not None
    return {
        "verdicts": {
            row: {key: display.cell_verdict(summary, metric_of(key), cell) for key in summary.measured}
            for row, cell in rows
        },
        "short_verdicts": {row: first and display.recipe_verdict(summary, first, cell) for row, cell in rows},
        "setting_verdicts": {row: display.of_setting(summary.spec, cell) for row, cell in rows} if settings else {},
        "setting_names": {row: display.setting_name(summary, cell) for row, cell in rows} if settings else {},
    }


def _groups(data: ReportData, summary: Summary) -> list[dict[str, Any]]:
    """The recipes by defense, one group for each setting, with what is said of every family."""
    views = []
    measured = summary.primary is not None and summary.primary in summary.measured
    for group in defenses.defense_groups(summary) if measured else ():
        compared = defenses.versus(summary, group)
        views.append(
            {
                "group": group,
                "floor": defenses.accuracy_floor(summary, group),
                "reference": defenses.reference_words(group),
                "sentences": {
                    one.key: defenses.family_sentence(summary, group, one, compared) for one in group.families
                },
                "verdicts": {
                    recipe: (
                        display.leak_verdict(summary.spec, gap.leak),
                        display.difference_verdict(metric_of("test_acc"), gap.accuracy),
                    )
                    for recipe, gap in compared.items()
                },
                "spent": defenses.training_costs(data, summary, group),
                "orders": published.order_table(summary, group),
            }
        )
    return views


def _searched(data: ReportData, summary: Summary) -> dict[str, Any] | None:
    """What is said of a search, and of each proposal."""
    view = data.search
    if view is None:
        return None
    gone = progress(view)
    return {
        "gone": gone,
        "progress": gone and searches.progress_words(view, gone),
        "coordinates": view.objectives and searches.coordinates_words(view, view.objectives[0]),
        "importance": view.importances and searches.importance_words(view),
        "rungs": searches.rung_lines(view, summary),
        "marks": {proposal.number: searches.marks(proposal, gone) for proposal in view.proposals},
    }


def _other_views(summary: Summary) -> list[tuple[str | None, str | None]]:
    """(metric, attack) by which the defenses are shown once more; None: the attack that works best."""
    by_attack = [(summary.primary, attack) for attack in summary.attacks] if len(summary.attacks) > 1 else []
    return by_attack + [(metric, None) for metric in display.judges_shown(summary) if metric != summary.primary]


def _short_rows(summary: Summary) -> Sequence[int]:
    """The rows of the first screen, by rising leak: recipes that the decision is about, under their worst attacks.

    Where there is no room for all, the choice and the baseline come first, then the frontier, then what may leak as
    little, then others that are accurate enough.
    """
    evidence = None if summary.by_setting else summary.evidence
    if evidence is None:
        spec = findings.first_measured(summary)
        if spec is not None:
            rows = summary.frame[summary.frame[spec.key].notna()]
        else:  # nothing tells the attacks on a recipe apart yet
            rows = summary.frame if summary.by_setting else summary.frame.drop_duplicates("recipe")
        return list(rows.index[: 2 * SHORT])
    few = len(evidence.rows) <= SHORT or not evidence.pairs
    chosen = list(evidence.rows) if few else display.chosen_recipes(summary)
    choice = evidence.recommendation
    first = (choice.best, summary.baseline_recipe)
    by_concern = (first, decide(summary).front, choice.runners_up, choice.allowed)
    rows_kept = sorted(chosen, key=lambda recipe: [recipe not in part for part in by_concern])[:SHORT]
    return [evidence.rows[recipe] for recipe in chosen if recipe in rows_kept]


def _domain(summary: Summary, key: str) -> tuple[float, float]:
    """The scale a column's bars share: hit rates from 0, the rest around what occurs."""
    means, spec = summary.frame[key].dropna(), metric_of(key)
    if spec.unit == "percent" and spec.group == "leak":
        top = pd.concat([means, summary.frame[f"{key}_low"], summary.frame[f"{key}_high"]]).max()
        return 0.0, max(0.05, float(top))
    room = max(float(means.max() - means.min()), abs(float(means.mean())) * 0.02, 1e-9)
    return float(means.min()) - room, float(means.max()) + room


def _micro(value: float, domain: tuple[float, float]) -> float:
    """Where a value lies in a cell of 96 pixels, its ends included."""
    share = (value - domain[0]) / (domain[1] - domain[0])
    return round(5 + 86 * min(1.0, max(0.0, share)), 2)
