"""Write the tables and figures of README and docs/results from the numbers in docs/results/numbers.

    python -m tools.results                          # all tables and figures anew
    python -m tools.results numbers STORE SWEEP      # SWEEP.csv from what a store holds of a sweep
    python -m tools.results leaks STORE SWEEP        # the same of its membership beside inversion

A table stands between `<!-- NAME table: begin -->` and `<!-- NAME table: end -->`; a figure is drawn from a table. So
no number on these pages is typed by hand. `numbers/shown.yaml` says what each shows.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
import yaml
from matplotlib import rc_context
from matplotlib.figure import Figure

import smoothsweep
from smoothsweep.core.files import replacing, write_file
from smoothsweep.core.judges.columns import METRICS, metric_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.same_code import TREE
from smoothsweep.core.text import NBSP
from smoothsweep.orchestrator.result import format as shown
from tools.marked import with_tables

FOLDER = TREE / "docs" / "results" / "numbers"
FIGURES = TREE / "docs" / "results" / "figures"
SHOWN: Mapping[str, Any] = yaml.safe_load((FOLDER / "shown.yaml").read_text(encoding="utf-8"))
COLUMNS = ["recipe", "attack", "measure", "n", "value", "unit", "low", "high"]
COLUMNS += ["difference", "difference_low", "difference_high", "word"]
"""Of a file of numbers. difference: from the baseline; of a leak the reduction, of a verdict the hidden part."""

JUDGE, ACCURACY, VERDICT, CONTROL = "Independent judge", "Test accuracy", "verdict", " (control)"
LEAKS = {  # measure -> (column of the frame `membership`, its reduction there, title in the table)
    "Membership by shadow models": ("rmia", "less_by_scores", "AUC, shadow models"),
    "Membership by scores": ("margin", "", "AUC, margin"),
    "Membership by labels": ("label_views", "less_by_labels", "AUC, labels"),
    "Inversion": ("inversion", "", "inversion"),
}
RATE = metric_of("embedder_acc1")
WORDS = ("reduces", "hides", "leaks more", "inconclusive", "finds less", "finds more")
Cells = dict[str, str]
"""A row of a table: title -> text."""


def read(name: str, folder: Path = FOLDER) -> pd.DataFrame:
    """The texts of a file of numbers. Raises ValueError for a leak or a verdict without its interval or its word."""
    frame = pd.read_csv(folder / f"{name}.csv", dtype=str, keep_default_na=False)
    if list(frame.columns) != COLUMNS:
        raise ValueError(f"{name}.csv: expected the columns {', '.join(COLUMNS)}, got {', '.join(frame.columns)}")
    told = frame["measure"] == VERDICT
    bare = (told | frame["measure"].isin([JUDGE, "Evaluator"])) & ((frame["low"] == "") | (frame["high"] == ""))
    if bare.any() or (told != frame["word"].isin(WORDS)).any():
        raise ValueError(f"{name}.csv: expected an interval for every leak, and one of {', '.join(WORDS)} per verdict")
    return frame


class Numbers:
    """A file of numbers, by recipe, attack and measure; recipes and attacks in the order of the file."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame
        self.recipes = list(frame.loc[frame["measure"] != VERDICT, "recipe"].unique())
        self.attacks = list(frame.loc[frame["measure"] == JUDGE, "attack"].unique())
        self.measures = set(frame["measure"])
        self.n = frame[frame["measure"] != VERDICT].groupby("recipe")["n"].first()
        self.any_hidden = bool((frame.loc[frame["measure"] == VERDICT, "difference"] != "").any())

    def find(self, recipe: str, measure: str, attack: str | None = None) -> pd.Series | None:
        """The first row, under any attack unless one is named."""
        found = self.frame[(self.frame["recipe"] == recipe) & (self.frame["measure"] == measure)]
        found = found if attack is None else found[found["attack"] == attack]
        return None if found.empty else found.iloc[0]

    def strongest(self, recipe: str, measure: str = JUDGE) -> str:
        """The attack with the highest rate that is no control."""
        rows = self.frame[(self.frame["recipe"] == recipe) & (self.frame["measure"] == measure)]
        rows = rows[~rows["attack"].str.endswith(CONTROL)]
        return rows.loc[rows["value"].astype(float).idxmax(), "attack"]


