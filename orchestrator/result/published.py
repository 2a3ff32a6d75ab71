"""Compare cells with tables of the paper: number by number, and the order of defenses by leak."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from typing import Any, Literal, get_args

import pandas as pd

from smoothsweep.core.checks import present
from smoothsweep.core.data.names import PUBLISHED_NAMES
from smoothsweep.core.defenses.labels import SMOOTHING, family_of, known_defenses
from smoothsweep.core.defenses.strengths import setting_text
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.columns import BY_KEY, CLASS_METRICS, metric_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.text import NBSP, minus
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.defenses import DefenseGroup, Point
from smoothsweep.orchestrator.result.format import (
    is_null,
)
from smoothsweep.orchestrator.result.summary import Summary
from smoothsweep.sweeps.paper_numbers import PaperNumber, PaperRow, datasets_of, matching, printed_rows
from smoothsweep.sweeps.paper_settings import Standing

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

Mark = Literal["within", "outside", "no interval", "not comparable", "not measured", "not printed"]
MARKS: tuple[Mark, ...] = get_args(Mark)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One metric of one cell: the paper's number and ours, either of which may be missing.

    Attributes:
        mean, low, high: Ours over `n` seeds, NaN where not measured or without interval.
        incomparable: Why the two do not measure the same, empty where they do.
        reason: Why ours is missing, empty where it is there.
    """

    spec: Metric
    paper: PaperNumber | None
    mean: float
    low: float
    high: float
    n: int
    incomparable: str = ""
    reason: str = ""

    @property
    def mark(self) -> Mark:
        """Whether our interval reaches a number that prints as the paper's, or why that cannot be said."""
        if self.paper is None:
            return "not printed"
        if is_null(self.mean):
            return "not measured"
        if self.incomparable:
            return "not comparable"
        if is_null(self.low) or is_null(self.high):
            return "no interval"
        slack = self.paper.half_unit * (1 + 1e-9)  # the printed number is rounded, and so are our floats
        return "within" if self.low - slack <= self.paper.value <= self.high + slack else "outside"

    @property
    def difference(self) -> float:
        """Ours minus the paper's; NaN where one is missing or they do not measure the same."""
        if self.paper is None or self.mark in ("not printed", "not measured", "not comparable"):
            return math.nan
        return self.mean - self.paper.value

    @property
    def remark(self) -> str:
        """A remark that qualifies the mark; may be empty."""
        return self.reason if is_null(self.mean) else self.incomparable


@dataclass(frozen=True, kw_only=True)
class Block:
    """One of our cells and the printed row it reproduces. departures: where its settings leave the paper's in a way
    that not all cells share."""

    recipe: str
    attack: str
    row: PaperRow
    lines: tuple[Line, ...]
    departures: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Published:
    """A sweep beside a table.

    Attributes:
        departures: What all its cells share.
        strangers: Our recipes without a printed row, with the reason.
        absent: Printed rows without a cell of ours, in words.
    """

    table: str
    datasets: tuple[str, ...]
    protocol: str
    blocks: tuple[Block, ...]
    departures: tuple[str, ...] = ()
    strangers: Mapping[str, str] = field(default_factory=dict)
    absent: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[Mark, int]:
        """How many lines carry each mark."""
        return {mark: sum(line.mark == mark for block in self.blocks for line in block.lines) for mark in MARKS}


def paper_comparison(data: ReportData, summary: Summary) -> Published | None:
    """The comparison that the sweep asks for, None where it names no table."""
    reference = data.paper
    if reference is None:
        return None
    standings = [reference.standings[trials[0]] for trials in summary.frame["trials"]]
    shared = [d for d in (standings[0].departures if standings else ()) if all(d in s.departures for s in standings)]
    blocks, strangers = [], {}
    for cell, standing in zip(summary.cells.values(), standings, strict=True):
        row, reason = _row(standing.axes, reference.table)
        if row is None:
            strangers[cell["recipe"]] = reason
            continue
        departures = tuple(d for d in standing.departures if d not in shared)
        lines = tuple(_lines(row, cell, standing, data))
        blocks.append(Block(recipe=cell["recipe"], attack=cell["attack"], row=row, lines=lines, departures=departures))
    reproduced = {block.row.first.row for block in blocks}
    rows = [row for dataset in reference.datasets for row in printed_rows(reference.table, dataset)]
    return Published(
        table=reference.table,
        datasets=reference.datasets,
        protocol=data.protocol,
        blocks=tuple(blocks),
        departures=tuple(shared),
        strangers=strangers,
        absent=tuple(row_words(row) for row in rows if row.first.row not in reproduced),
    )


