"""Write the tables and figures of README and docs/results from the numbers in docs/results/numbers.

    python -m tools.results                        # all tables and figures anew
    python -m tools.results numbers EXPORT NAME    # NAME.csv from the folder that `smoothsweep export` wrote
    python -m tools.results leaks REPORT NAME      # NAME.csv from the two_leaks.parquet of a report's folder

A table stands between `<!-- NAME table: begin -->` and `<!-- NAME table: end -->`; a figure is drawn from the table
that follows it on its page. So no number on these pages is typed by hand. `numbers/shown.yaml` says what each shows.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import pandas as pd
import yaml
from matplotlib import rc_context
from matplotlib.figure import Figure

from smoothsweep.core.files import replacing, write_file
from smoothsweep.core.judges.columns import METRICS
from smoothsweep.core.tree import TREE

FOLDER = TREE / "docs" / "results" / "numbers"
FIGURES = TREE / "docs" / "results" / "figures"
SHOWN: Mapping[str, Any] = yaml.safe_load((FOLDER / "shown.yaml").read_text(encoding="utf-8"))
COLUMNS = ["recipe", "attack", "measure", "n", "value", "unit", "low", "high"]
COLUMNS += ["difference", "difference_low", "difference_high", "word"]
"""Of a file of numbers. difference: from the baseline; of a leak the reduction, of a verdict the hidden part."""

JUDGE, ACCURACY, VERDICT, CONTROL = "Independent judge", "Test accuracy", "verdict", " (control)"
LEAKS = {  # measure -> (column of two_leaks.parquet, its reduction there, title in the table)
    "Membership by shadow models": ("rmia", "less_by_scores", "AUC, shadow models"),
    "Membership by scores": ("margin", "", "AUC, margin"),
    "Membership by labels": ("label_views", "less_by_labels", "AUC, labels"),
    "Inversion": ("inversion", "", "inversion"),
}
WORDS = ("reduces", "hides", "leaks more", "inconclusive", "finds less", "finds more")
Lines = tuple[list[str], list[list[str]]]
"""Titles and rows of a table."""


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


def told(row: pd.Series | None, hidden: bool) -> list[str]:
    """Reduction, hidden part where it is asked for, and the word of a recipe; of the baseline without a verdict."""
    if row is None:
        return ["", *([""] if hidden else []), "baseline"]
    word = row["word"] if row["word"] == "inconclusive" else f"**{row['word']}**"
    return [change(row, "value"), *([change(row)] if hidden else []), word]


def _recipes(sheet: Mapping[str, Any], numbers: Numbers) -> Lines:
    attacks = [one for one in numbers.attacks if not one.startswith(tuple(sheet.get("left_out", ())))]
    verdicts = numbers.frame[numbers.frame["measure"] == VERDICT]
    hidden = bool((verdicts["difference"] != "").any())
    named = [sheet.get("names", {}).get(one, one) for one in attacks]
    titles = ["recipe", "n", "test accuracy", *named, "reduction, points", *(["hidden, points"] if hidden else [])]
    lines = []
    for recipe in numbers.recipes:
        accuracy, best = numbers.find(recipe, ACCURACY), numbers.strongest(recipe)
        rates = [_marked(rate(numbers.find(recipe, JUDGE, one)), one == best) for one in attacks]
        n = "" if accuracy is None else accuracy["n"]
        lines.append([recipe, n, rate(accuracy), *rates, *told(numbers.find(recipe, VERDICT), hidden)])
    return [*titles, "verdict"], lines


def _marked(text: str, best: bool) -> str:
    return f"**{text}**" if best else text


def _attacks(sheet: Mapping[str, Any], numbers: Numbers) -> Lines:
    measure = sheet.get("measure", JUDGE)
    best = {recipe: numbers.strongest(recipe, measure) for recipe in numbers.recipes}
    lines = [
        [
            sheet.get("names", {}).get(attack, attack),
            *(_marked(rate(numbers.find(one, measure, attack)), best[one] == attack) for one in numbers.recipes),
        ]
        for attack in numbers.attacks
    ]
    return ["attack", *numbers.recipes], lines


def _verdicts(sheet: Mapping[str, Any], numbers: Numbers) -> Lines:
    hidden, lines = sheet.get("hidden", False), []
    for recipe in numbers.recipes:
        leak = numbers.find(recipe, JUDGE, numbers.strongest(recipe))
        verdict = told(numbers.find(recipe, VERDICT), hidden)
        lines.append([recipe, rate(numbers.find(recipe, ACCURACY)), rate(leak), *verdict])
    titles = [sheet.get("rows", "recipe"), "test accuracy", "leak (independent judge)", "reduction, points"]
    return [*titles, *(["hidden, points"] if hidden else []), "verdict"], lines


def _measures(sheet: Mapping[str, Any], numbers: Numbers) -> Lines:
    """Several measures of every recipe, some of them beside their difference from the baseline."""
    titles, lines, compared = ["recipe", "n"], [], sheet.get("compared", ())
    for measure, title in sheet["measures"].items():
        beside = "reduction" if measure in (JUDGE, "Evaluator") else sheet.get("beside", "difference")
        titles += [title, *([beside] if measure in compared else [])]
    for recipe in numbers.recipes:
        found = {measure: numbers.find(recipe, measure) for measure in sheet["measures"]}
        cells = [recipe, next(row["n"] for row in found.values() if row is not None)]
        for measure, row in found.items():
            cells += [rate(row), *([change(row)] if measure in compared else [])]
        lines.append(cells)
    return titles, lines


def _leaks(sheet: Mapping[str, Any], numbers: Numbers) -> Lines:
    """Membership by each attack beside inversion, what scores and labels find less, and the word by scores."""
    measured = {one: title for one, (_, _, title) in LEAKS.items() if one in set(numbers.frame["measure"])}
    lines = []
    for recipe in numbers.recipes:
        rows = {measure: numbers.find(recipe, measure) for measure in measured}
        scores, word = told(numbers.find(recipe, VERDICT), hidden=False)
        labels = change(rows.get("Membership by labels"))
        lines.append([recipe, next(iter(rows.values()))["n"], *map(rate, rows.values()), scores, labels, word])
    return ["recipe", "n", *measured.values(), "less by scores, points", "less by labels, points", "verdict"], lines


KINDS = {
    "recipes": _recipes,
    "attacks": _attacks,
    "verdicts": _verdicts,
    "measures": _measures,
    "leaks": _leaks,
}


def table(name: str, folder: Path = FOLDER) -> str:
    """The Markdown of a table. Raises ValueError where another recipe than the baselines has nothing to compare."""
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
    titles, lines = KINDS[sheet["kind"]](sheet, numbers)
    words = ("recipe", "setting", "attack", "verdict")
    rule = ["---" if title in words else "---:" for title in titles]
    rows = [" | ".join(re.sub(r"(?<![\w-])-(?=\d)", "−", cell) for cell in line) for line in [titles, rule, *lines]]
    return "".join(f"| {row} |\n" for row in rows)


def page(path: str, text: str, folder: Path = FOLDER) -> str:
    """The text of a page with all of its tables written anew. Raises ValueError where the marks of one are missing."""
    for name, sheet in SHOWN["tables"].items():
        if sheet["page"] == path:
            begin, end = f"<!-- {name} table: begin -->\n", f"<!-- {name} table: end -->"
            before, found, rest = text.partition(begin)
            _, ended, after = rest.partition(end)
            if not (found and ended):
                raise ValueError(f"{path}: expected the marks of the table {name}, got none")
            text = f"{before}{begin}{table(name, folder)}{end}{after}"
    return text


NUMBER = r"[+-]?\d+(?:,\d{3})*(?:\.\d+)?"
ESTIMATE = re.compile(rf"({NUMBER})(?: %)?(?: \[({NUMBER}), ({NUMBER})\])?")


def estimate(cell: str) -> tuple[float, float, float] | None:
    """(value, low, high) of the first number of a cell; both ends are the value where it has no interval."""
    found = ESTIMATE.search(cell.replace("−", "-").replace("\N{NO-BREAK SPACE}", " "))
    if found is None:
        return None
    value, low, high = (float((part or found[1]).replace(",", "")) for part in found.groups())
    return value, low, high


def series(name: str, text: str) -> Iterator[tuple[Mapping[str, Any], list[str], list[list[Any]]]]:
    """(panel, labels of its rows, for each of its columns the estimates) of a figure, from the text of its page.

    Raises ValueError where the page has no such picture, or no table after it.
    """
    _, found, below = text.partition(f"figures/{name}.svg")
    lines = re.search(r"(?:^\|.*\n)+", below, flags=re.MULTILINE)
    if not found or lines is None:
        raise ValueError(f"figure {name}: expected a picture and a table below it, got none")
    titles, _, *rows = ([cell.strip(" *") for cell in line.split("|")[1:-1]] for line in lines[0].splitlines())
    figure = SHOWN["figures"][name]
    for panel in figure["panels"]:
        kept = [
            row
            for row in rows
            if any(estimate(row[titles.index(one)]) for one in panel["columns"])
            and row[titles.index(figure["label"])] not in figure.get("without", ())
        ]
        labels = [row[titles.index(figure["label"])] for row in kept]
        yield panel, labels, [[estimate(row[titles.index(one)]) for row in kept] for one in panel["columns"]]


COLOURS = ("#0072b2", "#d55e00", "#007a5a", "#a3458b", "#333333", "#8a6d00")  # after Okabe and Ito
MARKERS = "os^Dv+"


def draw(name: str, text: str, file: Path) -> None:
    """A figure as SVG, as wide as a phone: dots with their intervals, one row a recipe, panels below one another."""
    panels = list(series(name, text))
    heights = [1 + len(labels) * max(0.36, 0.15 * len(columns)) for _, labels, columns in panels]
    with rc_context({"svg.hashsalt": name, "svg.fonttype": "none", "font.size": 8, "font.family": "sans-serif"}):
        figure = Figure(figsize=(4.6, sum(heights)), layout="constrained")
        axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axis, (panel, labels, columns) in zip(axes, panels, strict=True):
            names = panel.get("names", panel["columns"])
            for index, points in enumerate(columns):
                rows = [row for row, point in enumerate(points) if point is not None]
                value, low, high = zip(*(point for point in points if point is not None), strict=True)
                ends = [
                    [v - x for v, x in zip(value, low, strict=True)],
                    [x - v for v, x in zip(value, high, strict=True)],
                ]
                places = [row + 0.7 * ((index + 0.5) / len(columns) - 0.5) for row in rows]
                style = {"fmt": MARKERS[index], "color": COLOURS[index], "markersize": 4, "label": names[index]}
                axis.errorbar(value, places, xerr=ends, **style)
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


def exported(folder: Path) -> Iterator[dict[str, str]]:
    """Rows of numbers from the tables of an export, under every attack if the sweep has several, then the verdicts."""
    recipes = pd.read_csv(folder / "tables" / "recipes.csv")
    every = folder / "tables" / "attacks.csv"
    frame = pd.read_csv(every) if every.is_file() else recipes
    for row in frame.to_dict("records"):
        attack = f"{row['attack']}{CONTROL if row['role'] == 'control' else ''}"
        for metric in METRICS:
            if metric.key in frame and pd.notna(row[metric.key]):
                measure = metric.label[:1].upper() + metric.label[1:]
                reduced = metric.key == "embedder_acc1" and pd.notna(row["reduction_low"])
                percent = metric.unit == "percent"
                yield {
                    "recipe": row["recipe"],
                    "attack": attack if every.is_file() else "",
                    "measure": measure,
                    "n": f"{row[f'{metric.key}_seeds']:g}",
                    **_ends(row, metric.key, "value", 100 if percent else 1),
                    "unit": "%" if percent else "",
                    **(_ends(row, "reduction", "difference", 100) if reduced else {}),
                }
    for row in recipes.to_dict("records"):
        if row["verdict"] in WORDS and pd.notna(row["reduction_low"]):
            yield {"recipe": row["recipe"], "measure": VERDICT, **_ends(row, "reduction", "value", 100)} | {
                "word": row["verdict"]
            }


def both_leaks(frame: pd.DataFrame) -> Iterator[dict[str, str]]:
    """Rows of numbers from a report's two_leaks.parquet: reductions by scores and by labels, the word by scores."""
    for row in frame.to_dict("records"):
        is_baseline = row["word"] == "baseline"
        for measure, (column, reduction, _) in LEAKS.items():
            if pd.notna(row.get(column)):
                compared = _ends(row, reduction, "difference", 100) if reduction and not is_baseline else {}
                found = {"recipe": row["recipe"], "measure": measure, "n": str(row["seeds"]), "unit": "%"}
                yield found | _ends(row, column, "value", 100) | compared
        if not is_baseline:
            low, high = row["less_by_scores_low"], row["less_by_scores_high"]
            word = "reduces" if low > 0 else "leaks more" if high < 0 else "inconclusive"
            found = {"recipe": row["recipe"], "measure": VERDICT, "word": word}
            yield found | _ends(row, "less_by_scores", "value", 100)


