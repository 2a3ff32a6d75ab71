"""The tables of an export as files: LaTeX, Markdown and CSV of the same typed rows."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import pandas as pd

from smoothsweep.core.checks import present
from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.text import MINUS, NBSP, printable, typable
from smoothsweep.orchestrator.result.format import ABSENT
from smoothsweep.orchestrator.result.printed import (
    OWN_ATTACKS,
    Estimate,
    PrintedRow,
    PrintedTable,
    shown_estimate,
    shown_reduction,
)

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


def latex_tables(table: PrintedTable, label: str) -> dict[str, str]:
    """Ending of a file's name -> its table: "" for accuracy, deciding leak and reduction, "-judges" for the rest.

    label: what \\ref names the first by. Needs booktabs, for a wide table adjustbox, for a long one longtable and, with
    pdflatex, fontenc with T1.
    """
    deciding = [key for key in table.metrics if key == table.leak or metric_of(key).group == "utility"]
    others = [key for key in table.metrics if key not in deciding]
    files = {"": _latex(table, deciding or others, table.caption, label, compares=True)}
    if deciding and others:
        own = f" {OWN_ATTACKS}" if table.own_attacks else ""
        caption = f"What the other judges say of the recipes of the first table.{own}"
        files["-judges"] = _latex(table, others, caption, f"{label}-judges", compares=False)
    return files


def _latex(table: PrintedTable, metrics: list[str], caption: str, label: str, *, compares: bool) -> str:
    frame, bold = _shown(table, tuple(metrics), compares=compares)
    style: Any = frame.style.hide(axis="index").format(escaped).format_index(escaped, axis=1)
    style = style.apply(lambda _: bold.map(lambda is_bold: "textbf:--rwrap;" if is_bold else ""), axis=None)
    words = 2 if table.attacks else 1
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


def markdown_table(table: PrintedTable) -> str:
    """A table for GitHub's Markdown, its caption below it."""
    frame, bold = _shown(table, table.metrics, compares=True, verdicts=True)
    cells = frame.map(lambda text: re.sub(r"([\\`*_\[\]<>|])", r"\\\1", printable(text, most=len(text))))
    numbers = [name for name in frame if name not in ("recipe", "attack", "verdict")]
    for name in numbers:  # of our own making: nothing to escape, and bold means something
        cells[name] = [
            f"**{text.partition(' ')[0]}** {text.partition(' ')[2]}".strip() if is_bold else text
            for text, is_bold in zip(frame[name], bold[name], strict=True)
        ]
    rule = ["---:" if name in numbers else "---" for name in frame]
    lines = [f"| {' | '.join(row)} |" for row in ([*frame.columns], rule, *cells.itertuples(index=False))]
    caption = re.sub(r"([\\`*_\[\]<>|])", r"\\\1", printable(table.caption, most=len(table.caption)))
    return "\n".join([*lines, "", caption]) + "\n"


def csv_table(table: PrintedTable) -> str:
    """A line per row, every number unrounded with its interval, its seeds and whether it differs from the baseline;
    rates as fractions. Names have plain minus signs and spaces, as in the Parquet tables."""
    lines = [_numbers(table, row) for row in table.rows]
    frame = pd.DataFrame(lines).map(lambda cell: printable(typable(cell), most=len(cell)))
    return frame.to_csv(index=False, lineterminator="\n")


def _numbers(table: PrintedTable, row: PrintedRow) -> dict[str, str]:
    line = {"recipe": row.recipe, "attack": row.attack, "role": row.role, "seeds": row.seeds}
    estimates: dict[str, Estimate | None] = {key: row.metrics[key] for key in table.metrics}
    estimates |= {"reduction": row.reduction} if table.compares else {}
    for key, one in estimates.items():
        known = one is not None and one.value is not None
        ends = (one.value, one.low, one.high) if one is not None and known else (None,) * 3
        line |= {
            f"{key}{end}": "" if value is None else repr(float(value))
            for end, value in zip(("", "_low", "_high"), ends, strict=True)
        }
        line[f"{key}_seeds"] = str(one.seeds) if one is not None and known else ""
        line[f"{key}_differs"] = ("yes" if one.differs else "no") if one is not None and known else ""
    if table.compares:
        line |= {"p": "" if row.p is None else repr(row.p), "verdict": row.verdict}
    return line


def _shown(
    table: PrintedTable, metrics: tuple[str, ...], *, compares: bool, verdicts: bool = False
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rounded cells as texts, and which of them differ from the baseline."""
    cells, bold = [], []
    for row in table.rows:
        line = {"recipe": f"{row.recipe}{f' ({row.role})' if row.role else ''}"}
        line |= {"attack": row.attack} if table.attacks else {}
        line["n"] = row.seeds
        differs: dict[str, Any] = {}
        for key in metrics:
            spec, one = metric_of(key), row.metrics[key]
            name = f"{spec.label}, %" if spec.unit == "percent" else spec.label
            line[name], differs[name] = " ".join(shown_estimate(spec, one)).strip(), one.differs
        if compares and table.compares:
            line_name, (text, is_clear) = _reduction(metric_of(present(table.leak, "leak")), row)
            line[line_name], differs[line_name] = text, is_clear
        if verdicts and any(one.verdict for one in table.rows):
            line["verdict"] = row.verdict
        cells.append(line)
        bold.append({name: differs.get(name, False) for name in line})
    return pd.DataFrame(cells), pd.DataFrame(bold)


def _reduction(leak: Metric, row: PrintedRow) -> tuple[str, tuple[str, bool]]:
    name = "reduction, points" if leak.unit == "percent" else "reduction"
    if row.reduction is None:
        return name, ("", False)
    return name, (" ".join(shown_reduction(leak, row.reduction)).strip(), row.reduction.differs)