COLUMNS: dict[str, tuple[Any, Callable[[Published, Block, Line], Any]]] = {
    "table": (None, lambda published, block, line: published.table),
    "dataset": (None, lambda published, block, line: block.row.first.dataset),
    "paper_row": (int, lambda published, block, line: block.row.first.row),
    "recipe": (None, lambda published, block, line: block.recipe),
    "attack": (None, lambda published, block, line: block.attack),
    "protocol": (None, lambda published, block, line: published.protocol),
    "metric": (None, lambda published, block, line: line.spec.key),
    "paper": (float, lambda published, block, line: None if line.paper is None else line.paper.value),
    "ours": (float, lambda published, block, line: line.mean),
    "ours_low": (float, lambda published, block, line: line.low),
    "ours_high": (float, lambda published, block, line: line.high),
    "n": (int, lambda published, block, line: line.n),
    "difference": (float, lambda published, block, line: line.difference),
    "within": ("boolean", lambda published, block, line: {"within": True, "outside": False}.get(line.mark)),
    "mark": (None, lambda published, block, line: line.mark),
    "remark": (None, lambda published, block, line: line.remark),
    "departures": (None, lambda published, block, line: "; ".join((*published.departures, *block.departures))),
}
"""Column of `published_comparison.parquet` -> its type, None for text, and what stands in it.

paper_row: position in the table; protocol: of our number; paper: as printed, fractions for percentages; difference:
ours minus the paper's; within: null where it cannot be said; mark: one of `MARKS`; departures: from the paper's
settings.
"""


def published_frame(published: Published) -> pd.DataFrame:
    """The comparison as rows, one per cell and metric, in the columns of `COLUMNS`."""
    lines = [(block, line) for block in published.blocks for line in block.lines]
    rows = [[value_of(published, block, line) for _, value_of in COLUMNS.values()] for block, line in lines]
    kinds = {name: kind for name, (kind, _) in COLUMNS.items() if kind}
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(kinds)


def _row(axes: Mapping[str, object] | None, table: str) -> tuple[PaperRow | None, str]:
    """The printed row of a recipe, or None and why there is none."""
    if axes is None:
        return None, "how the imported target was trained is not stated"
    try:
        row = matching(axes, table)
    except InputError as error:  # settings that tell the table's rows apart are not among the sweep's
        return None, str(error)
    return row, "" if row else "the table has no such row"


def _lines(row: PaperRow, cell: Mapping[str, Any], standing: Standing, data: ReportData) -> list[Line]:
    """Every metric that the paper prints for the row or that we measured and the paper's tables know."""
    keys = [key for key in SYMBOLS if key in row.numbers or not is_null(cell.get(key))]
    keys += [key for key in row.numbers if key not in SYMBOLS]
    return [_line(key, row, cell, standing, data) for key in keys]


def _line(key: str, row: PaperRow, cell: Mapping[str, Any], standing: Standing, data: ReportData) -> Line:
    paper, ours = row.numbers.get(key), standing.columns.get(key, key)
    mean, low, high = (float(cell.get(f"{ours}{end}", math.nan)) for end in ("", "_low", "_high"))
    return Line(
        spec=metric_spec(ours, paper),
        paper=paper,
        mean=mean,
        low=low,
        high=high,
        n=int(cell.get(f"{ours}_n", 0)),
        incomparable=standing.incomparable.get(key, ""),
        reason=_reason(ours, cell, data.reasons) if is_null(mean) else "",
    )


def _reason(key: str, cell: Mapping[str, Any], reasons: Mapping[str, str]) -> str:
    if key in reasons:
        return reasons[key]
    if key not in BY_KEY:
        return "no judge here measures it"
    return "no seed has finished" if not cell["n"] else "not measured in this sweep"


