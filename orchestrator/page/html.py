"""The report of a sweep as one page: question, answer, table, figures, pictures, and where every number comes from."""

from __future__ import annotations

from orchestrator.page import curves, plots, scatter, sections
from orchestrator.page.colours import Colours, assign
from orchestrator.page.costs_page import costs_section
from orchestrator.page.defense_page import defense_section
from orchestrator.page.fresh_page import fresh_section
from orchestrator.page.frontier_figure import frontier_figure
from orchestrator.page.markup import Markup, join, tag
from orchestrator.page.page import PROTOCOLS, drawing, facts_list, page, paragraphs, section
from orchestrator.page.pairs_page import pairs_section
from orchestrator.page.places import places_table
from orchestrator.page.published_page import published_section
from orchestrator.page.search_page import search_section
from orchestrator.page.sheets import sheet_table
from orchestrator.reading.findings.findings import Findings, find
from orchestrator.reading.findings.frontier import frontier_words
from orchestrator.reading.findings.judge_ranks import attack_agreement, judge_agreement
from orchestrator.reading.findings.pairs import sheet_recipes
from orchestrator.reading.findings.shown import MANY
from orchestrator.reading.numbers.decision import decide
from orchestrator.reading.numbers.format import NBSP, count, listing, number
from orchestrator.reading.numbers.metrics import CEILINGS, CLASS_METRICS, spec_of
from orchestrator.reading.numbers.model import ContactSheet, ReportData
from orchestrator.reading.numbers.summary import Summary, summarise

MANY_RECIPES = 40
"""With more, the table of everything measured is folded."""


def render(data: ReportData, summary: Summary | None = None, *, results_file: bool = False) -> str:
    """The whole page. summary: `summarise(data)` where the caller has it. results_file: link results.parquet."""
    summary = summary or summarise(data)
    colours, findings = assign(summary), find(data, summary)
    body = (
        _header(data, findings),
        tag(
            "main",
            defense_section(data, summary, colours),
            _table(data, summary, colours, results_file),
            _trade_off(summary, colours),
            pairs_section(summary, colours),
            fresh_section(data, summary, colours),
            search_section(data.search, summary, colours),
            _pictures(data, colours),
            _judges(summary, colours),
            _exposure(summary, colours),
            _training(data, summary, colours),
            published_section(data, summary, colours),
            costs_section(data, summary, colours),
            _everything(data, summary, colours),
            section("What did not finish", "", sections.troubles(data.every_trial, data.axes), ident="troubles"),
            _about(data),
            _method(data, summary),
            _provenance(data),
        ),
        tag("footer", "Written by smoothsweep. This page is one file: it loads nothing and works offline."),
    )
    return page(data.title, colours.css(), *body)


def _header(data: ReportData, findings: Findings) -> Markup:
    every = data.every_trial
    status = every["status"].value_counts()
    states = [f"{status[name]}{NBSP}{name}" for name in ("done", "failed", "missing") if name in status]
    seeds = data.results["seed"].nunique()
    troubled = len(every) > status.get("done", 0)
    trials = tag("a", listing(states), href="#troubles") if troubled else "all done"
    kicker = [tag("b", "smoothsweep"), join(count(len(every), "trial"), ", ", trials), count(seeds, "seed")]
    if data.judged_classes:
        kicker.append(count(data.judged_classes, "class", "classes"))
    kicker.append(tag("abbr", f"protocol {data.protocol}", title=PROTOCOLS[data.protocol]))
    more = tag("div", paragraphs(findings.more), class_="more") if findings.more else ""
    cautions = tag("div", paragraphs(findings.cautions), class_="cautions") if findings.cautions else ""
    return tag(
        "header",
        tag("p", *(tag("span", part) for part in kicker), class_="kicker"),
        tag("h1", data.title),
        tag("p", data.question, class_="question"),
        tag("div", paragraphs(findings.answer), class_="answer"),
        tag("div", more, cautions, class_="beside"),
    )


def _table(data: ReportData, summary: Summary, colours: Colours, results_file: bool) -> Markup:
    level = f"{100 * summary.settings.level:g}{NBSP}%"
    single = (
        " With one seed, hit rates resample classes only and other metrics have no interval."
        if (summary.frame["n"] == 1).any()
        else ""
    )
    note = (
        f"Means over n seeds with {level} intervals in brackets; bars share a scale within a column. "
        f"Better means better for the owner of the model.{single}"
    )
    file = join(" All trials: ", tag("a", "results.parquet", href="results.parquet"), ".") if results_file else ""
    table = sections.results_table(summary, colours, data.results)
    return section("Recipes, utility and leak", join(note, file), table, ident="results")


def _trade_off(summary: Summary, colours: Colours) -> Markup:
    lead = ""
    if len(summary.recipes) > MANY:
        lead = (
            "Of so many recipes, those have colours and names that no other beats in both accuracy and leak; "
            "hover for the rest."
        )
    caption = (
        "Large dots are means over the seeds, small ones single seeds, and bars are intervals (an arrow head: the bar "
        "leaves the panel)."
    )
    if summary.frame["is_baseline"].any():
        caption += (
            " The ring is the baseline, where the dotted lines cross: below and right of it a recipe is both more "
            "accurate and leaks less."
        )
    overall = drawing(frontier_figure(summary, colours), frontier_words(summary))
    # The big figure shows the one attack by the judge that decides already.
    apart = scatter.accuracy_leak_grid(summary, colours, but=summary.primary if overall else None)
    if overall and apart is not None:
        overall = join(overall, tag("h3", "By attack and by judge"))
    return section("Accuracy against leak", lead, overall, drawing(apart, caption if apart else ""), ident="trade-off")


