"""Places by every judge, side by side."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.page.colours import Colours
from orchestrator.page.markup import Markup, join, tag
from orchestrator.reading.findings.judge_ranks import judging_metrics, place, signed_leaks
from orchestrator.reading.findings.pairs import SIDE, chosen_recipes
from orchestrator.reading.numbers.evidence import leak_sign
from orchestrator.reading.numbers.format import ABSENT, count, number
from orchestrator.reading.numbers.metrics import spec_of
from orchestrator.reading.numbers.summary import Summary


def places_table(summary: Summary, colours: Colours) -> Markup:
    """Leak of the recipes that matter by every judge, each at its worst, with its place among all recipes."""
    metrics = judging_metrics(summary)
    if len(metrics) < 2 or summary.evidence is None:
        return Markup("")
    leaks = {metric: signed_leaks(summary, metric) for metric in metrics}
    chosen = chosen_recipes(summary) if summary.evidence.pairs else list(summary.evidence.rows)[:SIDE]
    heads = [tag("th", "Recipe", scope="col")]
    heads += [
        tag("th", tag("abbr", spec_of(m).label[:1].upper() + spec_of(m).label[1:], title=spec_of(m).description),
            scope="col") for m in metrics
    ]  # fmt: skip
    rows = [_row(summary, colours, recipe, leaks) for recipe in chosen]
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), class_="plain places sortable")
    note = (
        f"Leak by every judge and its place among the {count(len(summary.recipes), 'recipe')}, 1 leaking least"
        + (", each under the attack that works best by that judge." if len(summary.attacks) > 1 else ".")
    )
    return join(tag("p", note, class_="soft"), tag("div", table, class_="scroll"))



def _row(summary: Summary, colours: Colours, recipe: str, leaks: Mapping[str, Mapping[str, float]]) -> Markup:
    cells = []
    for metric, by_recipe in leaks.items():
        if recipe not in by_recipe:
            cells.append(tag("td", tag("span", ABSENT, class_="soft")))
            continue
        spec, value = spec_of(metric), by_recipe[recipe]
        rank = place(value, list(by_recipe.values()))
        shown = number(spec, leak_sign(spec) * value)
        cells.append(tag("td", tag("b", rank), tag("span", f" {shown}", class_="ci"), data_v=repr(value)))
    name = tag("th", tag("span", recipe, class_="named"), scope="row")
    return tag("tr", name, *cells, class_=colours.css_class(recipe), data_recipe=recipe)
