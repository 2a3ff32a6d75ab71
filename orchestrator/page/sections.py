"""The tables and lists of the page, one function per section."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from urllib.parse import quote

import pandas as pd

from core.metrics.verdicts import CANNOT_TELL, LOWER
from orchestrator.page.colours import Colours
from orchestrator.page.markup import Markup, join, tag
from orchestrator.page.plots import micro
from orchestrator.reading.findings.tables import seeds, shown_metrics
from orchestrator.reading.numbers.decision import decide
from orchestrator.reading.numbers.format import (
    ABSENT,
    axis_value,
    count,
    duration,
    interval,
    is_null,
    listing,
    number,
    points,
    signed,
    signed_interval,
)
from orchestrator.reading.numbers.metrics import METRICS, MetricSpec, spec_of
from orchestrator.reading.numbers.model import Axis, ReportData, StageLink
from orchestrator.reading.numbers.summary import Summary

MANY_RECIPES = 16
"""With more, the first table can be filtered."""


def results_table(summary: Summary, colours: Colours, results: pd.DataFrame) -> Markup:
    """The first table: one row per cell with the metrics that decide, grouped by attack. results: the trials, whose
    seeds lead to their manifests."""
    keys, choice = shown_metrics(summary), decide(summary)
    versus = summary.primary is not None and bool(summary.frame["is_baseline"].any())
    heads = [tag("th", "Recipe", scope="col"), tag("th", tag("abbr", "n", title="seeds done"), scope="col")]
    heads += [tag("th", _headed(spec_of(key)), scope="col") for key in keys]
    if versus:
        judge = spec_of(summary.primary).label
        heads.append(tag("th", "Leak against the baseline", tag("br"), tag("span", judge, class_="soft"), scope="col"))
    domains = {key: _domain(summary, key) for key in keys}
    done = results[results["status"] == "done"]
    seed_of = dict(zip(done["trial"], done["seed"], strict=True))
    rows = []
    for attack in summary.attacks:
        if attack:
            rows.append(tag("tr", tag("th", attack, colspan=len(heads), scope="rowgroup"), class_="group"))
        for index in summary.frame.index[summary.frame["attack"] == attack]:
            cell = summary.frame.loc[index]
            cells = [_recipe_head(cell, choice.marked == index), tag("td", seeds(cell), _to_manifests(seed_of, cell))]
            cells += [_value_cell(spec_of(key), cell, domains[key]) for key in keys]
            if versus:
                cells.append(_versus_cell(spec_of(summary.primary), cell))
            # Green only where the gain over the baseline is clear.
            best = " best" if choice.marked == index else ""
            look = f"{colours.css_class(cell['recipe'])}{best}{' clear' if best and choice.clear else ''}"
            rows.append(tag("tr", *cells, id=f"row-{index}", class_=look, data_recipe=cell["recipe"]))
    look = "results filtered" if len(summary.recipes) > MANY_RECIPES else "results"
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_=look)
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label="recipes, utility and leak")


def _to_manifests(seed_of: Mapping[str, int], cell: pd.Series) -> Markup:
    """The seeds of a row, each leading to the manifests of its trial."""
    links = [
        tag("a", seed_of[trial], href=f"#trial-{trial}", title=f"manifests of seed {seed_of[trial]}")
        for trial in cell["trials"]
        if trial in seed_of
    ]
    return tag("span", tag("br"), "seed ", join(*links, separator=" "), class_="ci seeds") if links else Markup("")


def _headed(spec: MetricSpec) -> Markup:
    way = {"low": "less is better", "high": "more is better", None: ""}[spec.better]
    return join(
        tag("abbr", spec.label[:1].upper() + spec.label[1:], title=spec.description),
        tag("br"),
        tag("span", way, class_="soft"),
    )


def _domain(summary: Summary, key: str) -> tuple[float, float]:
    """The scale a column's bars share: hit rates from 0, the rest around what occurs."""
    values = pd.concat([summary.frame[key], summary.frame[f"{key}_low"], summary.frame[f"{key}_high"]]).dropna()
    if spec_of(key).unit == "percent" and spec_of(key).group == "leak":
        return 0.0, max(0.05, float(values.max()))
    means = summary.frame[key].dropna()
    room = max(float(means.max() - means.min()), abs(float(means.mean())) * 0.02, 1e-9)
    return float(means.min()) - room, float(means.max()) + room


