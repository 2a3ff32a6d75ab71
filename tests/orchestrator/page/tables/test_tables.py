"""Tables as LaTeX, Markdown and CSV: any name comes through as itself, whatever the language would make of it."""

import csv
import io
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from smoothsweep.orchestrator.page.tables.latex import _mark, escaped, latex_tables
from smoothsweep.orchestrator.page.tables.plain import csv_table, markdown_table
from smoothsweep.orchestrator.reading.leak.printed import Estimate, PrintedRow, PrintedTable

PLAIN = Estimate(value=0.25, low=0.2, high=0.3, seeds=3)
CLEAR = Estimate(value=0.5, low=0.1, high=0.9, seeds=3, differs=True)


def table(*names, by_attack=False, attacks=None, **changes):
    rows = [
        PrintedRow(
            recipe=name,
            attack="" if attacks is None else attacks[number],
            role="baseline" if number == 0 else "",
            seeds="3",
            metrics={"embedder_acc1": PLAIN},
            reduction=None if number == 0 else CLEAR,
            verdict="" if number == 0 else "reduces",
            p=None if number == 0 else 0.01,
        )
        for number, name in enumerate(names)
    ]
    given = {"stem": "recipes", "caption": "C.", "metrics": ("embedder_acc1",), "leak": "embedder_acc1", **changes}
    return PrintedTable(rows=tuple(rows), by_attack=by_attack, **given)


def latex_table(one, label):
    """The only file of a table of one judge."""
    (text,) = latex_tables(one, label).values()
    return text


def test_a_table_in_latex_whole():
    assert (
        latex_table(table("plain", "alpha\u00a0\u22120.2"), "tab:t")
        == r"""% \usepackage[T1]{fontenc}
% \usepackage{booktabs,tabularx}
\begin{table*}
  \centering
  \footnotesize\setlength{\tabcolsep}{4pt}
  \caption{C.}
  \label{tab:t}
  \begin{tabularx}{\textwidth}{>{\raggedright\arraybackslash\hangindent1em}Xrrr}
    \toprule
     &  & Independent & Reduction \\
    Recipe & n & judge (\%) & (pp) \\
    \midrule
    plain (baseline) & 3 & 25.0 {\scriptsize [20,~30]} &  \\
    alpha~$-$0.2 & 3 & 25.0 {\scriptsize [20,~30]} & \textbf{+50.0} {\scriptsize [+10,~+90]} \\
    \bottomrule
  \end{tabularx}
\end{table*}
"""
    )


def test_attacks_are_letters_with_a_legend_or_heads_of_groups():
    lettered = latex_table(table("a", "b", attacks=("Plug & Play", "CMA-ES")), "t")
    assert r"a\textsuperscript{a} (baseline)" in lettered and r"b\textsuperscript{b} &" in lettered
    assert r"Attacks: (a) Plug \& Play; (b) CMA-ES." in lettered
    alone = latex_table(table("a", "b", attacks=("Plug & Play",) * 2), "t")
    assert "textsuperscript" not in alone and "Attacks:" not in alone
    grouped = latex_table(table("a", "b", attacks=("Plug & Play", "CMA-ES"), by_attack=True), "t")
    assert grouped.count(r"\multicolumn{4}{l}") == 2 and grouped.count(r"\addlinespace") == 1
    assert [_mark(number) for number in (0, 25, 26, 52)] == ["a", "z", "aa", "ba"]


def test_markdown_has_the_same_numbers_and_marks():
    lines = markdown_table(table("plain", "a|b *c*")).splitlines()
    assert lines[0] == "| recipe | n | independent judge, % | reduction, points | verdict |"
    assert lines[2] == "| plain (baseline) | 3 | 25.0 [20,\u00a030] |  |  |"
    assert lines[3] == r"| a\|b \*c\* | 3 | 25.0 [20,\u00a030] | **+50.0** [+10,\u00a0+90] | reduces |".replace(
        r"\u00a0", "\u00a0"
    )
    assert lines[-1] == "C."


NAMES = st.text(min_size=1, max_size=30)


@given(name=NAMES)
@example(name='a,"b"\n=1')
def test_csv_gives_names_and_unrounded_numbers_back(name):
    rows = list(csv.DictReader(io.StringIO(csv_table(table("plain", name)))))
    assert len(rows) == 2 and (name == rows[1]["recipe"] or not name.isprintable())
    assert float(rows[1]["reduction"]) == 0.5 and rows[1]["reduction_differs"] == "yes" and rows[0]["reduction"] == ""
    assert rows[0]["embedder_acc1_differs"] == "no" and rows[1]["p"] == "0.01"


def unescaped(text):
    """Which characters LaTeX would print; only commands that print one are known."""
    shown = {r"\textbackslash{}": "\\", r"\textasciitilde{}": "\x01", r"\textasciicircum{}": "^", "--": "\u2013"}
    shown |= {r"\textless{}": "<", r"\textgreater{}": ">", r"\textbar{}": "|", r"\textquotedbl{}": '"', "~": " "}
    shown |= {r"\textperiodcentered{}": "\u00b7", r"$\times$": "\u00d7", "$-$": "-"}
    shown |= {f"\\{character}": character for character in "&%$#_{}"}
    pattern = "|".join(map(re.escape, sorted(shown, key=len, reverse=True)))
    rest = re.sub(pattern, "", text)
    assert not re.search(r"[\\{}$&#%_^]", rest), f"a character that LaTeX reads as its own is left: {rest!r}"
    return re.sub(pattern, lambda found: shown[found[0]], text).replace("\x01", "~")


@given(
    text=st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=40).filter(
        lambda t: "--" not in t
    )
)
@example(text=r"\input{/etc/passwd} 100% $x_1^2$ #~&<>|\"")
def test_every_ascii_text_is_printed_as_it_is(text):
    assert unescaped(escaped(text)) == text


@given(text=NAMES)
def test_no_text_is_read_as_a_command_or_lacks_a_font(text):
    out = escaped(text)
    unescaped(out)
    assert all(ord(character) < 0x180 and (character.isprintable() or character == "\xad") for character in out)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("Poincaré", "Poincaré"), ("ﬁ", "fi"), ("模", "[U+6A21]"), ("a\u202eb", r"a\textbackslash{}u202eb")],
)
def test_letters_without_a_font_are_said_by_their_number(text, shown):
    assert escaped(text) == shown


def test_a_name_that_begins_like_an_argument_is_none():
    lines = latex_table(table("[3pt] a", "*b"), "t").splitlines()
    assert any(line.startswith("    {}[3pt] a") for line in lines) and any(
        line.startswith("    {}*b") for line in lines
    )
