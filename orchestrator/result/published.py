"""Compare cells with tables of the paper: number by number, and the order of defenses by leak."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import combinations
from typing import Any, Literal, NamedTuple

from smoothsweep.core.data.names import PUBLISHED_NAMES
from smoothsweep.core.defenses.labels import SMOOTHING, RecipeWords, family_of, recipe_words
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.columns import BY_KEY, CLASS_METRICS, metric_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.text import NBSP, minus
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.defenses import Words
from smoothsweep.orchestrator.result.format import is_null
from smoothsweep.orchestrator.result.summary import Summary
from smoothsweep.sweeps.paper_tables import PaperNumber, PaperRow, Standing, datasets_of, matching, printed_rows

SYMBOLS = {
    "test_acc": "Test Acc",
    "ece": "ECE",
    "attack_acc1": "Acc@1",
    "attack_acc1_std": "\u00b1 of Acc@1",
    "attack_acc5": "Acc@5",
    "dist_face": "\u03b4 face",
    "dist_eval": "\u03b4 eval",
    "dist_knn": "\u03b4 KNN",
    "fid": "FID",
    "xi_train": "\u03be train",
    "xi_test": "\u03be test",
}
"""What the paper calls a metric, in the order of its tables; whatever else a table prints follows."""


def paper_comparison(data: ReportData, summary: Summary) -> dict[str, Any] | None:
    """The comparison that the sweep asks for, None where it names no table.

    Returns: `table`; `datasets` in words; `protocol`; `blocks`, of each cell that reproduces a printed row its metrics:
    columns of the frame `published`, and `percent`, `symbol`, `printed` (the paper's digits), `words` (its recipe),
    `notes`, `own` (departures not all share); `departures` that all cells share; `strangers`, our recipes without a
    printed row, with the reason; `absent`, printed rows without a cell of ours, in words; `share`, a sentence on how
    many numbers lie within our intervals.
    """
    reference = data.paper
    if reference is None:
        return None
    standings = [reference.standings[trials[0]] for trials in summary.frame["trials"]]
    shared = [d for d in (standings[0].departures if standings else ()) if all(d in s.departures for s in standings)]
    blocks, strangers, reproduced = [], {}, set()
    for cell, standing in zip(summary.cells.values(), standings, strict=True):
        row, reason = _row(standing.axes, reference.table)
        if row is None:
            strangers[cell["recipe"]] = reason
            continue
        reproduced.add(row.first.row)
        own = [departure for departure in standing.departures if departure not in shared]
        of_cell = {
            **{"table": reference.table, "dataset": row.first.dataset, "paper_row": row.first.row},
            **{"recipe": cell["recipe"], "attack": cell["attack"], "protocol": data.protocol},
            **{"departures": "; ".join((*shared, *own)), "own": own, "words": row_words(row), "notes": row.notes},
        }
        blocks.append(tuple(of_cell | line for line in _lines(row, cell, standing, data.reasons)))
    rows = [row for dataset in reference.datasets for row in printed_rows(reference.table, dataset)]
    counts = Counter(line["mark"] for block in blocks for line in block)
    comparable = counts["within"] + counts["outside"]
    parts = [
        f"Of {comparable} numbers that can be held against an interval of ours, {counts['within']} lie within it",
        f"{counts['no interval']} have no interval here (one seed)" if counts["no interval"] else "",
        f"{counts['not comparable']} do not measure the same in both places" if counts["not comparable"] else "",
    ]
    return {
        "table": reference.table,
        "datasets": " and ".join(NAMES.get(dataset, dataset) for dataset in reference.datasets),
        "protocol": data.protocol,
        "blocks": tuple(blocks),
        "departures": tuple(shared),
        "strangers": strangers,
        "absent": tuple(row_words(row) for row in rows if row.first.row not in reproduced),
        "share": f"{'; '.join(filter(None, parts))}."
        if comparable or counts["no interval"]
        else "No number can be compared yet.",
    }


def published_sentences(found: Mapping[str, Any]) -> tuple[str, ...]:
    """What is compared, and how much of it lies within our intervals. found: as of `paper_comparison`."""
    lines = [
        f"Compared with the paper's Table {found['table']} ({found['datasets']}). "
        f"Our numbers follow protocol {found['protocol']}."
    ]
    if found["protocol"] == "clean":
        lines.append(
            "The paper's follow the official code: its FID and evaluator distance are not comparable with ours; of the "
            "rest compare directions, not digits."
        )
    strangers = [f"Not in the table: {recipe}: {reason}." for recipe, reason in found["strangers"].items()]
    absent = [f"Rows of the table without a recipe here: {'; '.join(found['absent'])}."] if found["absent"] else []
    return (*lines, found["share"], *strangers, *absent)


def _row(axes: Mapping[str, object] | None, table: str) -> tuple[PaperRow | None, str]:
    """The printed row of a recipe, or None and why there is none."""
    if axes is None:
        return None, "how the imported target was trained is not stated"
    try:
        row = matching(axes, table)
    except InputError as error:  # settings that tell the table's rows apart are not among the sweep's
        return None, str(error)
    return row, "" if row else "the table has no such row"


def _lines(
    row: PaperRow, cell: Mapping[str, Any], standing: Standing, reasons: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Every metric that the paper prints for the row or that we measured and the paper's tables know."""
    known = [key for key in SYMBOLS if key in row.numbers or not is_null(cell.get(key))]
    for key in (*known, *(key for key in row.numbers if key not in SYMBOLS)):
        paper, ours = row.numbers.get(key), standing.columns.get(key, key)
        mean, low, high = (float(cell.get(f"{ours}{end}", math.nan)) for end in ("", "_low", "_high"))
        incomparable = standing.incomparable.get(key, "")
        spec = metric_spec(ours, percent=paper is not None and paper.unit == "fraction")
        mark = mark_of(paper, mean, low, high, incomparable)
        unknown = "not measured in this sweep" if cell["n"] else "no seed has finished"
        unknown = unknown if ours in BY_KEY else "no judge here measures it"
        subtracted = paper is not None and mark in ("within", "outside", "no interval")
        yield {
            **{"percent": spec.unit == "percent", "printed": printed(paper, spec)},
            "symbol": SYMBOLS.get(spec.key, spec.label),
            **{"metric": spec.key, "paper": paper and paper.value, "ours": mean, "ours_low": low, "ours_high": high},
            "n": int(cell.get(f"{ours}_n", 0)),
            "difference": mean - paper.value if subtracted and paper else math.nan,
            "within": {"within": True, "outside": False}.get(mark),
            "mark": mark,
            "remark": incomparable if not is_null(mean) else reasons.get(ours, unknown),
        }


def mark_of(paper: PaperNumber | None, mean: float, low: float, high: float, incomparable: str = "") -> str:
    """Whether our interval reaches a number that prints as the paper's, or why that cannot be said. incomparable: why
    the two do not measure the same, empty where they do."""
    if paper is None:
        return "not printed"
    if is_null(mean):
        return "not measured"
    if incomparable:
        return "not comparable"
    if is_null(low) or is_null(high):
        return "no interval"
    slack = paper.half_unit * (1 + 1e-9)  # the printed number is rounded, and so are our floats
    return "within" if low - slack <= paper.value <= high + slack else "outside"


def metric_spec(key: str, percent: bool = False) -> Metric:
    """The metric as this report knows it, or a plain one for what only the paper has. percent: it is a fraction."""
    if key in BY_KEY:
        return metric_of(key)
    words = key.replace("_", " ")
    unit: Literal["percent", "plain"] = "percent" if percent else "plain"
    return Metric(key=key, label=words, description=words, unit=unit, better=None, group="check")


NAMES = {
    **{name: row.title for name, row in PUBLISHED_NAMES.items()},
    "resnet152": "ResNet-152",
    "resnext50": "ResNeXt-50",
    "densenet121": "DenseNet-121",
    "vgg16_bn": "VGG-16",
}


def row_words(row: PaperRow) -> str:
    """`ResNet-152, alpha -0.05, 10 images per class`: a printed row's recipe in words."""
    first = row.first
    if first.defense == "mid":
        defense = f"MID beta {first.beta:g}"
    elif first.defense == "bido":
        defense = f"BiDO lambda ({first.lambda_input:g}, {first.lambda_label:g})"
    else:
        defense = f"alpha {minus(f'{first.alpha:g}')}"
    words = [NAMES.get(first.architecture, first.architecture), defense]
    if first.samples_per_class is not None:
        words.append(f"{first.samples_per_class} images per class")
    if first.attack not in (None, "ppa"):
        words.append(f"attack {first.attack}")
    words += [f"{name.replace('_', ' ')} {value.replace('_', ' ')}" for name, value in first.setting.items()]
    return ", ".join(words)


def printed(paper: PaperNumber | None, spec: Metric) -> str:
    """The paper's number with the digits it printed; empty where it printed none."""
    if paper is None:
        return ""
    if spec.unit == "percent":
        return f"{100 * paper.value:.{max(0, paper.decimals - 2)}f}\u00a0%"
    return f"{paper.value:,.{paper.decimals}f}"


PAPER_TABLES = ("1", "3")


class Order(NamedTuple):
    """Arms by their leak.

    Attributes:
        title: Where the order comes from.
        chosen: Arm -> the strength that stands for it, least leak first.
        clear: Pairs of arms of which one leaks more; none where the source gives no interval.
    """

    title: str
    chosen: Mapping[str, str]
    clear: frozenset[frozenset[str]] = frozenset()


def paper_orders() -> tuple[Order, ...]:
    """The orders by Acc@1 in Tables 1 and 3, one for each data set; an arm stands at its least leaking strength."""
    orders = []
    for table, dataset in ((each, one) for each in PAPER_TABLES for one in datasets_of(each)):
        rows = [row for row in printed_rows(table, dataset) if "attack_acc1" in row.numbers]
        chosen: dict[str, str] = {}
        for row in sorted(rows, key=lambda row: row.numbers["attack_acc1"].value):
            names = ("alpha",) if row.first.defense == SMOOTHING else ("beta", "lambda_input", "lambda_label")
            words = recipe_words({"kind": row.first.defense} | {name: getattr(row.first, name) for name in names})
            if arm := _arm(words):
                chosen.setdefault(arm, "" if words.plain else words.strength)
        orders.append(Order(f"Table {table}, {NAMES.get(dataset, dataset)}", chosen))
    return tuple(orders)


def our_order(summary: Summary, defended: Words, metric: str) -> Order | None:
    """The order of the paper's arms in this sweep by one judge; None with fewer than two measured arms.

    Combinations of defenses, and arms that the paper lacks, are left out.
    """
    worst, sign = summary.worst(metric) if metric in summary.measured else {}, metric_of(metric).sign
    leaks = {recipe: sign * float(summary.cells[row][metric]) for recipe, row in worst.items()}
    best: dict[str, str] = {}
    for recipe in sorted((recipe for recipe in defended if recipe in leaks), key=leaks.__getitem__):
        if (arm := _arm(defended[recipe])) is not None:
            best.setdefault(arm, recipe)
    if len(best) < 2:
        return None
    clear = {
        frozenset((first, other))
        for first, other in combinations(best, 2)
        if (gap := summary.reduction(metric, best[first], best[other])) is not None and gap.is_clear
    }
    chosen = {arm: "" if arm == "none" else defended[recipe].strength for arm, recipe in best.items()}
    return Order(metric_of(metric).label, chosen, frozenset(clear))


def order_table(summary: Summary, defended: Words) -> dict[str, Any] | None:
    """The paper's orders beside ours by each judge; None where no two arms of the paper were measured.

    Returns: `heads`; `arms`, for each its label and in every order its place and strength; and `alike`, for each order
    of ours how many pairs each of the paper's has, how many in the same order, of those that are clear here, and both.
    """
    ours = [order for metric in CLASS_METRICS if (order := our_order(summary, defended, metric)) is not None]
    if not any(set(order.chosen) - {"none"} for order in ours):
        return None
    theirs, mine = paper_orders(), [arm for arm in arm_words() if any(arm in order.chosen for order in ours)]

    def places(arm: str) -> Iterator[tuple[int, str] | None]:
        for order in (*ours, *theirs):
            shared = [one for one in order.chosen if one in mine]
            yield (shared.index(arm) + 1, order.chosen[arm]) if arm in shared else None

    return {
        "heads": [*(f"Here: {order.title}" for order in ours), *(order.title for order in theirs)],
        "arms": [(arm_words()[arm], list(places(arm))) for arm in mine],
        "alike": [(order.title, [agreement(order, other) for other in theirs]) for order in ours],
    }


def agreement(ours: Order, theirs: Order) -> tuple[int, int, int, int]:
    """Count the pairs of arms that both orders have.

    Returns: all pairs, pairs in the same order, pairs whose difference is significant here, and how many of the latter
    are in the same order.
    """
    places = {arm: place for place, arm in enumerate(theirs.chosen)}
    pairs = list(combinations([arm for arm in ours.chosen if arm in places], 2))  # in our order: least leak first
    alike = {pair for pair in pairs if places[pair[0]] < places[pair[1]]}
    clear = {pair for pair in pairs if frozenset(pair) in ours.clear}
    return len(pairs), len(alike), len(clear), len(alike & clear)


@cache
def arm_words() -> dict[str, str]:
    """Arm -> its label, for plain training, smoothing, and the defenses of the paper's tables."""
    rows = (row for table in PAPER_TABLES for dataset in datasets_of(table) for row in printed_rows(table, dataset))
    printed = {row.first.defense for row in rows} - {SMOOTHING}
    compared = {kind: family_of(kind) for kind in DEFENSES if kind in printed}
    return {
        "none": "No defense",
        "negative": f"Smoothing below{NBSP}0",
        "positive": f"Smoothing above{NBSP}0",
        **{kind: family.name for kind, family in compared.items() if family is not None},
    }


def _arm(words: RecipeWords) -> str | None:
    """The arm of a recipe; None for one that the paper did not try."""
    if words.plain:
        return "none"
    if words.family == SMOOTHING and words.order is not None and not words.arm:
        return "negative" if words.order[0] < 0 else "positive"
    return words.family if words.family in arm_words() and not words.arm else None
