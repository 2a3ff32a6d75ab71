"""What the sweep cost, on the page."""

from __future__ import annotations

from orchestrator.page.colours import Colours
from orchestrator.page.markup import Markup, tag
from orchestrator.page.page import section
from orchestrator.reading.findings.costs import Cost, cost_words, costs
from orchestrator.reading.numbers.format import count, duration
from orchestrator.reading.numbers.model import ReportData
from orchestrator.reading.numbers.summary import Summary

MANY = 24
"""Recipes that the page lists without asking."""



def costs_section(data: ReportData, summary: Summary, colours: Colours) -> Markup:
    """The section; empty where no manifest is known."""
    found = costs(data, summary)
    if found is None:
        return Markup("")
    lead = (
        "From the manifests: seconds of every finished stage times the devices it held. A stage counts once, however "
        "many trials it serves."
    )
    kinds = _table("Stage", found.by_kind, found.total, colours)
    recipes = _table("Recipe", found.by_recipe, found.total, colours)
    if len(found.by_recipe) > MANY:
        recipes = tag("details", tag("summary", f"All {count(len(found.by_recipe), 'recipe')}"), recipes)
    side = tag("div", tag("div", tag("h3", "By kind of stage"), kinds), tag("div", tag("h3", "By recipe"), recipes),
               class_="pair")  # fmt: skip
    return section("What it cost", lead, tag("p", cost_words(found.total, data.spent)), side, ident="cost")



def _table(title: str, rows: dict[str, Cost], total: Cost, colours: Colours) -> Markup:
    most = max(cost.seconds for cost in rows.values()) or 1.0
    body = []
    for name, cost in sorted(rows.items(), key=lambda item: -item[1].seconds):
        share = 100 * cost.seconds / total.seconds if total.seconds else 0.0
        look = colours.css_class(name)
        known = look != "rx"
        bar = tag("span", class_="share", style=f"width:{64 * cost.seconds / most:.1f}px", aria_hidden="true")
        body.append(
            tag(
                "tr",
                tag("th", tag("span", name.replace("_", " "), class_="named" if known else None), scope="row"),
                tag("td", cost.stages, data_v=cost.stages),
                tag("td", duration(cost.seconds), data_v=f"{cost.seconds:.3f}"),
                tag("td", bar, tag("span", f" {share:.0f}\u00a0%", class_="ci")),
                class_=look,
                data_recipe=name if known else None,
            )
        )
    heads = (title, "Stages", "Device time", "Share")
    top = tag("thead", tag("tr", *(tag("th", head, scope="col") for head in heads)))
    return tag("div", tag("table", top, tag("tbody", *body), class_="plain costs sortable"), class_="scroll")