def rate(row: pd.Series | None) -> str:
    """A number with its interval, or that there is none; empty where it was not measured."""
    if row is None:
        return ""
    ends = f"[{row['low']}, {row['high']}]" if row["low"] else "(no interval)"
    return f"{row['value']}{' %' if row['unit'] else ''} {ends}"


def change(row: pd.Series | None, value: str = "difference") -> str:
    """A difference with its interval; empty without one. value: `difference`, or `value` of a verdict."""
    ends = ("low", "high") if value == "value" else (f"{value}_low", f"{value}_high")
    return "" if row is None or not row[value] else f"{row[value]} [{row[ends[0]]}, {row[ends[1]]}]"


def told(row: pd.Series | None, hidden: bool = False) -> Cells:
    """Reduction, hidden part where it is asked for, and the word of a recipe; of the baseline without a verdict."""
    gone = {"reduction, points": change(row, "value"), **({"hidden, points": change(row)} if hidden else {})}
    word = "baseline" if row is None else row["word"]
    return {**gone, "verdict": word if word in ("baseline", "inconclusive") else f"**{word}**"}


def rates(numbers: Numbers, recipe: str, measure: str, attacks: Sequence[str]) -> list[str]:
    """Of a recipe under every attack, the strongest in bold."""
    best, found = numbers.strongest(recipe, measure), [rate(numbers.find(recipe, measure, one)) for one in attacks]
    return [f"**{text}**" if one == best else text for one, text in zip(attacks, found, strict=True)]


def recipe_cells(sheet: Mapping[str, Any], numbers: Numbers, recipe: str) -> Cells:
    """The row of a recipe, by the table's kind."""

    def find(measure: str) -> pd.Series | None:
        return numbers.find(recipe, measure)

    accuracy, verdict = {"test accuracy": rate(find(ACCURACY))}, find(VERDICT)
    if sheet["kind"] == "verdicts":
        leak = rate(numbers.find(recipe, JUDGE, numbers.strongest(recipe)))
        cells = {sheet.get("rows", "recipe"): recipe, **accuracy, "leak (independent judge)": leak}
        return cells | told(verdict, sheet.get("hidden", False))
    cells = {"recipe": recipe, "n": numbers.n[recipe]}
    if sheet["kind"] == "recipes":
        attacks = [one for one in numbers.attacks if not one.startswith(tuple(sheet.get("left_out", ())))]
        names = [sheet.get("names", {}).get(one, one) for one in attacks]
        leaks = dict(zip(names, rates(numbers, recipe, JUDGE, attacks), strict=True))
        return cells | accuracy | leaks | told(verdict, hidden=numbers.any_hidden)
    if sheet["kind"] == "leaks":  # membership beside inversion; the word is by scores
        cells |= {title: rate(find(one)) for one, (_, _, title) in LEAKS.items() if one in numbers.measures}
        scores = told(verdict)
        less = {"less by scores, points": scores["reduction, points"]}
        less["less by labels, points"] = change(find("Membership by labels"))
        return cells | less | {"verdict": scores["verdict"]}
    for measure, title in sheet["measures"].items():
        cells[title] = rate(find(measure))
        if measure in sheet.get("compared", ()):
            cells["reduction" if measure in (JUDGE, "Evaluator") else "difference"] = change(find(measure))
    return cells


def rows_of(name: str, folder: Path = FOLDER) -> list[Cells]:
    """The rows of a table. Raises ValueError where another recipe than the baselines has nothing to compare."""
    sheet = SHOWN["tables"][name]
    numbers = Numbers(read(sheet["numbers"], folder))
    measures = sheet.get("compared", ()) if sheet["kind"] == "measures" else (VERDICT,)
    without = []
    for recipe in numbers.recipes:
        rows = [numbers.find(recipe, measure) for measure in measures]
        if any(row is None or (row["measure"] != VERDICT and not row["difference_low"]) for row in rows):
            without.append(recipe)
    if len(without) != sheet.get("baselines", 1):
        raise ValueError(f"{name}: expected {sheet.get('baselines', 1)} recipes without a verdict, got {without}")
    if sheet["kind"] == "attacks":  # a row for each attack, a column for each recipe
        columns = [rates(numbers, one, sheet.get("measure", JUDGE), numbers.attacks) for one in numbers.recipes]
        names = [sheet.get("names", {}).get(one, one) for one in numbers.attacks]
        found = pd.DataFrame(dict(zip(numbers.recipes, columns, strict=True)))
        found.insert(0, "attack", names)
    else:
        found = pd.DataFrame([recipe_cells(sheet, numbers, recipe) for recipe in numbers.recipes])
    minus = re.compile(r"(?<![\w-])-(?=\d)")
    found = found.rename(columns=lambda title: minus.sub("−", title)).replace(minus, "−", regex=True)
    return found.to_dict("records")


