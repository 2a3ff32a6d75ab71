"""The orders of the defenses, side by side."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.page.markup import Markup, join, tag
from orchestrator.reading.defenses.families import DefenseGroup
from orchestrator.reading.defenses.order import ARMS, Order, agreement, our_order, paper_orders
from orchestrator.reading.numbers.format import ABSENT, count
from orchestrator.reading.numbers.metrics import CLASS_METRICS
from orchestrator.reading.numbers.summary import Summary


def order_table(summary: Summary, group: DefenseGroup) -> Markup:
    """The orders side by side; empty where nothing here has a counterpart among the paper's defenses."""
    ours = [order for metric in CLASS_METRICS if (order := our_order(summary, group, metric)) is not None]
    mine = {arm for order in ours for arm in order.arms}
    if not (mine - {"none"}) or len(mine) < 2:
        return Markup("")
    theirs = paper_orders()
    heads = ["", *(f"Here: {order.title}" for order in ours), *(order.title for order in theirs)]
    places = {arm: [tag("td", _place(order, arm, mine)) for order in (*ours, *theirs)] for arm in ARMS if arm in mine}
    body = [tag("tr", tag("th", ARMS[arm], scope="row"), *cells) for arm, cells in places.items()]
    note = (
        "Places by leak, 1 the least, among the defenses that both have; each stands at the strength that leaks least, "
        "whatever it costs in accuracy. Only the order can be compared: the paper's numbers are Acc@1 of other models, "
        "faces and priors at 224 pixels, another scale, from one training each and without intervals."
    )
    top = tag("thead", tag("tr", *(tag("th", head, scope="col") for head in heads)))
    alike = [_agreement_row(order, theirs, before=len(ours)) for order in ours]
    table = tag("table", top, tag("tbody", *body), tag("tbody", *alike), class_="plain orders")
    return join(tag("h3", "The paper's order and ours"), tag("p", note, class_="soft"),
                tag("div", table, class_="scroll"))  # fmt: skip



def _place(order: Order, arm: str, among: set[str]) -> Markup:
    if arm not in order.arms:
        return tag("span", ABSENT, class_="soft")
    place = [other for other in order.arms if other in among].index(arm) + 1
    strength = tag("span", f" {order.chosen[arm]}" if order.chosen[arm] else "", class_="ci")
    return join(tag("span", place, class_="value"), strength)



def _agreement_row(ours: Order, theirs: Sequence[Order], *, before: int) -> Markup:
    """In each column of the paper `7 of 10 pairs`, and `3 of 4 clear` for those that are no chance here."""
    cells = []
    for order in theirs:
        pairs, alike, clear, both = agreement(ours, order)
        beside = f"{both} of {clear} clear here" if clear else "none clear here"
        shown = join(f"{alike} of {count(pairs, 'pair')}", tag("br"), tag("span", beside, class_="ci"))
        cells.append(tag("td", shown if pairs else tag("span", ABSENT, class_="soft")))
    words = f"Ordered alike by the {ours.title} here"
    return tag("tr", tag("th", words, scope="row", colspan=1 + before), *cells)