def _ends(row: Mapping[str, Any], column: str, name: str, times: float) -> dict[str, str]:
    """The texts of an estimate and the ends of its interval; a reduction has its sign."""
    sign = "+" if name == "difference" or column in ("reduction", "less_by_scores") else ""
    low, high = (row.get(f"{column}_{end}") for end in ("low", "high"))
    digits = 1 if times == 100 else 3
    ends = dict(zip(("low", "high") if name == "value" else (f"{name}_low", f"{name}_high"), (low, high), strict=True))
    texts = {name: row[column], **ends}
    return {key: "" if pd.isna(one) else f"{times * one:{sign}.{digits}f}" for key, one in texts.items()}


def main(arguments: Sequence[str]) -> None:
    """Write a file of numbers, or all tables and figures."""
    if arguments:
        kind, source, name = arguments
        found = (
            exported(Path(source)) if kind == "numbers" else both_leaks(pd.read_parquet(f"{source}/two_leaks.parquet"))
        )
        text = pd.DataFrame(found, columns=COLUMNS).replace("\N{NO-BREAK SPACE}", " ", regex=True).to_csv(index=False)
        write_file(FOLDER / f"{name}.csv", text.replace("−", "-"))
        return
    for path in sorted({sheet["page"] for sheet in SHOWN["tables"].values()}):
        write_file(TREE / path, page(path, (TREE / path).read_text()))
    for name, figure in SHOWN["figures"].items():
        draw(name, (TREE / figure["page"]).read_text(), FIGURES / f"{name}.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