def table(name: str, folder: Path = FOLDER) -> str:
    """The Markdown of a table. Raises as `rows_of`."""
    rows = rows_of(name, folder)
    titles = list(rows[0])
    rule = ["---" if title in ("recipe", "setting", "attack", "verdict") else "---:" for title in titles]
    return "".join(f"| {' | '.join(line)} |\n" for line in (titles, rule, *(row.values() for row in rows)))


def page(path: str, text: str, folder: Path = FOLDER) -> str:
    """The text of a page with all of its tables written anew. Raises InputError where the marks of one are missing."""
    tables = {name: table(name, folder) for name, sheet in SHOWN["tables"].items() if sheet["page"] == path}
    return with_tables(text, tables, path)


NUMBER = r"[+-]?\d+(?:,\d{3})*(?:\.\d+)?"
ESTIMATE = re.compile(rf"({NUMBER})(?: %)?(?: \[({NUMBER}), ({NUMBER})\])?")


def estimate(cell: str) -> tuple[float, float, float] | None:
    """(value, low, high) of the first number of a cell; both ends are the value where it has no interval."""
    found = ESTIMATE.search(cell.replace("−", "-").replace("\N{NO-BREAK SPACE}", " "))
    if found is None:
        return None
    value, low, high = (float((part or found[1]).replace(",", "")) for part in found.groups())
    return value, low, high


def series(name: str) -> Iterator[tuple[Mapping[str, Any], list[str], list[list[Any]]]]:
    """(panel, labels of its rows, for each of its columns the estimates) of a figure, from its table."""
    rows = rows_of(SHOWN["figures"][name]["table"])
    for panel in SHOWN["figures"][name]["panels"]:
        points = [[estimate(row[one]) for one in panel["columns"]] for row in rows]
        kept = {next(iter(row.values())): found for row, found in zip(rows, points, strict=True) if any(found)}
        yield panel, list(kept), [list(column) for column in zip(*kept.values(), strict=True)]


COLOURS = ("#0072b2", "#d55e00", "#007a5a", "#a3458b", "#333333", "#8a6d00")  # after Okabe and Ito
MARKERS = "os^Dv+"


def draw(name: str, file: Path) -> None:
    """A figure as SVG, as wide as a phone: dots with their intervals, one row a recipe, panels below one another."""
    panels = list(series(name))
    heights = [1 + len(labels) * max(0.36, 0.15 * len(columns)) for _, labels, columns in panels]
    with rc_context({"svg.hashsalt": name, "svg.fonttype": "none", "font.size": 8, "font.family": "sans-serif"}):
        figure = Figure(figsize=(4.6, sum(heights)), layout="constrained")
        axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axis, (panel, labels, columns) in zip(axes, panels, strict=True):
            names = panel.get("names", panel["columns"])
            for index, points in enumerate(columns):
                rows = [row for row, point in enumerate(points) if point is not None]
                value, low, high = np.array([points[row] for row in rows]).T
                places = [row + 0.7 * ((index + 0.5) / len(columns) - 0.5) for row in rows]
                style = {"fmt": MARKERS[index], "color": COLOURS[index], "markersize": 4, "label": names[index]}
                axis.errorbar(value, places, xerr=[value - low, high - value], **style)
            if len(names) > 1:
                ncols = 1 if max(map(len, names)) > 20 else 2
                axis.legend(fontsize=7, loc="lower left", bbox_to_anchor=(0, 1), ncols=ncols, frameon=False)
            axis.set_yticks(range(len(labels)), [fill(label, 26) for label in labels])
            axis.set_ylim(len(labels) - 0.5, -0.5)
            axis.set_xlabel(panel["axis"])
            axis.grid(axis="x", alpha=0.4)
            if panel.get("percent"):
                axis.set_xlim(0, 100)
            elif axis.get_xlim()[0] < 0:
                axis.axvline(0, color="#57606a", linewidth=1)
        with replacing(file) as temporary:
            figure.savefig(temporary, format="svg", metadata={"Date": None})


