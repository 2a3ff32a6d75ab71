"""Compare cells with tables of the paper, number by number."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from smoothsweep.core.data.names import PUBLISHED_NAMES
from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.columns import BY_KEY, metric_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.text import minus
from smoothsweep.orchestrator.result.data import ReportData
from smoothsweep.orchestrator.result.format import is_null
from smoothsweep.orchestrator.result.summary import Summary
from smoothsweep.sweeps.paper_tables import PaperNumber, PaperRow, Standing, matching, printed_rows

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
