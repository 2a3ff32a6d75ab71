"""Tables as TeX sets them: nothing is wider than the text or longer than a page, whatever recipes are called."""

import re
import shutil
import subprocess

import pytest

from smoothsweep.core.text import MINUS, NBSP
from smoothsweep.orchestrator.page.tables.latex import latex_tables
from smoothsweep.orchestrator.page.tables.latex_parts import parts_of, width
from smoothsweep.orchestrator.reading.leak.printed import Estimate, PrintedRow, PrintedTable

METRICS = ("test_acc", "embedder_acc1", "attack_acc1", "xi_train", "dist_face", "robust_acc", "backdoor_success")
SHORT = ("plain", f"smoothing{NBSP}{MINUS}0.8, step at{NBSP}0.1", "MID")
LONG = (
    "plain training",
    f"alpha{NBSP}{MINUS}3, ramp, schedule start{NBSP}0.3, schedule end{NBSP}0.4, back{NBSP}0.9, decay{NBSP}0.0005",
    "recipe_with_a_name_that_never_ends_and_offers_no_space_to_break_at_0123456789_abcdef",
    "w" * 70,
)
ATTACKS = (
    f"attack loss{NBSP}cross entropy",
    f"attack kind{NBSP}ppa, attack loss{NBSP}logit, attack steps{NBSP}200, prior of other people, selected{NBSP}50",
)


def widest(*, differs):
    """A number with the longest interval that a rate has."""
    return Estimate(value=-1.0 if differs else 0.969, low=-1.0, high=1.0, seeds=10, differs=differs)


def table(names, *, attacks=("",), by_attack=False, metrics=METRICS):
    rows = [
        PrintedRow(
            recipe=name,
            attack=attack,
            role="baseline" if number == 0 else "",
            seeds="10 of 12",
            metrics={key: Estimate(value=0.969, low=0.927, high=0.969, seeds=10, differs=True) for key in metrics},
            reduction=None if number == 0 else widest(differs=True),
            verdict="" if number == 0 else "reduces",
        )
        for attack in attacks
        for number, name in enumerate(names)
    ]
    caption = "Recipes. " + "A sentence of the caption that says what a number means. " * 6
    return PrintedTable(
        stem="t", caption=caption, metrics=metrics, leak="embedder_acc1", rows=tuple(rows), by_attack=by_attack
    )


TABLES = {
    "short": table(SHORT),
    "long": table(LONG),
    "lettered": table(LONG, attacks=ATTACKS),
    "by-attack": table((*SHORT, *LONG) * 2, attacks=ATTACKS, by_attack=True),
    "pages": table(LONG * 5),
}


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here")
@pytest.mark.parametrize("options", ["10pt", "11pt", "10pt,twocolumn"])
def test_every_table_fits_the_text(options, tmp_path):
    tables = [text for name, one in TABLES.items() for text in latex_tables(one, f"tab:{name}").values()]
    packages = r"\usepackage[T1]{fontenc}\usepackage{booktabs,tabularx}\hbadness=10000"
    body = "\n\\clearpage\n".join(tables)
    (tmp_path / "a.tex").write_text(
        rf"\documentclass[{options}]{{article}}{packages}\begin{{document}}{body}\end{{document}}", encoding="utf-8"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "a.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    log = (tmp_path / "a.log").read_text(errors="replace")
    assert set(re.findall(r"Overfull \\hbox \(.*|Float too large.*|multiply defined.*", log)) == set()
    assert int(re.search(r"\((\d+) pages", log)[1]) >= len(TABLES)


def test_every_row_and_every_metric_stands_once():
    for one in TABLES.values():
        parts = parts_of(one, lambda row: row.recipe)
        assert sorted(key for part in parts for key in part.metrics) == sorted(one.metrics)
        assert parts[0].metrics == ("test_acc", "embedder_acc1", *[m for m in parts[0].metrics[2:]])
        assert [part.compares for part in parts] == [True] + [False] * (len(parts) - 1)
        for part in parts:
            assert [row for page in part.pages for row in page] == list(one.rows)
            assert (
                len({len(head) for head in part.heads}) == 1
                and len(part.heads) == 2 + len(part.metrics) + part.compares
            )
    assert len(parts_of(TABLES["pages"], lambda row: row.recipe)[0].pages) > 1


def test_a_sweep_of_one_judge_is_one_table_and_a_short_one_one_page():
    one = table(SHORT, metrics=METRICS[:2])
    assert set(latex_tables(one, "t")) == {""}
    assert latex_tables(one, "t")[""].count(r"\begin{table*}") == 1
    assert width("0" * 10, 8.5) == pytest.approx(43, abs=4), "a digit of cmr8 is 4.25 points"
