"""Render the report of a sweep as one page, from Jinja2 templates that escape all values. It needs no other file."""

from __future__ import annotations

import base64
import json
import re
from functools import lru_cache
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from smoothsweep.core.errors import InputError
from smoothsweep.core.files import write_file
from smoothsweep.core.judges.columns import CLASS_METRICS, METRICS, metric_of
from smoothsweep.core.readers.files import MIB, open_regular
from smoothsweep.core.text import NBSP, escape_controls, shortened
from smoothsweep.orchestrator.page import content
from smoothsweep.orchestrator.page.figures.canvas import Canvas
from smoothsweep.orchestrator.page.figures.colours import assign
from smoothsweep.orchestrator.page.figures.of_sweep import Figures
from smoothsweep.orchestrator.page.pictures import png, sheet_image, tile_uri
from smoothsweep.orchestrator.result import format as shown
from smoothsweep.orchestrator.result import searches
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.display import LEGEND, MANY, SETTING_LEGEND, WORDING, leak_verdict
from smoothsweep.orchestrator.result.membership import WORDS
from smoothsweep.orchestrator.result.standing import HEAD
from smoothsweep.orchestrator.result.summary import Summary, summarise
from smoothsweep.orchestrator.result.sweep_result import SweepResult, result_of
from smoothsweep.tasks.stage_names import stage_title

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
    known = content.everything(data, summary, result or result_of(data, summary), figures)
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
        fill(
            f"{template}.html", **content.everything(data, summary, result_of(data, summary)), results_file=False
        ).strip()
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
