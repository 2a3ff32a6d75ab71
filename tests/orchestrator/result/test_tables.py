"""The table in a terminal."""

from made_rows import ALPHA, made_data

from smoothsweep.orchestrator.page.tables import terminal_text
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of


def text_table(data):
    """The first table in a terminal."""
    return terminal_text(result_of(data, summarise(data))).split("\n\n")[0]


def test_the_terminal_table_is_plain_and_aligned(make_data):
    table = text_table(make_data())
    lines = table.splitlines()
    assert max(map(len, lines)) <= 125
    head, rows = lines[0], lines[2:-4]
    assert len(rows) == 8 and lines[-2].startswith("Incomplete") and "alpha 0.1" in lines[-2]
    assert lines[-1].startswith("Seed 0 is left out")  # alpha -0.2, which is in front, lacks it
    assert head.split("  ")[0] == "" and "independent judge" in head
    assert "verdict" not in head, "with several attacks the table of recipes has the word"
    marked = [row for row in rows if row.startswith("*")]
    assert len(marked) == 1 and "-0.2" in marked[0] and "Poincaré" in marked[0]
    assert sum(row.startswith("=") for row in rows) == 2
    assert "\u2212" not in table and "\u00a0" not in table and "FID" not in table
    nothing = text_table(make_data(results=make_data().results.assign(status="missing")))
    assert "0 of 3" in nothing and "verdict" not in nothing


def test_one_seed_has_no_verdict_and_no_mark(make_data):
    data = make_data()
    one = data.results[data.results["seed"] == 1]
    one = one[one["attack_loss"] == "poincare"]
    table = text_table(make_data(results=one))
    assert "inconclusive" in table and "at least 2 seeds" in table
    assert "reduces" not in table and "leaks more" not in table
    assert not any(line.startswith("*") for line in table.splitlines() if "lowest measured" not in line)


def test_a_baseline_that_leaks_least_has_both_marks():
    rows = [{"seed": seed, "alpha": alpha, "embedder_acc1": 0.2 + alpha} for alpha in (0.0, 0.1) for seed in (0, 1)]
    data = made_data(rows, ALPHA, baseline={"alpha": 0})
    assert text_table(data).splitlines()[2].startswith("*=  alpha 0")
