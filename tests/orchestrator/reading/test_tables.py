"""The table in a terminal and in Markdown."""

import pandas as pd

from orchestrator.reading.findings.tables import markdown_table, text_table
from orchestrator.reading.numbers.model import Axis, ReportData
from orchestrator.reading.numbers.summary import summarise


def test_the_terminal_table_is_plain_and_aligned(make_data):
    table = text_table(summarise(make_data()))
    lines = table.splitlines()
    assert max(map(len, lines)) <= 125
    head, rows = lines[0], lines[2:-2]
    assert len(rows) == 8
    assert head.split("  ")[0] == "" and "independent judge" in head
    start = head.index("vs baseline")
    assert all(len(row) > start for row in rows)
    marked = [row for row in rows if row.startswith("*")]
    assert len(marked) == 1 and "-0.2" in marked[0] and "Poincaré" in marked[0]
    assert sum(row.startswith("=") for row in rows) == 2
    assert "\u2212" not in table and "\u00a0" not in table


def test_the_markdown_table_marks_the_least_leak_and_escapes_names():
    leaks = {"a|b *x* <i>": (0.1, 0.11, 0.12), "none": (0.5, 0.512, 0.524)}
    rows = [{"trial": f"{d}{s}", "seed": s, "status": "done", "failure": None, "defense": d, "test_acc": 0.9,
             "embedder_acc1": leak} for d, found in leaks.items() for s, leak in enumerate(found)]  # fmt: skip
    data = ReportData(title="t", results=pd.DataFrame(rows), axes=(Axis(key="defense"),), baseline={"defense": "none"})
    lines = markdown_table(summarise(data)).splitlines()
    assert lines[0].startswith("| defense | n | test accuracy | independent judge |")
    assert set(lines[1]) <= set("|-: ")
    assert r"**a\|b \*x\* &lt;i&gt;**" in lines[2] and "**lower**" in lines[2]
    assert "none (baseline)" in lines[3]
    assert all(line.replace(r"\|", "").count("|") == lines[0].count("|") for line in lines)


def test_chosen_metrics_and_unmeasured_sweeps(make_data):
    summary = summarise(make_data())
    assert "FID" not in text_table(summary)
    assert "FID" in text_table(summary, metrics=["test_acc", "fid"])
    nothing = summarise(make_data(results=make_data().results.assign(status="missing")))
    assert "0 of 3" in text_table(nothing) and "verdict" not in text_table(nothing)


def test_one_seed_has_no_verdict_and_no_mark(make_data):
    data = make_data()
    one = data.results[data.results["seed"] == 1]
    for table in (text_table(summarise(make_data(results=one))), markdown_table(summarise(make_data(results=one)))):
        assert "cannot tell" in table and "lower" not in table and "higher" not in table
        assert "**" not in table and not any(line.startswith("*") for line in table.splitlines()[:-1])


def test_a_baseline_that_leaks_least_has_both_marks():
    rows = [{"trial": f"{a}{s}", "seed": s, "status": "done", "failure": None, "alpha": a, "embedder_acc1": 0.2 + a}
            for a in (0.0, 0.1) for s in (0, 1)]  # fmt: skip
    data = ReportData(title="t", results=pd.DataFrame(rows), axes=(Axis(key="alpha"),), baseline={"alpha": 0})
    assert text_table(summarise(data)).splitlines()[2].startswith("*=  0")
    assert "| **0** (baseline) |" in markdown_table(summarise(data))
