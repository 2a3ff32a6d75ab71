"""The tables of a result as text: for a terminal, as LaTeX, Markdown and CSV. All show the result's own numbers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from smoothsweep.core.judges.columns import CLASS_METRICS, metric_of
from smoothsweep.core.metrics.leak_comparisons import LEAKS_MORE, REDUCES
from smoothsweep.core.text import MINUS, NBSP, printable, typable
from smoothsweep.orchestrator.result.display import INTEGRITY, LEGEND, SETTING_LEGEND, SETTING_WORDS
from smoothsweep.orchestrator.result.format import (
    ABSENT,
    aligned,
    ascii_text,
    estimate,
    gap_in_row,
    in_row,
    number,
    seeds,
    signed,
)
from smoothsweep.orchestrator.result.published import metric_spec
from smoothsweep.orchestrator.result.sweep_result import SweepResult, rows_of

_SPECIAL = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    MINUS: "$-$",
    NBSP: "~",
    ABSENT: "--",
    "\u00b7": r"\textperiodcentered{}",
    "\u00d7": r"$\times$",
}
_MOST_ROWS = 40
"""Rows that stand on one page; a longer table runs over several, which only a document of one column can hold."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of a document.

    Attributes:
        stem: Stem of the names of its files.
        captions: The sentences below it, and those below the table of the other judges.
        rows: `recipe`, `attack`, `role`, `seeds` (`3`, or `2 of 3`), the metrics and the reduction with their endings.
        metrics: Columns between n and the reduction.
        leak: The metric of the reduction; None where no row has one.
    """

    stem: str
    captions: tuple[str, str]
    rows: pd.DataFrame
    metrics: tuple[str, ...]
    leak: str | None


def tables_of(result: SweepResult) -> list[Table]:
    """A table of recipes under their strongest attacks, and with several attacks one of recipes under each attack."""
    facts, recipes, attacks = result.facts, result.recipes, result.attacks
    named = {}
    if facts["leak"] is not None and not facts["by_setting"]:
        rows = recipes[recipes["attack"].notna()]
        clear = rows["verdict"].isin((REDUCES, LEAKS_MORE))
        named["recipes"] = rows.assign(reduction_n=rows["seeds"], reduction_differs=clear, planned=rows["planned"])
    if len(facts["attacks"]) > 1 or not named:
        roles = attacks["is_baseline"].map({True: "baseline", False: ""}).where(~attacks["control"], "control")
        named["attacks"] = attacks.assign(
            role=roles,
            planned=attacks["n"] + attacks["failed"] + attacks["missing"],
            reduction_differs=attacks["verdict"].isin((REDUCES, LEAKS_MORE)),
            p=None,
            verdict="",
        )
    said = {section: " ".join(lines) for section, lines in result.sentences.items()}
    return [
        Table(
            stem=stem,
            captions=(f"{said[f'caption_{stem}']} {said['caption']}", said[f"caption_{stem}_judges"]),
            rows=rows.assign(seeds=[seeds(row) for row in rows_of(rows)]),
            metrics=facts["key_metrics"],
            leak=facts["leak"] if rows["reduction"].notna().any() else None,
        )
        for stem, rows in named.items()
    ]


def latex_tables(table: Table, label: str) -> dict[str, str]:
    """Ending of a file's name -> its table: "" for accuracy, deciding leak and reduction, "-judges" for the rest.

    label: what \\ref names the first by. Needs booktabs, for a wide table adjustbox, for a long one longtable and, with
    pdflatex, fontenc with T1.
    """
    deciding = [key for key in table.metrics if key == table.leak or metric_of(key).group == "utility"]
    others = [key for key in table.metrics if key not in deciding]
    files = {"": _latex(table, deciding or others, table.captions[0], label, compares=True)}
    if deciding and others:
        files["-judges"] = _latex(table, others, table.captions[1], f"{label}-judges", compares=False)
    return files


def _latex(table: Table, metrics: Sequence[str], caption: str, label: str, *, compares: bool) -> str:
    frame, bold = _shown(table, metrics, compares=compares)
    style: Any = frame.style.hide(axis="index").format(escaped).format_index(escaped, axis=1)
    style = style.apply(lambda _: bold.map(lambda is_bold: "textbf:--rwrap;" if is_bold else ""), axis=None)
    words = 2 if "attack" in frame else 1
    columns = "l" * words + "r" * (frame.shape[1] - words)
    head = f"\\caption{{{escaped(caption)}}} \\label{{{label}}}"
    if len(frame) > _MOST_ROWS:
        wrapped = r">{\raggedright\arraybackslash}p{0.14\textwidth}" * words + columns[words:]
        text = style.to_latex(hrules=True, column_format=wrapped, environment="longtable", caption="C", label="L")
        text = text.replace("\\caption{C} \\label{L}", head).replace("\\caption[]{C}", "\\caption[]{(continued)}")
        text = f"{{\\scriptsize\\setlength{{\\tabcolsep}}{{3pt}}\n{text}}}\n"
    else:
        body = style.to_latex(hrules=True, column_format=columns)
        fitted = f"\\begin{{adjustbox}}{{max width=\\textwidth}}\n{body}\\end{{adjustbox}}"
        text = f"\\begin{{table*}}\n\\centering\n{head}\n{fitted}\n\\end{{table*}}\n"
    text = re.sub(r"(?m)^(?=[\[*])", "{}", text)  # else an argument of the line break before
    return "% \\usepackage[T1]{fontenc}\n% \\usepackage{array,booktabs,adjustbox,longtable}\n" + text


def escaped(text: str) -> str:
    """Any text as LaTeX shows it; letters that pdflatex has no font for by their number."""
    return "".join(_SPECIAL.get(character) or _typeset(character) for character in printable(text, most=len(text)))


def _typeset(character: str) -> str:
    if ord(character) < 0x180:  # what fontenc T1 has
        return character
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return plain if plain.isalnum() else f"[U+{ord(character):04X}]"


def markdown_table(table: Table) -> str:
    """A table for GitHub's Markdown, its caption below it."""
    frame, bold = _shown(table, table.metrics, compares=True)
    if table.rows["verdict"].fillna("").any():
        frame["verdict"] = table.rows["verdict"].fillna("").tolist()
    words = [name for name in ("recipe", "attack", "verdict") if name in frame]
    cells = frame.assign(**{name: frame[name].map(_as_markdown) for name in words})
    for name in (name for name in frame if name not in words):
        bolded = [f"**{text.partition(' ')[0]}** {text.partition(' ')[2]}".strip() for text in frame[name]]
        cells[name] = frame[name].where(~bold[name], bolded) if name in bold else frame[name]
    rule = ["---" if name in words else "---:" for name in frame]
    lines = [f"| {' | '.join(row)} |" for row in ([*frame.columns], rule, *cells.itertuples(index=False))]
    return "\n".join([*lines, "", _as_markdown(table.captions[0])]) + "\n"


