"""Render the report of a sweep as one page, from Jinja2 templates that escape all values. It needs no other file."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.judges.columns import CLASS_METRICS, METRICS, metric_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.readers.files import MIB, open_regular
from smoothsweep.core.text import NBSP, escape_controls, shortened
from smoothsweep.orchestrator.page.figures.canvas import Canvas
from smoothsweep.orchestrator.page.figures.colours import assign
from smoothsweep.orchestrator.page.figures.of_sweep import Figures
from smoothsweep.orchestrator.page.pictures import png, sheet_image, tile_uri
from smoothsweep.orchestrator.result import (
    defenses,
    display,
    findings,
    leaks,
    published,
    searches,
)
from smoothsweep.orchestrator.result import format as shown
from smoothsweep.orchestrator.result.data import ContactSheet, ReportData, Tile, progress
from smoothsweep.orchestrator.result.display import LEGEND, MANY, SETTING_LEGEND, WORDING, leak_verdict
from smoothsweep.orchestrator.result.standing import (
    ATTACKS,
    HEAD,
    WORDS,
    check_reaudit,
    meaning,
    recipe_standings,
    title_of,
)
from smoothsweep.orchestrator.result.summary import Summary, decide, summarise
from smoothsweep.orchestrator.result.sweep_result import SweepResult, result_of, rows_of
from smoothsweep.tasks.stage_names import stage_title

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
    first, told = findings.first_measured(summary), leaks.verdicts(summary)
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
        "hidden": {"verdicts": told, "reason": leaks.hiding_not_looked_for(summary), "left_out": _left_out(summary)},
        "told": {recipe: display.leak_verdict(summary.spec, one) for recipe, one in told.items()},
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


def _left_out(summary: Summary) -> list[str]:
    """The recipes that lack an attack or a seed, in the order of the sweep."""
    missing = {} if summary.primary is None else summary.cases(summary.primary).missing
    return [recipe for recipe in summary.recipes if recipe in missing]


def _verdicts(summary: Summary, first: Metric | None) -> dict[str, Any]:
    """Row of the frame -> its comparisons, as cells show them: by every metric, of the first screen, of settings."""
    rows, settings = summary.cells.items(), summary.by_setting and summary.primary is not None
    return {
        "verdicts": {
            row: {key: display.cell_verdict(summary, metric_of(key), cell) for key in summary.measured}
            for row, cell in rows
        },
        "short_verdicts": {row: first and display.recipe_verdict(summary, first, cell) for row, cell in rows},
        "setting_verdicts": {row: display.of_setting(summary, row) for row, _ in rows} if settings else {},
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


NAME = "smoothsweep"
MOST_BYTES = MIB  # of a page: its head; 16 bytes a trial
_TRIAL = re.compile(r"[0-9a-f]{12}")


class Origin(BaseModel):
    """What a page says that it shows.

    Attributes:
        sweep: The sweep's name.
        store: The place of its artifacts.
        trials: Ids of its trials.
    """

    model_config = ConfigDict(extra="forbid")

    sweep: Annotated[str, Field(max_length=200)]
    store: Annotated[str, Field(max_length=4000)]
    trials: Annotated[list[Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]], Field(min_length=1)]


def origin(data: ReportData) -> str:
    """The line for the page of this sweep; empty where its trials have no ids."""
    trials = [trial for trial in data.every_trial["trial"].astype(str) if _TRIAL.fullmatch(trial)]
    if not trials:
        return ""
    source = Origin(sweep=data.title, store=data.facts.get("Store", ""), trials=list(dict.fromkeys(trials)))
    return json.dumps(source.model_dump(), separators=(",", ":"))


def read_origin(path: Path) -> Origin:
    """What the page says, of which nothing is known to be true. Reads the head of the file alone.

    Raises InputError for a page that says nothing of the kind.
    """
    with open_regular(path) as file:
        head = file.read(MOST_BYTES).decode("utf-8", "replace")
    line = _Head()
    line.feed(head)
    try:
        return Origin.model_validate_json(line.content or "")
    except ValidationError:
        expected = "expected a page of `smoothsweep report` that names its trials"
        got = "another, or one of an earlier version: smoothsweep report writes it anew"
        raise InputError(f"{shortened(str(path))}: {expected}, got {got}") from None


class _Head(HTMLParser):
    """Finds the first `<meta name="smoothsweep">`."""

    def __init__(self) -> None:
        super().__init__()
        self.content: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "meta" and attributes.get("name") == NAME and self.content is None:
            self.content = attributes.get("content")


FILTERS = (
    "number",
    "interval",
    "estimate",
    "signed",
    "signed_interval",
    "duration",
    "count",
    "listing",
    "minus",
    "significant",
    "is_null",
    "difference",
)

FLAG = re.compile(r"--[a-z][a-z-]*(?: \d[\d.]*(?![\w.]))?")

SECTIONS = (
    "decision/defenses",
    "decision/recipes",
    "decision/attacks",
    "decision/looks",
    "decision/standing",
    "decision/hiding",
    "decision/two_leaks",
    "decision/fresh",
    "audit/search",
    "audit/sheets",
    "audit/judges",
    "audit/queries",
    "audit/advantage",
    "audit/gradients",
    "audit/training",
    "audit/features",
    "decision/paper",
    "audit/cost",
    "audit/everything",
    "audit/about",
)
"""The templates of the sections below the first screen, in their order."""

PROTOCOLS = {
    "clean": "Protocol clean: correct conventions throughout. Compare within this page, not digit by digit with "
    "published tables.",
    "paper": "Protocol paper: the official code's conventions, its bugs included, so that numbers compare with the "
    "published tables.",
}


def render(
    data: ReportData,
    summary: Summary | None = None,
    *,
    result: SweepResult | None = None,
    figures: Figures | None = None,
    results_file: bool = False,
) -> str:
    """The whole page. summary, result, figures: of `data`, where the caller has them. results_file: link
    results.parquet."""
    summary = summary or summarise(data)
    known = everything(data, summary, result or result_of(data, summary), figures)
    return fill("report.html", **known, results_file=results_file, origin=origin(data))


def write_report(
    data: ReportData, out: Path, summary: Summary | None = None, result: SweepResult | None = None
) -> Path:
    """Write `out/report.html` and `out/figures/*`; returns the page's path.

    summary, result: of `data`, where the caller has them already. Every file replaces its predecessor in one step, the
    page last, so that a reader never meets half a report. results.parquet is linked where it lies in `out` already.
    """
    out.mkdir(parents=True, exist_ok=True)
    summary = summary or summarise(data)
    figures = Figures(data=data, summary=summary, colours=assign(summary))
    results_file = (out / "results.parquet").is_file()
    page = render(data, summary, result=result, figures=figures, results_file=results_file)
    drawn = {name: canvas.file(name) for name, canvas in figures.files().items() if canvas is not None}
    sheets = {f"sheet-{number}.png": png(sheet_image(sheet)) for number, sheet in enumerate(data.sheets, start=1)}
    for name, content_of_file in (drawn | sheets).items():
        write_file(out / "figures" / name, content_of_file, parents=True)
    write_file(out / "report.html", page)
    return out / "report.html"


def figure_files(out: Path) -> list[Path]:
    """The figures of the report in `out`, pictures and drawings, by name."""
    return sorted(path for path in (out / "figures").glob("*") if path.suffix in (".png", ".svg"))


def part(name: str, data: ReportData, summary: Summary) -> Markup:
    """One part of the page by its template's name; empty where it has nothing to show."""
    template = next(section for section in ("decision/first", *SECTIONS) if section.endswith(f"/{name}"))
    return Markup(
        fill(f"{template}.html", **everything(data, summary, result_of(data, summary)), results_file=False).strip()
    )


