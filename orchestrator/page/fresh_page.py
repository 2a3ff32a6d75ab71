"""The second audit on the page."""

from __future__ import annotations

from core.metrics.recommendation import Reaudit
from orchestrator.page.colours import Colours
from orchestrator.page.markup import Markup, tag
from orchestrator.page.page import section
from orchestrator.reading.findings.fresh import checked, fresh_words, meaning
from orchestrator.reading.numbers.format import listing, number, signed, signed_interval
from orchestrator.reading.numbers.metrics import spec_of
from orchestrator.reading.numbers.model import ReportData
from orchestrator.reading.numbers.summary import Summary


def fresh_section(data: ReportData, summary: Summary, colours: Colours) -> Markup:
    """The section; empty without a second audit."""
    found = checked(data, summary)
    if found is None:
        return Markup("")
    spec = spec_of(summary.primary)
    heads = ("Recipe", "First audit", "Fresh seeds", "Fresh minus first", "")
    rows = [_row(summary, colours, recipe, one) for recipe, one in found.recipes.items()]
    table = tag("table", tag("thead", tag("tr", *(tag("th", head, scope="col") for head in heads))),
                tag("tbody", *rows), class_="plain fresh")  # fmt: skip
    seeds = f"{'seed' if len(found.seeds) == 1 else 'seeds'} {listing(map(str, found.seeds))}"
    lead = (
        f"The recipes of the frontier once more with {seeds}, which had no part in choosing them: new trainings, new "
        f"attacks, leak by the {spec.label} under the attack that works best each time. Where the fresh number "
        f"{'is higher' if spec.better == 'low' else 'is lower'}, the first audit flattered the recipe."
    )
    return section("Checked again with fresh seeds", lead, *(tag("p", line) for line in fresh_words(summary, found)),
                   tag("div", table, class_="scroll"), ident="fresh")  # fmt: skip



def _row(summary: Summary, colours: Colours, recipe: str, one: Reaudit) -> Markup:
    spec, best = spec_of(summary.primary), summary.evidence.recommended
    mark = [tag("span", "recommended", class_="tag")] if recipe == best else []
    gap = tag("td", signed(spec, one.bias), " ", tag("span", signed_interval(spec, one.low, one.high), class_="ci"))
    return tag(
        "tr",
        tag("th", tag("span", recipe, class_="named"), *mark, scope="row"),
        tag("td", number(spec, one.selected)),
        tag("td", number(spec, one.fresh)),
        gap,
        tag("td", meaning(summary, one)),
        class_=colours.css_class(recipe),
        data_recipe=recipe,
    )