def _as_markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", printable(text, most=len(text)))


def csv_table(table: Table) -> str:
    """A line per row, every number unrounded with its interval, its seeds and whether it differs from the baseline;
    rates as fractions. Names have plain minus signs and spaces, as in the Parquet tables."""
    rows = table.rows
    lines = rows[["recipe", "attack", "role", "seeds"]].map(lambda cell: printable(typable(cell), most=len(cell)))
    for key in (*table.metrics, *(["reduction"] if table.leak else [])):
        known, ends = rows[key].notna(), [f"{key}{end}" for end in ("", "_low", "_high")]
        lines[ends] = rows[ends].astype(float)
        lines[f"{key}_seeds"] = rows[f"{key}_n"].where(known).astype("Int64")
        lines[f"{key}_differs"] = rows[f"{key}_differs"].map({True: "yes", False: "no"}).where(known)
    if table.leak:
        lines[["p", "verdict"]] = rows[["p", "verdict"]]
    return lines.to_csv(index=False, lineterminator="\n")


def _shown(table: Table, metrics: Sequence[str], *, compares: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rounded cells as texts, and which of them differ from the baseline."""
    rows = table.rows
    roles = [f"{name}{f' ({role})' if role else ''}" for name, role in zip(rows["recipe"], rows["role"], strict=True)]
    cells, bold = {"recipe": roles}, {}
    if rows["attack"].any():
        cells["attack"] = rows["attack"].tolist()
    cells["n"] = rows["seeds"].tolist()
    needed = [f"{key}{end}" for key in (*metrics, "reduction") for end in ("", "_low", "_high")]
    records = rows_of(rows[needed])
    for key in metrics:
        spec = metric_of(key)
        name = f"{spec.label}, %" if spec.unit == "percent" else spec.label
        cells[name] = [in_row(spec, row, key).replace(f"{NBSP}%", "") for row in records]
        bold[name] = rows[f"{key}_differs"].tolist()
    if compares and table.leak is not None:
        spec = metric_of(table.leak)
        name = "reduction, points" if spec.unit == "percent" else "reduction"
        cells[name] = [gap_in_row(spec, row) for row in records]
        bold[name] = rows["reduction_differs"].tolist()
    shown = pd.DataFrame(cells)
    return shown, pd.DataFrame(bold).reindex(columns=shown.columns, fill_value=False).astype(bool)


def terminal_text(result: SweepResult) -> str:
    """The result for a terminal: its cells, its verdicts, and the sentences on what stands beside them."""
    facts = result.facts
    texts = [_cells_text(result)]
    if facts["by_setting"] and facts["leak"] is not None:
        texts.append(_settings_text(result))
    elif len(facts["attacks"]) > 1 and len(result.recipes) > 1:
        texts.append(_verdicts_text(result))
    sections = (result.sentences[section] for section in ("membership", "looks", "published"))
    texts += ["\n".join(map(ascii_text, lines)) for lines in sections if lines]
    return "\n\n".join([*texts, *([_published_text(result)] if len(result.published) else [])])


def _lines(rows: Sequence[Sequence[Any]], words: Collection[int]) -> list[str]:
    """A line for each row, the first the head; what is None is empty. words: columns that are no numbers."""
    return aligned([["" if cell is None else ascii_text(str(cell)) for cell in row] for row in rows], words)


def _published_text(result: SweepResult) -> str:
    """Our numbers beside the paper's, a line for each recipe, attack and metric."""
    rows = [["recipe", "metric", "the paper", "ours", "n", "difference", ""]]
    for row in rows_of(result.published):
        spec = metric_spec(row["metric"])
        name = f"{row['recipe']}, {row['attack']}" if row["attack"] else row["recipe"]
        remark = f"{row['mark']}: {row['remark']}" if row["remark"] else row["mark"]
        numbers = number(spec, row["paper"]), in_row(spec, row, "ours"), row["n"] or ABSENT
        rows.append([name, spec.label, *numbers, signed(spec, row["difference"]), remark])
    return "\n".join(_lines(rows, {0, 1, 6}))


def _cells_text(result: SweepResult) -> str:
    """A line for each recipe and attack. `*` marks the recipe with the smallest leak (never with one seed), `=` the
    baseline, `<` recipes below the accuracy asked for."""
    facts, recipes = result.facts, {row["recipe"]: row for row in rows_of(result.recipes)}
    leak, names = facts["leak"], ["recipe", *(["attack"] if result.attacks["attack"].any() else [])]
    keys = [key for key in facts["key_metrics"] if key in ("test_acc", leak, *CLASS_METRICS, *INTEGRITY)]
    by_row = leak is not None and len(facts["attacks"]) < 2 and not facts["by_setting"]
    rows: list[list[Any]] = [["", *names, "n", *(result.labels[key] for key in keys), *(COMPARED if by_row else ())]]
    for cell in rows_of(result.attacks):
        recipe = recipes[cell["recipe"]]
        least = facts["best_mark"] and cell["recipe"] == facts["best"] and cell["attack"] == recipe["attack"]
        marks = {"*": least, "=": cell["is_baseline"], "<": not recipe["is_accurate"]}
        values = [in_row(metric_of(key), cell, key) for key in keys]
        sign = "".join(sign for sign, holds in marks.items() if holds)
        rows.append([sign, *(cell[name] for name in names), seeds(cell), *values])
        if by_row:
            shown = dict.fromkeys(recipe) if cell["control"] else recipe
            word = "baseline" if cell["is_baseline"] else shown["verdict"]
            rows[-1] += [gap_in_row(metric_of(str(leak)), shown), word, shown["needed"]]
    width = len(rows[0])
    lines = _lines(rows, {*range(len(names) + 1), *((width - 2, width - 1) if by_row else ())})
    rule = "-" * max(map(len, lines))
    alone = "; with n = 1 it is over classes alone, or missing, and says nothing of the recipe"
    ends = f"[low, high] {100 * facts['level']:g} % interval{alone if (result.attacks['n'] == 1).any() else ''}"
    marked = {"*": facts["best_mark"], "=": "baseline", "<": facts["too_inaccurate_words"]}
    occurring = {sign for row in rows for sign in row[0]}
    legend = [f"{sign} {ascii_text(str(what))}" for sign, what in marked.items() if sign in occurring]
    said = (*(result.sentences["answer"] if leak is None else ()), *result.sentences["incomplete"])
    below = [*([LEGEND] if by_row else []), *map(ascii_text, said)]
    return "\n".join([lines[0], rule, *lines[1:], rule, "   ".join([*legend, ends]), *below])


COMPARED = ("reduction", "verdict", "n needed")


def _verdicts_text(result: SweepResult) -> str:
    """The verdicts, a line per recipe under its strongest attack; else why there are none."""
    reason, recipes = result.facts["hiding_not_looked_for"], result.recipes[result.recipes["attack"].notna()]
    if not recipes["verdict"].notna().any():
        return f"no recipe is compared with a baseline: {ascii_text(str(reason or 'too few numbers'))}"
    metrics, gaps = ("test_acc", leak := str(result.facts["leak"])), ("reduction", *(() if reason else ("hidden",)))
    head = ["each recipe under its strongest attack", *(result.labels[key] for key in metrics), *gaps]
    rows = [[*head, "strongest attack", *COMPARED[1:]]]
    for row in rows_of(recipes):
        measured = [in_row(metric_of(key), row, key) for key in metrics]
        sizes = [gap_in_row(metric_of(leak), row, key) for key in gaps]
        rows.append([row["recipe"], *measured, *sizes, row["attack"], row["verdict"] or row["role"], row["needed"]])
    width = len(rows[0])
    unsaid = [f"hiding: not looked for, {ascii_text(str(reason))}"] if reason else []
    return "\n".join([*_lines(rows, {0, *range(width - 3, width)}), LEGEND, *unsaid])


def _settings_text(result: SweepResult) -> str:
    """The settings of a sweep that compares settings with one of them."""
    leak = str(result.facts["leak"])
    spec = metric_of(leak)
    rows: list[list[Any]] = [[result.labels[leak], "n", "reduction", "verdict", "setting"]]
    for row in rows_of(result.attacks):
        word = "baseline" if row["is_baseline"] else SETTING_WORDS.get(row["verdict"])
        value = estimate(spec, row[leak], row[f"{leak}_low"], row[f"{leak}_high"])
        rows.append([value, row["n"], gap_in_row(spec, row), word, row["setting"]])
    return "\n".join([*_lines(rows, {3, 4}), SETTING_LEGEND])