def _recipe_head(cell: pd.Series, best: bool) -> Markup:
    marks = [tag("span", "least leak", class_="tag least")] if best else []
    marks += [tag("span", "baseline", class_="tag")] if cell["is_baseline"] else []
    return tag("th", tag("span", cell["recipe"], class_="named"), *marks, scope="row")


def _value_cell(spec: MetricSpec, cell: pd.Series, domain: tuple[float, float]) -> Markup:
    mean, low, high = (cell[f"{spec.key}{end}"] for end in ("", "_low", "_high"))
    if is_null(mean):
        return tag("td", tag("span", ABSENT, class_="soft"))
    shown = interval(spec, low, high)
    beside = tag("span", f" {shown}" if shown else " no interval", class_="ci")
    return tag("td", tag("span", number(spec, mean), class_="value"), beside, micro(spec, mean, low, high, domain))


def _versus_cell(spec: MetricSpec, cell: pd.Series) -> Markup:
    if cell["is_baseline"]:
        return tag("td", tag("span", "reference", class_="soft"))
    words = verdict_words(spec, cell)
    if not words:
        return tag("td", tag("span", ABSENT, class_="soft"))
    return tag("td", words, tag("br"), _difference(spec, cell))


def _difference(spec: MetricSpec, cell: pd.Series) -> Markup:
    """The interval of a difference, and its size where the verdict did not say it."""
    ends = signed_interval(spec, cell[f"{spec.key}_diff_low"], cell[f"{spec.key}_diff_high"])
    size = signed(spec, cell[f"{spec.key}_diff"]) if cell[f"{spec.key}_verdict"] == CANNOT_TELL else ""
    return tag("span", f"{size} {ends}".strip(), class_="ci")


def verdict_words(spec: MetricSpec, cell: pd.Series) -> Markup:
    """`26.1 points lower` in the colour of its meaning; `n too small to tell` where the interval covers 0."""
    verdict = cell[f"{spec.key}_verdict"]
    if not verdict:
        return Markup("")
    if verdict == CANNOT_TELL and cell[f"{spec.key}_diff_low"] == cell[f"{spec.key}_diff_high"] == 0:
        return tag("span", "no difference", class_="verdict unclear")
    if verdict == CANNOT_TELL:
        return tag("span", "n too small to tell", class_="verdict unclear")
    defended = spec.better is not None and (verdict == LOWER) == (spec.better == "low")
    look = "" if spec.better is None else " good" if defended else " bad"
    return tag("span", f"{points(spec, cell[f'{spec.key}_diff'])} {verdict}", class_=f"verdict{look}")


MOST_COLUMNS = 6
"""Metrics side by side that still fit a printed page."""


def every_metric(summary: Summary, colours: Colours) -> Markup:
    """Everything measured: value, interval, and difference from the baseline with its interval and verdict."""
    specs = [spec_of(key) for key in summary.measured]
    tables = math.ceil(len(specs) / MOST_COLUMNS)
    parts = []
    for start in range(0, len(specs), math.ceil(len(specs) / max(1, tables))):
        chosen = specs[start : start + math.ceil(len(specs) / tables)]
        name = listing(spec.label for spec in chosen)
        table = _every_table(summary, colours, chosen)
        parts.append(tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=name))
    return join(*parts)


def _every_table(summary: Summary, colours: Colours, specs: Sequence[MetricSpec]) -> Markup:
    heads = [tag("th", "Recipe", scope="col"), *(tag("th", _headed(spec), scope="col") for spec in specs)]
    rows = []
    for attack in summary.attacks:
        if attack:
            rows.append(tag("tr", tag("th", attack, colspan=len(heads), scope="rowgroup"), class_="group"))
        for index, cell in summary.frame[summary.frame["attack"] == attack].iterrows():
            link = tag("a", cell["recipe"], href=f"#row-{index}", class_="named")
            name = tag("th", link, scope="row")
            cells = [_every_cell(spec, cell) for spec in specs]
            rows.append(tag("tr", name, *cells, class_=colours.css_class(cell["recipe"])))
    return tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_="every")


