"""Render the report of a sweep as one page, from Jinja2 templates that escape all values. It needs no other file."""

from __future__ import annotations

import base64
import re
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.text import NBSP, escape_controls
from smoothsweep.orchestrator.page import content
from smoothsweep.orchestrator.page.drawing.canvas import Canvas
from smoothsweep.orchestrator.page.drawing.sheets import tile_uri
from smoothsweep.orchestrator.page.origin import origin
from smoothsweep.orchestrator.result import format as shown
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.display import (
    LEGEND,
    WORDING,
    cell_verdict,
    difference_verdict,
    leak_verdict,
    recipe_verdict,
)
from smoothsweep.orchestrator.result.standing import HEAD
from smoothsweep.orchestrator.result.summary import Summary, summarise
from smoothsweep.tasks.stage_names import stage_title

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


def render(data: ReportData, summary: Summary | None = None, *, results_file: bool = False) -> str:
    """The whole page. summary: `summarise(data)` where the caller has it. results_file: link results.parquet."""
    summary = summary or summarise(data)
    return fill("report.html", **content.everything(data, summary), results_file=results_file, origin=origin(data))


def part(name: str, data: ReportData, summary: Summary) -> Markup:
    """One part of the page by its template's name; empty where it has nothing to show."""
    template = next(section for section in ("decision/first", *SECTIONS) if section.endswith(f"/{name}"))
    return Markup(fill(f"{template}.html", **content.everything(data, summary), results_file=False).strip())


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
    }
    made.tests["null"] = shown.is_null
    filters: dict[str, Any] = {
        "metric_of": metric_of,
        "axis_value": shown.axis_value,
        "leak_verdict": leak_verdict,
        "cell_verdict": cell_verdict,
        "recipe_verdict": recipe_verdict,
        "LEGEND": LEGEND,
        "standing_head": HEAD,
        "WORDING": WORDING,
        "difference_verdict": difference_verdict,
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
