"""Render the report of a sweep as one page, from Jinja2 templates that escape all values. It needs no other file."""

from __future__ import annotations

import base64
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from jinja2.runtime import Macro
from markupsafe import Markup, escape

from smoothsweep.core.files import write_file
from smoothsweep.core.judges.columns import CLASS_METRICS, METRICS, metric_of
from smoothsweep.core.metrics.verdicts import INCONCLUSIVE
from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.page.figures.accuracy_leak import is_crowded
from smoothsweep.orchestrator.page.figures.canvas import Canvas, clean
from smoothsweep.orchestrator.page.figures.of_sweep import Figures
from smoothsweep.orchestrator.page.pictures import png, sheet_image, tile_uri
from smoothsweep.orchestrator.result import format as shown
from smoothsweep.orchestrator.result.data import ContactSheet, ReportData, SearchView
from smoothsweep.orchestrator.result.display import (
    LEGEND,
    MANY,
    SETTING_LEGEND,
    SETTING_WORDS,
    WORDING,
    as_shown,
    compared,
    comparison_columns,
)
from smoothsweep.orchestrator.result.format import gap_in_row
from smoothsweep.orchestrator.result.published import metric_spec
from smoothsweep.orchestrator.result.searches import value_words
from smoothsweep.orchestrator.result.standing import ATTACKS, HEAD, WITHIN, WORDS, title_of
from smoothsweep.orchestrator.result.sweep_result import SweepResult, result_of, rows_of
from smoothsweep.tasks.registry import stage_title

UNNAMED_ATTACK = "Reconstructions"
"""Title of the contact sheet of a sweep that varies no attack."""


def extremes(result: SweepResult) -> dict[str, tuple[str, ...]]:
    """Recipe -> its roles: the baseline, and those with the lowest and the highest leak under their strongest attacks.

    The lowest is that of the recipes accurate enough, where the sweep asks for an accuracy. {} without a leak.
    """
    leak, best = result.facts["leak"], result.facts["best"]
    rows = {} if leak is None else result.strongest(leak)
    leaks = {recipe: metric_of(leak).sign * float(result.attacks.loc[row, leak]) for recipe, row in rows.items()}
    if not leaks:
        return {}
    lowest, highest = best if best in leaks else min(leaks, key=leaks.__getitem__), max(leaks, key=leaks.__getitem__)
    named = {"baseline": result.facts["baseline"], "lowest leak": lowest}
    named |= {"highest leak": highest} if leaks[highest] > leaks[lowest] else {}
    roles: dict[str, tuple[str, ...]] = {}
    for role, recipe in named.items():
        if recipe in leaks:
            roles[recipe] = (*roles.get(recipe, ()), role)
    return roles


def faces(result: SweepResult, sheets: Sequence[ContactSheet]) -> list[dict[str, Any]]:
    """The training images, then each recipe of `extremes` that has pictures, under the attack that works best on it.

    Each: `tiles`, the names of their `classes`, and `recipe`; of a recipe also `roles`, `row` of the frame `attacks`,
    `attack`, and `judge`, who says which tiles are recognised. [] without pictures of any recipe.
    """
    by_attack, groups = {sheet.title: sheet for sheet in sheets}, []
    for recipe, roles in extremes(result).items():
        row = result.strongest(result.facts["leak"])[recipe]
        attack = str(result.attacks.loc[row, "attack"])
        sheet = by_attack.get(attack or UNNAMED_ATTACK)
        if sheet is not None and recipe in sheet.columns:
            names, column = [of.name for of in sheet.rows], sheet.columns.index(recipe)
            if not groups:
                groups.append({"tiles": [of.real for of in sheet.rows], "classes": names, "recipe": None})
            tiles = [of.reconstructions[column] for of in sheet.rows]
            more = {"recipe": recipe, "roles": roles, "row": row, "attack": attack, "judge": sheet.judge}
            groups.append({"tiles": tiles, "classes": names, **more})
    return groups