def numbers_of(result: smoothsweep.SweepResult) -> Iterator[Cells]:
    """Rows of numbers of a result: its key metrics under every attack, then the verdicts."""
    metrics = [metric for metric in METRICS if metric.key in result.facts["key_metrics"]]
    for row in result.attacks.to_dict("records"):
        for metric in metrics:
            if pd.notna(row[metric.key]):
                reduced = metric.key == "embedder_acc1" and pd.notna(row["reduction_low"])
                yield {
                    "recipe": row["recipe"],
                    "attack": f"{row['attack']}{CONTROL if row['control'] else ''}",
                    "measure": metric.label[:1].upper() + metric.label[1:],
                    "n": f"{row[f'{metric.key}_n']:g}",
                    **_texts(row, metric.key, "value", metric),
                    "unit": "%" if metric.unit == "percent" else "",
                    **(_texts(row, "reduction", "difference", metric, signed=True) if reduced else {}),
                }
    for row in result.recipes.to_dict("records"):
        if row["verdict"] in WORDS and pd.notna(row["reduction_low"]):
            found = {"recipe": row["recipe"], "measure": VERDICT, "word": row["verdict"]}
            hidden = _texts(row, "hidden", "difference", RATE, signed=True) if pd.notna(row["hidden"]) else {}
            yield found | _texts(row, "reduction", "value", RATE, signed=True) | hidden


def leaks_of(result: smoothsweep.SweepResult) -> Iterator[Cells]:
    """The same of membership beside inversion: reductions by scores and by labels, the word by scores."""
    for row in result.membership.to_dict("records"):
        is_baseline = row["word"] == "baseline"
        for measure, (column, reduction, _) in LEAKS.items():
            if pd.notna(row.get(column)):
                is_compared = reduction and not is_baseline
                compared = _texts(row, reduction, "difference", RATE, signed=True) if is_compared else {}
                found = {"recipe": row["recipe"], "measure": measure, "n": str(row["seeds"]), "unit": "%"}
                yield found | _texts(row, column, "value", RATE) | compared
        if not is_baseline:
            low, high = row["less_by_scores_low"], row["less_by_scores_high"]
            word = "reduces" if low > 0 else "leaks more" if high < 0 else "inconclusive"
            found = {"recipe": row["recipe"], "measure": VERDICT, "word": word}
            yield found | _texts(row, "less_by_scores", "value", RATE, signed=True)


def _texts(row: Mapping[Any, Any], column: str, name: str, spec: Metric, *, signed: bool = False) -> Cells:
    """An estimate and the ends of its interval, in the digits of a report."""
    value, *ends = (row.get(f"{column}{end}") for end in ("", "_low", "_high"))
    text = shown.signed(spec, value) if signed else shown.number(spec, value).removesuffix(f"{NBSP}%")
    both = shown.signed_interval(spec, *ends) if signed else shown.interval(spec, *ends)
    low, _, high = both.strip("[]").partition(f",{NBSP}")
    before = "" if name == "value" else f"{name}_"
    return {name: text, f"{before}low": low, f"{before}high": high}


def main(arguments: Sequence[str]) -> None:
    """Write a file of numbers, or all tables and figures."""
    if arguments:
        kind, store, sweep = arguments
        result = smoothsweep.load_result(store, sweep)
        rows = numbers_of(result) if kind == "numbers" else leaks_of(result)
        text = pd.DataFrame(rows, columns=COLUMNS).replace(NBSP, " ", regex=True).to_csv(index=False)
        write_file(FOLDER / f"{Path(sweep).stem}.csv", text.replace("−", "-"))
        return
    for path in sorted({sheet["page"] for sheet in SHOWN["tables"].values()}):
        write_file(TREE / path, page(path, (TREE / path).read_text()))
    for name in SHOWN["figures"]:
        draw(name, FIGURES / f"{name}.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