def fill(template: str | Template, **context: Any) -> str:
    """Fill a template. Markup in values is escaped; control characters and direction marks are written as escapes."""
    chosen = environment().get_template(template) if isinstance(template, str) else template
    return escape_controls(chosen.render(**context).encode("utf-8", "replace").decode("utf-8"))


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
    made.filters |= {name: getattr(shown, name) for name in FILTERS} | {
        "svg": _svg,
        "tile": tile_uri,
        "path": quote,
        "whole_flags": _with_whole_flags,
        "stage_name": stage_title,
        "aim_words": searches.aim_words,
        "value_words": searches.value_words,
    }
    made.tests["null"] = shown.is_null
    filters: dict[str, Any] = {
        "metric_of": metric_of,
        "axis_value": shown.axis_value,
        "leak_verdict": leak_verdict,
        "METRICS": METRICS,
        "CLASS_METRICS": CLASS_METRICS,
        "MANY": MANY,
        "MOST_COLUMNS": 6,  # metrics side by side that still fit a printed page
        "MEMBERSHIP": WORDS,
        "SETTING_LEGEND": SETTING_LEGEND,
        "LEGEND": LEGEND,
        "standing_head": HEAD,
        "WORDING": WORDING,
        "PROTOCOLS": PROTOCOLS,
        "SECTIONS": SECTIONS,
        "policy": policy(),
        "ABSENT": shown.ABSENT,
        "NBSP": NBSP,
        "style": Markup(resource("style.css")),
        "script": Markup(resource("page.js")),
    }
    made.globals.update(filters)
    return made


def _with_whole_flags(text: str) -> Markup:
    """A sentence whose command-line flags, with the numbers after them, are not broken across lines."""
    return Markup(FLAG.sub(r"<kbd>\g<0></kbd>", str(escape(text))))


def _svg(canvas: Canvas | None) -> Markup:
    return Markup("") if canvas is None else canvas.svg()


def policy(script: str = "page.js") -> str:
    """The page's content security policy: the browser loads nothing and runs only our own script."""
    digest = base64.b64encode(sha256(resource(script).encode()).digest()).decode("ascii")
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def resource(name: str) -> str:
    """A file of this package as text."""
    return files("smoothsweep.orchestrator.page").joinpath(name).read_text(encoding="utf-8")