def metric_spec(key: str, paper: PaperNumber | None = None) -> Metric:
    """The metric as this report knows it, or a plain one for what only the paper has."""
    if key in BY_KEY:
        return metric_of(key)
    unit = "percent" if paper is not None and paper.unit == "fraction" else "plain"
    words = key.replace("_", " ")
    return Metric(key=key, label=words, description=words, unit=unit, better=None, group="check")


NAMES = {
    **{name: row.title for name, row in PUBLISHED_NAMES.items()},
    "resnet152": "ResNet-152",
    "resnext50": "ResNeXt-50",
    "densenet121": "DenseNet-121",
    "vgg16_bn": "VGG-16",
}


def dataset_names(published: Published) -> str:
    """The data sets of the comparison in words."""
    return " and ".join(NAMES.get(dataset, dataset) for dataset in published.datasets)


def row_words(row: PaperRow) -> str:
    """`ResNet-152, alpha -0.05, 10 images per class`: a printed row's recipe in words."""
    first = row.first
    words = [NAMES.get(first.architecture, first.architecture), _defense_words(first)]
    if first.samples_per_class is not None:
        words.append(f"{first.samples_per_class} images per class")
    if first.attack not in (None, "ppa"):
        words.append(f"attack {first.attack}")
    words += [f"{name.replace('_', ' ')} {value.replace('_', ' ')}" for name, value in first.setting.items()]
    return ", ".join(words)


def _defense_words(first: PaperNumber) -> str:
    if first.defense == "mid":
        return f"MID beta {first.beta:g}"
    if first.defense == "bido":
        return f"BiDO lambda ({first.lambda_input:g}, {first.lambda_label:g})"
    return f"alpha {minus(f'{first.alpha:g}')}"


def printed(paper: PaperNumber | None, spec: Metric) -> str:
    """The paper's number with the digits it printed; empty where it printed none."""
    if paper is None:
        return ""
    if spec.unit == "percent":
        return f"{100 * paper.value:.{max(0, paper.decimals - 2)}f}\u00a0%"
    return f"{paper.value:,.{paper.decimals}f}"


def share_words(counts: Mapping[Mark, int]) -> str:
    """One sentence that summarises the comparison. counts: mark -> number of lines."""
    comparable = counts["within"] + counts["outside"]
    if not comparable and not counts["no interval"]:
        return "No number can be compared yet."
    parts = [f"Of {comparable} numbers that can be held against an interval of ours, {counts['within']} lie within it"]
    if counts["no interval"]:
        parts.append(f"{counts['no interval']} have no interval here (one seed)")
    if counts["not comparable"]:
        parts.append(f"{counts['not comparable']} do not measure the same in both places")
    return f"{'; '.join(parts)}."


def published_lead(published: Published) -> list[str]:
    """Sentences on what is compared, and on how much of it lies within our intervals."""
    lines = [
        f"Compared with the paper's Table {published.table} ({dataset_names(published)}). "
        f"Our numbers follow protocol {published.protocol}."
    ]
    if published.protocol == "clean":
        lines.append(
            "The paper's follow the official code: its FID and evaluator distance are not comparable with ours; of "
            "the rest compare directions, not digits."
        )
    strangers = [f"Not in the table: {recipe}: {reason}." for recipe, reason in published.strangers.items()]
    absent = [f"Rows of the table without a recipe here: {'; '.join(published.absent)}."] if published.absent else []
    return [*lines, share_words(published.counts), *strangers, *absent]


PAPER_TABLES = ("1", "3")


@dataclass(frozen=True, kw_only=True)
class Order:
    """Arms by their leak, least first.

    Attributes:
        title: Where the order comes from.
        chosen: Arm -> the strength that stands for it.
        clear: Pairs of arms of which one leaks more; None where the source gives no interval.
    """

    title: str
    arms: tuple[str, ...]
    chosen: Mapping[str, str]
    clear: frozenset[frozenset[str]] | None = field(default=None)


def paper_orders() -> tuple[Order, ...]:
    """The orders by Acc@1 in Tables 1 and 3, one for each data set; an arm stands at its least leaking strength."""
    orders = []
    for table in PAPER_TABLES:
        for dataset in datasets_of(table):
            best: dict[str, PaperNumber] = {}
            for row in printed_rows(table, dataset):
                number, arm = row.numbers.get("attack_acc1"), _paper_arm(row.first)
                if number is not None and arm and (arm not in best or number.value < best[arm].value):
                    best[arm] = number
            ordered = tuple(sorted(best, key=lambda arm: best[arm].value))
            chosen = {arm: _paper_strength(number) for arm, number in best.items()}
            orders.append(Order(title=f"Table {table}, {NAMES.get(dataset, dataset)}", arms=ordered, chosen=chosen))
    return tuple(orders)


