"""Tables as LaTeX, Markdown and CSV: the same numbers, and any name comes through as itself."""

import csv
import io
import re
import shutil
import subprocess

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from smoothsweep.orchestrator.page.tables import Table, csv_table, escaped, latex_tables, markdown_table, terminal_text
from smoothsweep.orchestrator.result.sweep_result import result_of
from tests.orchestrator.result import test_audit

METRICS = ("test_acc", "embedder_acc1", "attack_acc1")


def table(*names, metrics=METRICS, attacks=("Plug & Play", "CMA-ES")):
    number = {"": 0.25, "_low": 0.2, "_high": 0.3, "_n": 3, "_differs": False}
    clear = {"": 0.5, "_low": 0.1, "_high": 0.9, "_n": 3, "_differs": True}
    rows = [
        {
            "recipe": name,
            "attack": attacks[place % len(attacks)] if attacks else "",
            "role": "" if place else "baseline",
            "seeds": "3",
            **{f"{key}{end}": value for key in metrics for end, value in number.items()},
            **{f"reduction{end}": value if place else None for end, value in clear.items()},
            "reduction_differs": place > 0,
            "verdict": "reduces" if place else None,
            "p": 0.01 if place else None,
        }
        for place, name in enumerate(names)
    ]
    captions = ("Means & intervals, 95 %.", "The other judges.")
    return Table(stem="recipes", captions=captions, metrics=metrics, leak="embedder_acc1", rows=pd.DataFrame(rows))


def body(latex):
    """The cells of the rows of a LaTeX table."""
    lines = latex.partition("\\midrule\n")[2].partition("\\bottomrule")[0].splitlines()
    return [re.split(r" ?(?<!\\)& ?", line.removesuffix(" \\\\")) for line in lines]


def test_latex_has_the_deciding_numbers_and_then_those_of_the_other_judges():
    files = latex_tables(table("plain", "alpha\u00a0\u22120.2"), "tab:t")
    assert list(files) == ["", "-judges"]
    rate = "25.0 [20,~30]"
    assert body(files[""]) == [
        ["plain (baseline)", r"Plug \& Play", "3", rate, rate, ""],
        ["alpha~$-$0.2", "CMA-ES", "3", rate, rate, r"\textbf{+50.0 [+10,~+90]}"],
    ]
    assert [row[3] for row in body(files["-judges"])] == [rate, rate]
    assert r"\caption{Means \& intervals, 95 \%.} \label{tab:t}" in files[""] and "tab:t-judges" in files["-judges"]
    assert list(latex_tables(table("a", "b", metrics=METRICS[:2]), "t")) == [""]


def test_markdown_has_the_same_numbers_and_marks():
    lines = markdown_table(table("plain", "a|b *c*", metrics=METRICS[1:2], attacks=())).splitlines()
    assert lines[0] == "| recipe | n | independent judge, % | reduction, points | verdict |"
    assert lines[2] == "| plain (baseline) | 3 | 25.0 [20,\u00a030] |  |  |"
    assert lines[3] == "| a\\|b \\*c\\* | 3 | 25.0 [20,\u00a030] | **+50.0** [+10,\u00a0+90] | reduces |"
    assert lines[-1] == "Means & intervals, 95 %."


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


PRINTED = st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=40)


@given(text=PRINTED.filter(lambda text: "--" not in text))
@example(text=r"\input{/etc/passwd} 100% $x_1^2$ #~&<>|\"")
def test_every_ascii_text_is_printed_as_it_is(text):
    assert unescaped(escaped(text)) == text


@given(text=NAMES)
@example(text="模")
def test_no_text_is_read_as_a_command_or_lacks_a_font(text):
    out = escaped(text)
    unescaped(out)
    assert all(ord(character) < 0x180 and (character.isprintable() or character == "\xad") for character in out)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here")
@pytest.mark.parametrize("names", [("plain", "[3pt] a", "*b", "w" * 70), [f"recipe {n}" for n in range(60)]])
def test_tex_sets_every_table_within_the_text(names, tmp_path):
    (packages,) = {re.search(r"% (\\usepackage\{.*)", text)[1] for text in latex_tables(table(*names), "t").values()}
    text = "\n".join(latex_tables(table(*names), "t").values())
    head = rf"\documentclass{{article}}\usepackage[T1]{{fontenc}}{packages}\begin{{document}}"
    (tmp_path / "t.tex").write_text(f"{head}{text}\\end{{document}}")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    if "File `adjustbox.sty' not found" in done.stdout:
        pytest.skip("no adjustbox here")
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout


def test_a_control_beside_the_only_attack_has_a_line_without_a_verdict():
    attacks = {name: test_audit.ATTACKS[name] for name in ("ppa", "random_latents")}
    text = terminal_text(result_of(test_audit.data(attacks=attacks)))
    [attack, control] = (next(line for line in text.splitlines() if name in line) for name in attacks)
    assert "43.8" in attack and "6.2" in control and "None" not in text
