"""The two-dimensional example as a page: three models side by side, what the attack did, ours beside the paper's."""

from __future__ import annotations

from orchestrator.page import sections
from orchestrator.page.markup import Markup, join, tag
from orchestrator.page.page import PROTOCOLS, facts_list, page, paragraphs, section
from orchestrator.page.toy_plots import ends_inside, swatch, toy_panel
from orchestrator.reading.numbers.format import ABSENT, count, minus, significant
from orchestrator.reading.numbers.model import Axis, ToyData, ToyFigure, ToyPanel


def render_toy(data: ToyData) -> str:
    """The whole page."""
    body = (
        _header(data),
        tag(
            "main",
            _legend(data),
            *(_figure(shown, data) for shown in data.figures),
            section("Ours beside the paper's", "", _table(data), ident="table"),
            _troubles(data),
            section("About this example", "", paragraphs(data.intro), facts_list(data.facts), ident="about"),
            _provenance(data),
        ),
        tag("footer", "Written by smoothsweep. This page is one file: it loads nothing and works offline."),
    )
    return page(data.title, "", *body)


def _header(data: ToyData) -> Markup:
    kicker = [
        tag("b", "smoothsweep"),
        "two-dimensional example",
        tag("abbr", f"protocol {data.protocol}", title=PROTOCOLS[data.protocol]),
    ]
    return tag(
        "header",
        tag("p", *(tag("span", part) for part in kicker), class_="kicker"),
        tag("h1", data.title),
        tag("p", "Where does an inversion end when the model was trained with smoothed labels?", class_="question"),
        tag("div", paragraphs(toy_answer(data)), class_="answer"),
    )


def toy_answer(data: ToyData) -> tuple[str, ...]:
    """What the first figure shows, in one or two sentences."""
    if not data.figures or not data.figures[0].panels:
        return ("Nothing has been computed yet.",)
    known = [panel for panel in data.figures[0].panels if panel.distance is not None]
    panels = sorted(known, key=lambda panel: panel.distance)
    if not panels:
        return ("No attack ended anywhere near: each left all bounds.",)
    near, far = panels[0], panels[-1]
    first = (
        f"With alpha {_alpha(near)} the attack ends {significant(near.distance)} from the nearest training point of "
        f"its target class, after {count(near.steps, 'step')}."
    )
    if near is far:
        return (first,)
    between = "".join(
        f" With alpha {_alpha(panel)}: {significant(panel.distance)}, {count(panel.steps, 'step')}."
        for panel in panels[1:-1]
    )
    return (
        first,
        f"With alpha {_alpha(far)} it ends {significant(far.distance)} away, after {count(far.steps, 'step')}."
        f"{between}",
        "One model and one start each: an illustration, not evidence.",
    )


def _alpha(panel: ToyPanel) -> str:
    return minus(f"{panel.alpha:g}")


def _legend(data: ToyData) -> Markup:
    classes = [
        tag("span", swatch(index, name), f" {name}{' (target)' if index == data.target_class else ''}\u2003")
        for index, name in enumerate(data.class_names)
    ]
    marks = "Yellow: the attack's path, from the open ring to the filled one. Dashed: the way to the nearest "
    return tag(
        "div", tag("p", *classes), tag("p", marks, "training point. Strong colour: high confidence."), class_="soft"
    )


def _figure(shown: ToyFigure, data: ToyData) -> Markup:
    panels = [
        tag("figure", toy_panel(data, panel), tag("figcaption", _panel_caption(data, panel))) for panel in shown.panels
    ]
    return section(shown.title, shown.caption, tag("div", *panels, class_="panels"))


def _panel_caption(data: ToyData, panel: ToyPanel) -> Markup:
    named = f"alpha {_alpha(panel)}" + (f", {panel.label}" if panel.label else "")
    if panel.distance is None:
        words = f"{count(panel.steps, 'step')}; the path left all bounds."
    else:
        words = f"{count(panel.steps, 'step')}, ends {significant(panel.distance)} from the data"
        words += "." if ends_inside(data, panel) else ", outside the picture."
    return join(tag("span", named, class_="big"), words)


def _table(data: ToyData) -> Markup:
    heads = ["", "alpha", "steps", "steps, the paper's", "distance", "distance, the paper's"]
    rows = []
    for shown in data.figures:
        for panel in shown.panels:
            paper = [
                ABSENT if panel.paper_steps is None else f"{panel.paper_steps:,}",
                ABSENT if panel.paper_distance is None else f"{panel.paper_distance:g}",
            ]
            rows.append(
                tag(
                    "tr",
                    tag("th", shown.title, scope="row"),
                    tag("td", _alpha(panel)),
                    tag("td", f"{panel.steps:,}", class_="ours"),
                    tag("td", paper[0], class_="theirs"),
                    tag("td", ABSENT if panel.distance is None else significant(panel.distance), class_="ours"),
                    tag("td", paper[1], class_="theirs"),
                )
            )
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in heads)))
    return tag("div", tag("table", head, tag("tbody", *rows), class_="paper"), class_="scroll") if rows else Markup("")


def _troubles(data: ToyData) -> Markup:
    if data.results is None:
        return Markup("")
    return section("What did not finish", "", sections.troubles(data.results, _axes(data)), ident="troubles")


def _provenance(data: ToyData) -> Markup:
    if data.results is None:
        return Markup("")
    lead = "Every number leads to the manifests of the stages it comes from."
    table = sections.provenance(data.results, _axes(data), data.links)
    return section("Where every number comes from", lead, table, ident="provenance")


def _axes(data: ToyData) -> tuple[Axis, ...]:
    return (Axis(key="alpha"),) if "alpha" in data.results.columns else ()