def _pictures(data: ReportData, colours: Colours) -> Markup:
    lead = "One training image of each class beside the reconstruction that the attack itself ranks first."
    marked = [sheet for sheet in data.sheets if _has_verdicts(sheet)]
    if marked:
        lead += f" A red frame: the {listing(dict.fromkeys(sheet.judge for sheet in marked))} recognises the class."
    return section(
        "What the attacker gets to see", lead, *(sheet_table(sheet, colours) for sheet in data.sheets), ident="sheets"
    )


def _has_verdicts(sheet: ContactSheet) -> bool:
    return any(tile is not None and tile.recognised is not None for row in sheet.rows for tile in row.reconstructions)


def _judges(summary: Summary, colours: Colours) -> Markup:
    figure = plots.judges(summary, colours)
    ceilings = []
    for judge, real in CEILINGS.items():
        if real in summary.measured and judge in summary.measured:
            ceilings.append(f"the {spec_of(judge).label} names {number(spec_of(real), summary.frame[real].mean())}")
    limit = f" Of real images of these classes, {listing(ceilings)} correctly." if ceilings else ""
    lead = (
        "The evaluator was trained on the same private images as the target and may accept what only classifiers "
        f"accept; the independent judge's features come from other people. The gap is itself a finding.{limit}"
    )
    told = [*judge_agreement(summary), *attack_agreement(summary)]
    if figure is None and not told:
        return Markup("")
    return section(
        "Do the judges agree?", lead if figure is not None else "", drawing(figure), paragraphs(told),
        places_table(summary, colours), ident="judges",
    )  # fmt: skip


def _exposure(summary: Summary, colours: Colours) -> Markup:
    caption = "Each dot is one class, its mean over the seeds; hover for its name."
    lead = "A low average may hide somebody who is recognised every time."
    if len(summary.recipes) > MANY:
        lead += " Shown: the baseline and the recipes that no other beats in both accuracy and leak."
    return section("Who is exposed?", lead, drawing(plots.exposure(summary, colours), caption), ident="exposure")


def _training(data: ReportData, summary: Summary, colours: Colours) -> Markup:
    caption, few, shown = "Effective alpha per epoch: what the loss really used, not what was asked for.", None, ""
    logs = data.training_curves
    if len(summary.recipes) > MANY:
        few = sheet_recipes(summary)
        logs = {name: rows for name, rows in logs.items() if name in few}
        caption += " Named: the recipes that the decision is about; hover for the others."
        shown = "The recipes that the decision is about."
    alphas = drawing(curves.alpha_curves(data.alpha_curves, colours, few), caption)
    training = drawing(curves.training_curves(logs, colours), shown)
    return section("How the targets were trained", "", alphas, training, ident="training")


def _everything(data: ReportData, summary: Summary, colours: Colours) -> Markup:
    level = f"{100 * summary.settings.level:g}{NBSP}%"
    lead = f"Value, {level} interval, and the difference from the baseline with its interval and verdict."
    table = sections.every_metric(summary, colours) if summary.measured else Markup("")
    if table and len(summary.recipes) > MANY_RECIPES:
        table = tag("details", tag("summary", f"All {count(len(summary.recipes), 'recipe')}"), table)
    return section("Everything measured", lead, table, sections.not_measured(data, summary), ident="everything")


def _about(data: ReportData) -> Markup:
    return section("About this sweep", "", paragraphs(data.intro), facts_list(data.facts), ident="about")


def _method(data: ReportData, summary: Summary) -> Markup:
    """How to read the page: n, intervals, pairing, protocol, and the words."""
    level = f"{100 * summary.settings.level:g}{NBSP}%"
    lines = [
        f"n is the number of seeds: independently trained targets, each attacked anew. {PROTOCOLS[data.protocol]}",
        f"Hit rates carry a {level} two-level bootstrap interval: seeds and classes are both drawn anew. With one seed "
        "only classes are, and the interval says nothing about another training run. Other metrics carry Student's t "
        "interval over seeds, and none with one seed.",
        "Differences are paired by seed and, for hit rates, by class, and in every metric corrected for how many "
        "recipes are compared (Bonferroni's correction of Banerjee's intervals, which few seeds do not make too "
        "narrow): a difference is told where its interval leaves 0 out. Where the data cannot tell, the page says that "
        "n is too small: that is no proof of no effect. One seed never tells.",
        "The probability of being best is a share of resamples of seeds and classes around the measured means; among "
        "recipes that are truly equal the one ahead gets more than its due. Beside recipes that it cannot be told from "
        f"it is put at {level} at most.",
    ]
    chosen = decide(summary)
    if chosen.best is not None and summary.primary in CLASS_METRICS:
        lines.append(f"The answer is decided by the {spec_of(summary.primary).label}.")
    terms = [tag("div", tag("dt", spec_of(key).label), tag("dd", spec_of(key).description)) for key in summary.measured]
    return section(
        "How to read this", "", paragraphs(lines), tag("dl", *terms, class_="terms") if terms else "", ident="method"
    )


def _provenance(data: ReportData) -> Markup:
    trials = data.every_trial
    table = sections.provenance(trials, data.axes, data.links)
    if len(trials) > 24:
        table = tag("details", tag("summary", f"All {count(len(trials), 'trial')}"), table)
    lead = "Every number leads to the manifests of the stages it comes from."
    return section("Where every number comes from", lead, table, ident="provenance")