def our_order(summary: Summary, group: DefenseGroup, metric: str) -> Order | None:
    """The order of the paper's arms in this sweep by one judge; None with fewer than two measured arms.

    Combinations of defenses, and arms that the paper lacks, are left out.
    """
    if metric not in summary.measured:
        return None
    leaks = summary.leaks(metric)
    measured = sorted((p for p in group.points if p.recipe in leaks), key=lambda point: leaks[point.recipe])
    best = {arm: point for point in reversed(measured) if (arm := _arm(point)) is not None}
    if len(best) < 2:
        return None
    clear = {
        frozenset((first, other))
        for first, other in combinations(best, 2)
        if (gap := summary.reduction(metric, best[first].recipe, best[other].recipe)) is not None and gap.is_clear
    }
    return Order(
        title=metric_of(metric).label,
        arms=tuple(arm for point in measured if (arm := _arm(point)) is not None and best.get(arm) is point),
        chosen={arm: "" if point.words.plain else point.words.strength for arm, point in best.items()},
        clear=frozenset(clear),
    )


def our_orders(summary: Summary, group: DefenseGroup) -> list[Order]:
    """The orders in this sweep by each judge; empty where only plain training was measured."""
    orders = [order for metric in CLASS_METRICS if (order := our_order(summary, group, metric)) is not None]
    return orders if any(set(order.arms) - {"none"} for order in orders) else []


def shared_arms(ours: Sequence[Order]) -> list[str]:
    """The arms that occur in at least one of these orders."""
    return [arm for arm in arm_words() if any(arm in order.arms for order in ours)]


def agreement(ours: Order, theirs: Order) -> tuple[int, int, int, int]:
    """Count the pairs of arms that both orders have.

    Returns: all pairs, pairs in the same order, pairs whose difference is significant here, and how many of the latter
    are in the same order.
    """
    shared = [arm for arm in ours.arms if arm in theirs.arms]
    pairs = list(combinations(shared, 2))  # in our order: least leak first
    alike = {pair for pair in pairs if theirs.arms.index(pair[0]) < theirs.arms.index(pair[1])}
    clear = {pair for pair in pairs if frozenset(pair) in (ours.clear or ())}
    return len(pairs), len(alike), len(clear), len(alike & clear)


def _paper_arm(first: PaperNumber) -> str | None:
    if first.defense == SMOOTHING:
        return "negative" if present(first.alpha, "alpha") < 0 else "positive"
    return first.defense if first.defense in arm_words() else None


def _paper_strength(number: PaperNumber) -> str:
    family = None if number.defense == SMOOTHING else family_of(number.defense)
    if family is None:
        return setting_text("alpha", number.alpha) if number.defense == SMOOTHING else ""
    printed = {name: getattr(number, name) for name in ("beta", "lambda_input", "lambda_label")}
    strength = family.read({name: value for name, value in printed.items() if value is not None}).value
    return f"{family.parameter}{NBSP}{strength}" if family.parameter else strength


@cache
def arm_words() -> dict[str, str]:
    """Arm -> its label, for plain training, smoothing, and the defenses of the paper's tables."""
    rows = (row for table in PAPER_TABLES for dataset in datasets_of(table) for row in printed_rows(table, dataset))
    printed = {row.first.defense for row in rows} - {SMOOTHING}
    compared = {kind: family_of(kind) for kind in known_defenses() if kind in printed}
    return {
        "none": "No defense",
        "negative": f"Smoothing below{NBSP}0",
        "positive": f"Smoothing above{NBSP}0",
        **{kind: family.name for kind, family in compared.items() if family is not None},
    }


def _arm(point: Point) -> str | None:
    """The arm of a recipe; None for one that the paper did not try."""
    words = point.words
    if words.plain:
        return "none"
    if words.family == SMOOTHING and words.order is not None and not words.arm:
        return "negative" if words.order[0] < 0 else "positive"
    return words.family if words.family in arm_words() and not words.arm else None
