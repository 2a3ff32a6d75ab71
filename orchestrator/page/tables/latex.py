"""A table as a paper prints it: booktabs, small intervals, bold for what is distinguishable from the baseline."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

from smoothsweep.core.checks import present
from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.text import MINUS, NBSP, printable
from smoothsweep.orchestrator.reading.leak.printed import (
    Estimate,
    PrintedRow,
    PrintedTable,
    shown_estimate,
    shown_reduction,
)
from smoothsweep.orchestrator.reading.numbers.format import ABSENT

_SPECIAL = {
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
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def latex_table(table: PrintedTable, label: str) -> str:
    """The table with its caption. label: what \\ref names it by. Needs the packages booktabs and, with pdflatex,
    fontenc with T1."""
    marks = {} if table.by_attack else {attack: _mark(number) for number, attack in enumerate(table.attacks)}
    marks = marks if len(marks) > 1 else {}
    lines = [
        r"% \usepackage[T1]{fontenc}",
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        r"  \centering",
        r"  \small\setlength{\tabcolsep}{4pt}",
        rf"  \caption{{{escaped(_caption(table, marks))}}}",
        rf"  \label{{{label}}}",
        rf"  \begin{{tabular}}{{l{'r' * (_columns(table) - 1)}}}",
        r"    \toprule",
        f"    {_head(table)} \\\\",
        r"    \midrule",
        *_body(table, marks),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    """Any text as LaTeX shows it; characters that pdflatex has no font for by their number."""
    return "".join(_SPECIAL.get(character) or _typeset(character) for character in printable(text, most=len(text)))


def _typeset(character: str) -> str:
    if ord(character) < 0x180:  # what fontenc T1 has
        return character
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return plain if plain.isalnum() else f"[U+{ord(character):04X}]"


def _caption(table: PrintedTable, marks: Mapping[str, str]) -> str:
    legend = "; ".join(f"({mark}) {attack}" for attack, mark in marks.items())
    return f"{table.caption} Attacks: {legend}." if marks else table.caption


def _columns(table: PrintedTable) -> int:
    return 2 + len(table.metrics) + table.compares


def _head(table: PrintedTable) -> str:
    names = ["Recipe", "n"]
    for key in table.metrics:
        spec = metric_of(key)
        names.append(f"{spec.label[:1].upper()}{spec.label[1:]}{' (%)' if spec.unit == 'percent' else ''}")
    if table.compares:
        names.append("Reduction (pp)" if metric_of(present(table.leak, "leak")).unit == "percent" else "Reduction")
    return " & ".join(map(escaped, names))


def _body(table: PrintedTable, marks: Mapping[str, str]) -> list[str]:
    lines, group = [], None
    for row in table.rows:
        if table.by_attack and row.attack and row.attack != group:
            lines += [r"    \addlinespace"] if group is not None else []
            lines.append(rf"    \multicolumn{{{_columns(table)}}}{{l}}{{\emph{{{escaped(_group(row))}}}}} \\")
            group = row.attack
        lines.append(f"    {_row(table, row, marks)} \\\\")
    return lines


def _group(row: PrintedRow) -> str:
    return f"{row.attack} (control)" if row.role == "control" else row.attack


def _row(table: PrintedTable, row: PrintedRow, marks: Mapping[str, str]) -> str:
    mark = f"\\textsuperscript{{{marks[row.attack]}}}" if row.attack in marks else ""
    baseline = " (baseline)" if row.role == "baseline" else ""
    begin = "{}" if row.recipe.startswith(("[", "*")) else ""  # else an argument of the line before
    cells = [f"{begin}{escaped(row.recipe)}{mark}{baseline}", escaped(row.seeds)]
    cells += [_cell(metric_of(key), row.metrics[key]) for key in table.metrics]
    if table.compares:
        found = row.reduction
        cells.append("" if found is None else _cell(metric_of(present(table.leak, "leak")), found, is_reduction=True))
    return " & ".join(cells)


def _cell(spec: Metric, one: Estimate, *, is_reduction: bool = False) -> str:
    mean, ends = shown_reduction(spec, one) if is_reduction else shown_estimate(spec, one)
    shown = escaped(mean)
    shown = rf"\textbf{{{shown}}}" if one.differs else shown
    return rf"{shown} {{\scriptsize {escaped(ends)}}}" if ends else shown


def _mark(number: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    first, last = divmod(number, len(_LETTERS))
    return (_mark(first - 1) if first else "") + _LETTERS[last]
