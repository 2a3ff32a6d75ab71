"""A table as a paper prints it: booktabs, small intervals, bold for what is distinguishable from the baseline."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from itertools import pairwise
from textwrap import wrap

from smoothsweep.core.checks import present
from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.metrics.metric import Metric
from smoothsweep.core.text import MINUS, NBSP, printable
from smoothsweep.orchestrator.page.tables.latex_parts import Part, parts_of
from smoothsweep.orchestrator.reading.leak.printed import (
    OWN_ATTACKS,
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
_UNBROKEN = 12
"""Characters of a word after which TeX may break it where nothing else offers a place."""
_GROUP_LINE = 72
"""Characters of an attack's name in one line across the table."""


def latex_tables(table: PrintedTable, label: str) -> dict[str, str]:
    """Ending of a file's name -> its table: "" for accuracy, deciding leak and reduction, "-judges" for what the
    other judges say (several where one table is too narrow for them).

    label: what \\ref names the first by. Each fits the text width of article at 10, 11 and 12 points; in a document of
    two columns it spans both, in one of one column it is an ordinary table. A table longer than a page goes on in a
    second one of the same number. Needs the packages booktabs and tabularx and, with pdflatex, fontenc with T1.
    """
    marks = {} if table.by_attack else {attack: _mark(number) for number, attack in enumerate(table.attacks)}
    marks = marks if len(marks) > 1 else {}
    files = {}
    for number, part in enumerate(parts_of(table, lambda row: _name(row, marks))):
        ending = "" if number == 0 else "-judges" if number == 1 else f"-judges-{number}"
        caption = escaped(_caption(table, marks))
        if ending:
            caption = rf"What the other judges say of the recipes of Table~\ref{{{label}}}."
            caption += f"{f' {OWN_ATTACKS}' if table.own_attacks else ''} n, intervals and bold as there."
        lines = [r"% \usepackage[T1]{fontenc}", r"% \usepackage{booktabs,tabularx}"]
        for page, rows in enumerate(part.pages):
            lines += _float(table, part, rows, marks, page > 0, caption, label + ending)
        files[ending] = "\n".join(lines) + "\n"
    return files


def _float(
    table: PrintedTable,
    part: Part,
    rows: tuple[PrintedRow, ...],
    marks: Mapping[str, str],
    continues: bool,
    caption: str,
    label: str,
) -> list[str]:
    """One page of a table. continues: whether it is a further page, which has the number of the first."""
    columns = r">{\raggedright\arraybackslash\hangindent1em}X" + "r" * (part.columns - 1)
    about = [r"  \addtocounter{table}{-1}", r"  \caption{(continued)}"]
    return [
        r"\begin{table*}",
        r"  \centering",
        r"  \footnotesize\setlength{\tabcolsep}{4pt}",
        *(about if continues else [rf"  \caption{{{caption}}}", rf"  \label{{{label}}}"]),
        rf"  \begin{{tabularx}}{{\textwidth}}{{{columns}}}",
        r"    \toprule",
        *(f"    {' & '.join(map(escaped, line))} \\\\" for line in zip(*part.heads, strict=True)),
        r"    \midrule",
        *_body(table, part, rows, marks),
        r"    \bottomrule",
        r"  \end{tabularx}",
        r"\end{table*}",
    ]


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


def _body(table: PrintedTable, part: Part, rows: tuple[PrintedRow, ...], marks: Mapping[str, str]) -> list[str]:
    lines, group = [], None
    for row in rows:
        if table.by_attack and row.attack and row.attack != group:
            lines += [r"    \addlinespace"] if group is not None else []
            for line in wrap(_group(row), _GROUP_LINE):
                lines.append(rf"    \multicolumn{{{part.columns}}}{{l}}{{\emph{{{escaped(line)}}}}} \\")
            group = row.attack
        lines.append(f"    {_row(table, part, row, marks)} \\\\")
    return lines


def _group(row: PrintedRow) -> str:
    return f"{row.attack} (control)" if row.role == "control" else row.attack


def _name(row: PrintedRow, marks: Mapping[str, str]) -> str:
    """The text of the first cell, for its width; a mark counts as a letter."""
    return f"{row.recipe}{marks.get(row.attack, '')}{' (baseline)' if row.role == 'baseline' else ''}"


def _row(table: PrintedTable, part: Part, row: PrintedRow, marks: Mapping[str, str]) -> str:
    mark = f"\\textsuperscript{{{marks[row.attack]}}}" if row.attack in marks else ""
    baseline = " (baseline)" if row.role == "baseline" else ""
    begin = "{}" if row.recipe.startswith(("[", "*")) else ""  # else an argument of the line before
    cells = [f"{begin}{_breakable(row.recipe)}{mark}{baseline}", escaped(row.seeds)]
    cells += [_cell(metric_of(key), row.metrics[key]) for key in part.metrics]
    if part.compares:
        reduction = row.reduction
        cells.append(
            "" if reduction is None else _cell(metric_of(present(table.leak, "leak")), reduction, is_reduction=True)
        )
    return " & ".join(cells)


def _breakable(text: str) -> str:
    """A name that fits its column whatever its words are: a long word may break every few letters."""
    pieces = re.findall(rf"\S{{1,{_UNBROKEN}}}|\s+", printable(text, most=len(text)))
    out = ""
    for before, piece in pairwise(["", *pieces]):
        inside = before and not before.isspace() and not piece.isspace()
        out += (r"\allowbreak{}" if inside else "") + escaped(piece)
    return out


def _cell(spec: Metric, estimate: Estimate, *, is_reduction: bool = False) -> str:
    mean, ends = shown_reduction(spec, estimate) if is_reduction else shown_estimate(spec, estimate)
    text = escaped(mean)
    text = rf"\textbf{{{text}}}" if estimate.differs else text
    return rf"{text} {{\scriptsize {escaped(ends)}}}" if ends else text


def _mark(number: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    first, last = divmod(number, len(_LETTERS))
    return (_mark(first - 1) if first else "") + _LETTERS[last]