def _every_cell(spec: MetricSpec, cell: pd.Series) -> Markup:
    mean, low, high = (cell[f"{spec.key}{end}"] for end in ("", "_low", "_high"))
    if is_null(mean):
        return tag("td", tag("span", ABSENT, class_="soft"))
    measured = int(cell[f"{spec.key}_n"])
    parts = [
        tag("span", number(spec, mean), class_="value"),
        tag("span", interval(spec, low, high) or "no interval", class_="ci"),
    ]
    if measured != cell["n"]:
        parts.append(tag("span", f"{measured} of {count(int(cell['n']), 'seed')}", class_="ci"))
    if cell[f"{spec.key}_verdict"]:
        parts += [verdict_words(spec, cell), _difference(spec, cell)]
    return tag("td", *parts)


def not_measured(data: ReportData, summary: Summary) -> Markup:
    """What has no value anywhere, with the reason; a metric nobody mentions is left out."""
    missing = [spec for spec in METRICS if spec.key not in summary.measured and spec.key in data.reasons]
    if not missing:
        return Markup("")
    items = [tag("li", tag("strong", spec.label), f": {data.reasons[spec.key]}") for spec in missing]
    return join(tag("h3", "Not measured"), tag("ul", *items))


def troubles(results: pd.DataFrame, axes: Sequence[Axis]) -> Markup:
    """Failed and missing trials with their cause; empty where all are done."""
    rows = results[results["status"] != "done"]
    if not len(rows):
        return Markup("")
    body = [
        tag(
            "tr",
            tag("td", tag("code", row["trial"])),
            tag("td", axes_words(axes, row)),
            tag("td", row["seed"]),
            tag("td", tag("span", row["status"], class_="failure" if row["status"] == "failed" else "soft")),
            tag("td", _cause(row)),
        )
        for _, row in rows.iterrows()
    ]
    return _table(("Trial", "Setting", "Seed", "State", "Cause"), body)


def _cause(row: pd.Series) -> str:
    if "failure" in row and not is_null(row["failure"]):
        return str(row["failure"])
    return "no cause recorded" if row["status"] == "failed" else "it has not run; run the sweep again to fill it in"


def axes_words(axes: Sequence[Axis], row: Mapping) -> str:
    """All axes of a trial in words."""
    return ", ".join(f"{axis.name} {axis_value(axis, row[axis.key])}" for axis in axes if not is_null(row[axis.key]))


def provenance(results: pd.DataFrame, axes: Sequence[Axis], links: Mapping[str, Sequence[StageLink]]) -> Markup:
    """Every trial's stages with their manifests, seconds, and whether the store had them already."""
    body, met = [], set()
    for _, row in results.iterrows():
        stages = join(*(stage_link(link) for link in links.get(row["trial"], ())), separator=" \u00b7 ")
        body.append(
            tag(
                "tr",
                tag("td", tag("code", row["trial"])),
                tag("td", axes_words(axes, row)),
                tag("td", row["seed"]),
                tag("td", row["status"]),
                tag("td", stages or ABSENT),
                id=None if row["trial"] in met else f"trial-{row['trial']}",
            )
        )
        met.add(row["trial"])
    return _table(("Trial", "Setting", "Seed", "State", "Stages: manifest, time"), body)


def stage_link(link: StageLink) -> Markup:
    """`target 42 s`, linked to its manifest. Quoting keeps a path a path: no scheme survives it."""
    seconds = tag("span", f" {duration(link.seconds)}", class_="soft")
    return join(tag("a", link.stage, href=quote(link.path)), seconds)


def _table(heads: Sequence[str], rows: Sequence[Markup]) -> Markup:
    top = tag("thead", tag("tr", *(tag("th", head, scope="col") for head in heads)))
    return tag("div", tag("table", top, tag("tbody", *rows), class_="plain"), class_="scroll")