def everything(data: ReportData, result: SweepResult, figures: Figures | None = None) -> dict[str, Any]:
    """The values that the templates of a sweep's page know by these names, and figures to be drawn."""
    figures = figures or Figures(data=data, result=result)
    facts, classes = result.facts, defaultdict(lambda: "rx", figures.colours.classes)  # `rx` for what is no recipe
    metrics = {key: result.metric(key) for key in facts["metrics"]}
    recipes = {row["recipe"]: row | {"class": classes[row["recipe"]]} for row in rows_of(result.recipes)}
    cells, trials = _cells(result, recipes), trial_rows(data)
    done = [row for row in trials if row["status"] == "done"]
    attacks = dict.fromkeys(cell["attack"] for cell in sorted(cells, key=lambda cell: cell["control"]))
    points = [row | {"class": classes[row["recipe"]]} for row in rows_of(result.defenses)]
    return {
        "name": result.name,
        "facts": facts,
        "said": result.sentences,
        "classes": classes,
        "colour_rules": figures.colours.css(),
        "figures": figures,
        "metrics": metrics,
        "test_acc": metric_of("test_acc"),
        "auc": metric_of(WITHIN),
        "level": f"{100 * facts['level']:g}{NBSP}%",
        "several": len(facts["attacks"]) > 1,
        "many": len(recipes) > MANY,
        "crowded": is_crowded(recipes),
        "recipes": recipes,
        "cells": cells,
        "by_attack": [
            (attack, attack in facts["controls"], [cell for cell in cells if cell["attack"] == attack])
            for attack in attacks
        ],
        "trials": trials,
        "states_of": Counter(row["status"] for row in trials),
        "seed_of": {row["trial"]: row["seed"] for row in done},
        "faces": [] if facts["by_setting"] else faces(result, data.sheets),
        "sheets": data.sheets,
        "settings": [
            of
            | {
                "sections": [
                    (section, [*rows])
                    for (setting, section), rows in groupby(points, itemgetter("setting", "section"))
                    if setting == of["setting"]
                ]
            }
            for of in facts["settings"]
        ],
        "standing": [
            {"recipe": recipe, "attack": attack, "judged": [*rows]}
            for (recipe, attack), rows in groupby(rows_of(result.judges), itemgetter("recipe", "attack"))
        ],
        "membership": rows_of(result.membership),
        "member_attacks": {name: title_of(name) for name in ATTACKS if name in result.membership},
        "search": None if data.search is None else _search(data.search, result),
        "features": data.features,
        "published": facts["published"],
        "spending": {by: rows_of(rows) for by, rows in result.costs.groupby("by", sort=False)},
        "reasons": {one.label: data.reasons[one.key] for one in METRICS if one.key in data.reasons.keys() - metrics},
        "intro": data.intro,
        "about": data.facts,
    }


def _cells(result: SweepResult, recipes: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the frame `attacks` with their place, their tags, and how each compares with the baseline: in the
    table of all recipes (`against`), and in that of the first screen (`short`)."""
    facts, leak, first = result.facts, result.facts["leak"], result.facts["first_metric"]
    best = result.strongest(leak).get(facts["best"]) if facts["best_mark"] else None
    by_setting, cells = facts["by_setting"] and leak is not None, []
    for row, cell in enumerate(rows_of(result.attacks)):
        of = recipes[cell["recipe"]]
        tags = {
            facts["best_mark"]: row == best,
            "baseline": cell["is_baseline"],
            facts["too_inaccurate_words"]: not of["is_accurate"],
        }
        if by_setting and cell["verdict"]:
            look = "unclear" if cell["verdict"] == INCONCLUSIVE else ""
            against = short = as_shown(SETTING_WORDS[cell["verdict"]], look, gap_in_row(metric_of(leak), cell))
        else:
            alone = cell | {"needed": of["needed"] if len(facts["attacks"]) < 2 else None}
            against = leak and compared(metric_of(leak), alone, f"{leak}_gap", f"{leak}_word")
            short = compared(metric_of(leak), of) if leak else None
            if leak is None and first is not None:
                short = compared(metric_of(first), cell, f"{first}_gap", f"{first}_word")
        is_reference = leak is not None and cell["recipe"] == facts["baseline"] and not by_setting
        more = {
            "row": row,
            "class": of["class"],
            "best": row == best,
            "tags": [word for word, holds in tags.items() if holds],
            "against": "baseline" if cell["is_baseline"] else against,
            "short": "baseline" if cell["is_baseline"] or is_reference else short,
        }
        cells.append(cell | more)
    return cells


def trial_rows(data: ReportData) -> list[dict[str, Any]]:
    """Every trial: `trial`, `seed`, `status`, `failure`, its settings in `words`, its stages in `links`."""
    rows = []
    for row in rows_of(data.every_trial):
        known = [axis for axis in data.axes if row[axis.key] is not None]
        words = ", ".join(f"{axis.name} {shown.axis_value(axis, row[axis.key])}" for axis in known)
        held = {"words": words, "links": data.links.get(row["trial"], ()), "failure": row.get("failure")}
        rows.append({name: row[name] for name in ("trial", "seed", "status")} | held)
    return rows


def _search(view: SearchView, result: SweepResult) -> dict[str, Any]:
    """The space of a search, and its proposals as a table."""
    rungs, marks = bool(view.on_rungs), result.search.set_index("number")["marks"]
    strongest = {} if result.facts["leak"] is None else result.strongest(result.facts["leak"])
    rows = []
    for one in view.proposals:
        amounts = [one.objectives.get(objective.column) for objective in view.objectives]
        numbers: list[tuple[Any, str]] = []
        if rungs:
            numbers.append((99, "full") if one.rung is None else (one.rung, f"rung {one.rung + 1}"))
        numbers += [(value, value_words(aim, value)) for aim, value in zip(view.objectives, amounts, strict=True)]
        numbers.append((one.device_hours, shown.duration(3600 * one.device_hours)))
        settings = [one.values.get(key, shown.ABSENT) for key in view.dimensions]
        held = {"number": one.number, "recipe": one.recipe, "marks": marks[one.number]}
        rows.append(held | {"row": strongest.get(one.recipe or ""), "settings": settings, "numbers": numbers})
    head = ["No.", *view.dimensions, *(["Attack"] if rungs else []), *(aim.label for aim in view.objectives)]
    return {"space": view.space, "head": [*head, "Time", ""], "rows": rows}


FORMATS = """number interval estimate signed signed_interval duration count listing named difference gap_in_row seeds"""
"""Filters that format numbers, from `result.format`."""

FLAG = re.compile(r"--[a-z][a-z-]*(?: \d[\d.]*(?![\w.]))?")

PROTOCOLS = {
    "clean": "Protocol clean: correct conventions throughout. Compare within this page, not digit by digit with "
    "published tables.",
    "paper": "Protocol paper: the official code's conventions, its bugs included, so that numbers compare with the "
    "published tables.",
}


def render(
    data: ReportData, result: SweepResult | None = None, *, figures: Figures | None = None, results_file: bool = False
) -> str:
    """The whole page. result, figures: of `data`, where the caller has them. results_file: link results.parquet."""
    known = everything(data, result or result_of(data), figures)
    return fill("report.html", **known, results_file=results_file)


def write_report(data: ReportData, out: Path, result: SweepResult | None = None) -> Path:
    """Write `out/report.html` and `out/figures/*`; returns the page's path.

    result: of `data`, where the caller has it already. Every file replaces its predecessor in one step, the page last,
    so that a reader never meets half a report. results.parquet is linked where it lies in `out` already.
    """
    out.mkdir(parents=True, exist_ok=True)
    result = result or result_of(data)
    figures = Figures(data=data, result=result)
    page = render(data, result, figures=figures, results_file=(out / "results.parquet").is_file())
    drawn = {name: canvas.file(name) for name, canvas in figures.files().items() if canvas is not None}
    sheets = {f"sheet-{number}.png": png(sheet_image(sheet)) for number, sheet in enumerate(data.sheets, start=1)}
    for name, content_of_file in (drawn | sheets).items():
        write_file(out / "figures" / name, content_of_file, parents=True)
    write_file(out / "report.html", page)
    return out / "report.html"


def figure_files(out: Path) -> list[Path]:
    """The figures of the report in `out`, pictures and drawings, by name."""
    return sorted(path for path in (out / "figures").glob("*") if path.suffix in (".png", ".svg"))


def part(name: str, data: ReportData, result: SweepResult | None = None) -> Markup:
    """One block of the page by its name; empty where it has nothing to show."""
    template, known = environment().get_template("report.html"), everything(data, result or result_of(data))
    context = template.new_context({**known, "results_file": False})
    return Markup("".join(template.blocks[name](context)).strip())


def fill(template: str | Template, **context: Any) -> str:
    """Fill a template. Markup in values is escaped; control characters and direction marks are written as escapes."""
    chosen = environment().get_template(template) if isinstance(template, str) else template
    return clean(chosen.render(**context))


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Templates that escape what they are given and refuse names that are not set."""
    made = Environment(
        loader=PackageLoader("smoothsweep.orchestrator.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {name: getattr(shown, name) for name in FORMATS.split()} | {
        "svg": Canvas.svg,
        "tile": tile_uri,
        "path": quote,
        "compared": compared,
        "whole_flags": _with_whole_flags,
        "stage_name": stage_title,
        "metric_of": metric_of,
        "metric_spec": metric_spec,
    }
    made.tests["null"] = shown.is_null
    values: dict[str, Any] = {
        "CLASS_METRICS": CLASS_METRICS,
        "MOST_COLUMNS": 6,  # metrics side by side that still fit a printed page
        "MEMBERSHIP": WORDS,
        "SETTING_LEGEND": SETTING_LEGEND,
        "LEGEND": LEGEND,
        "standing_head": HEAD,
        "WORDING": WORDING,
        "PROTOCOLS": PROTOCOLS,
        "policy": policy(),
        "ABSENT": shown.ABSENT,
        "NBSP": NBSP,
        "style": Markup(resource("style.css")),
        "script": Markup(resource("page.js")),
        "metric_of": metric_of,
        "leak_verdict": lambda spec, found: found and compared(spec, comparison_columns(found, None)),
    }
    made.globals.update(values)
    macros = made.get_template("macros.html").module
    made.globals.update({name: macro for name, macro in vars(macros).items() if isinstance(macro, Macro)})
    return made


def _with_whole_flags(text: str) -> Markup:
    """A sentence whose command-line flags, with the numbers after them, are not broken across lines."""
    return Markup(FLAG.sub(r"<kbd>\g<0></kbd>", str(escape(text))))


def policy(script: str = "page.js") -> str:
    """The page's content security policy: the browser loads nothing and runs only our own script."""
    digest = base64.b64encode(sha256(resource(script).encode()).digest()).decode("ascii")
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def resource(name: str) -> str:
    """A file of this package as text."""
    return files("smoothsweep.orchestrator.page").joinpath(name).read_text(encoding="utf-8")
