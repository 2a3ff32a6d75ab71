"""The tables of results: written from files of numbers, each with its intervals, and those from the cells anew."""

import re
import shlex
from dataclasses import replace

import pytest

from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import load_sweep
from tools import result_cells, result_numbers
from tools.result_numbers import FOLDER, VERDICT, Shown, read, shown
from tools.result_tables import page_of, placed, written
from tools.result_tables_list import TABLES, Sheet

ROWS = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
MARKED = re.compile(r"<!-- ([\w-]+) table: begin -->\n(.*?)<!-- \1 table: end -->", re.DOTALL)
RULE = re.compile(r"^\|(?: :?-+:? \|)+$", re.MULTILINE)
BARE = re.compile(r"^\W*\d[\d.,]*\s*(?:%|points|of\b)?")
CELLS = sorted(file.stem for file in (FOLDER / "cells").glob("*.csv"))


def pages(repository):
    return [
        repository / "README.md",
        repository / "docs" / "results.md",
        repository / "docs" / "defenses.md",
        *sorted((repository / "docs" / "results").glob("*.md")),
    ]


def bare_numbers(text):
    """Cells of tables outside of the marks that begin with a number: typed by hand, so not to be traced."""
    left = MARKED.sub("", text)
    rows = [row for table in ROWS.findall(left) for row in table.splitlines() if not RULE.match(row)]
    return [cell.strip() for row in rows for cell in row.strip("|").split("|") if BARE.match(cell.strip())]


@pytest.mark.parametrize("page", sorted({page for sheet in TABLES.values() for page in sheet.pages}))
def test_the_tables_of_a_page_are_those_of_the_files_of_numbers(page, repository):
    text = (repository / page).read_text()
    assert page_of(page, text) == text, "run python -m tools.result_tables"


def test_no_page_of_results_has_a_number_in_a_table_that_comes_from_no_file(repository):
    marked = [(page.name, name) for page in pages(repository) for name, _ in MARKED.findall(page.read_text())]
    listed = [(page.rpartition("/")[2], name) for name, sheet in TABLES.items() for page in sheet.pages]
    assert sorted(marked) == sorted(listed) and len(marked) > 8
    assert not {page.name: found for page in pages(repository) if (found := bare_numbers(page.read_text()))}


def test_a_number_typed_into_a_table_is_found():
    typed = "| recipe | leak |\n| --- | ---: |\n| 0.1 | 66.1 % |\n"
    assert bare_numbers(typed) == ["0.1", "66.1 %"]
    assert bare_numbers(f"<!-- one table: begin -->\n{typed}<!-- one table: end -->") == []
    assert bare_numbers("| question | answer |\n| --- | --- |\n| how | by 19 points |\n") == []


def test_every_recipe_of_a_table_beside_its_baseline_has_an_interval_and_a_word(repository):
    looked = 0
    for page in pages(repository):
        for name, table in MARKED.findall(page.read_text()):
            titles, _, *rows = ([cell.strip(" *") for cell in row.split("|")[1:-1]] for row in table.splitlines())
            assert TABLES[name].kind in ("attacks", "measure", "measures") or "verdict" in titles, name
            for row in rows:
                by_title = dict(zip(titles, row, strict=True))
                numbers = {
                    title: cell for title, cell in by_title.items() if BARE.match(cell) and title not in UNITLESS
                }
                assert all(re.search(r"\[.+, .+\]|\(no interval\)$", cell) for cell in numbers.values()), (name, row)
                if by_title.get("verdict", "baseline") != "baseline":
                    told = "less by scores, points" if TABLES[name].kind == "leaks" else "reduction, points"
                    assert by_title["verdict"] in result_numbers.WORDS and "[" in by_title[told]
                looked += len(numbers)
    assert looked > 200


UNITLESS = ("recipe", "attack", "n")


def test_pages_of_results_compare_no_means(repository):
    """What has no interval is told as an open question, not as a mean."""
    for page in pages(repository):
        found = re.findall(r"by the means|no verdict was computed|lowest mean|highest mean", page.read_text(), re.I)
        assert not found, page.name


def test_every_file_of_numbers_is_shown_and_named_where_it_comes_from(repository):
    files = {file.stem for file in FOLDER.glob("*.csv")}
    text = (FOLDER / "README.md").read_text()
    assert files == {sheet.numbers for sheet in TABLES.values()}
    assert {name: f"| `{name}` |" in text for name in files} == dict.fromkeys(files, True)
    assert sorted(re.findall(r"^\| `(\w+)` \|.*\| yes \|$", text, re.MULTILINE)) == CELLS


@pytest.mark.parametrize("name", ["quickstart", "audit_small", "attacks_small", "defenses_small"])
def test_a_file_of_numbers_is_what_the_report_in_the_gallery_shows(name, repository):
    report = (repository / "docs" / "gallery" / f"{name}.html").read_text()
    assert result_numbers.written(shown(report)) == (FOLDER / f"{name}.csv").read_text()


@pytest.mark.parametrize("name", CELLS)
def test_reductions_intervals_and_words_follow_from_the_cells(name):
    found = result_cells.read(name).compared().verdicts
    told = {one.recipe.replace("-", "−"): one for one in read(name) if one.measure == VERDICT}
    assert {recipe.replace("-", "−") for recipe in found} == set(told) and len(found) > 1
    for recipe, one in found.items():
        row = told[recipe.replace("-", "−")]
        assert one.word == row.word
        for value, text in [(one.reduction, row.value), (one.low, row.low), (one.high, row.high)]:
            digits = len(text.partition(".")[2])
            assert abs(100 * value - float(text)) <= 0.5 * 10**-digits + 1e-9, (recipe, value, text)


def test_every_command_of_the_open_questions_is_one_that_runs(repository):
    text = (repository / "docs" / "results" / "open.md").read_text()
    blocks = "".join(re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)).replace("\\\n", " ")
    typed = [*re.split(r"\n(?=smoothsweep )", blocks)[1:], *re.findall(r"`(smoothsweep run [^`]+)`", text)]
    for command in typed:
        program, verb, file, *rest = shlex.split(command, comments=True)
        assert (program, verb) == ("smoothsweep", "run")
        overrides = [rest[place + 1] for place, word in enumerate(rest) if word == "--set"]
        assert expand(load_sweep(repository / file, overrides))
    assert len(typed) > 8


REPORT = (
    '<table class="results"><thead><tr><th>Recipe</th><th>n</th><th>Test accuracy<br>more is better</th>'
    "<th>Independent judge</th><th>Reduction, points<br>under this attack alone</th></tr></thead><tbody>"
    '<tr class="group"><th>selection alone <span>control: no attack</span></th></tr>'
    "<tr><th>plain<span>baseline</span></th><td>3<span>seed 1 2 3</span></td><td>95.8 % [92, 98]</td>"
    "<td>50.0 % [40, 60]<svg><text>7</text></svg></td><td>reference</td></tr>"
    "<tr><th>alpha −0.2<span>test accuracy below 96.0 %</span></th><td>3</td><td>95.0 % [91, 98]</td>"
    "<td>30.0 % [20, 40]</td><td>+20.0 [+3, +37]</td></tr></tbody></table>"
    "<table><tr><th>Recipe</th><th>Verdict</th><th>Reduction, points</th><th>Hidden, points</th></tr>"
    "<tr><th>alpha −0.2</th><td>reduces</td><td>+20.0 [+3, +37]</td><td>−1.0 [−9, +7]</td></tr></table>"
    "<table><tr><th>Recipe</th><th>Leak</th></tr><tr><th>plain</th><td>50.0 %</td></tr></table>"
)


def test_numbers_are_read_from_a_report_with_their_intervals_and_comparisons():
    told, *found = sorted(shown(REPORT), key=lambda one: one.measure != VERDICT)
    assert (told.recipe, told.value, told.low, told.high, told.word) == ("alpha -0.2", "+20.0", "+3", "+37", "reduces")
    assert (told.difference, told.difference_low, told.difference_high) == ("-1.0", "-9", "+7")
    assert [(one.recipe, one.measure, one.value) for one in found] == [
        ("plain", "Test accuracy", "95.8"),
        ("plain", "Independent judge", "50.0"),
        ("alpha -0.2", "Test accuracy", "95.0"),
        ("alpha -0.2", "Independent judge", "30.0"),
    ]
    assert {one.attack for one in found} == {"selection alone (control)"}
    assert (found[3].low, found[3].high, found[3].difference, found[3].difference_low) == ("20", "40", "+20.0", "+3")
    with pytest.raises(ValueError, match="expected a report of smoothsweep"):
        shown("<p>nothing</p>")


@pytest.mark.parametrize("change", [{"low": ""}, {"word": "probably"}, {"word": ""}])
def test_a_verdict_without_interval_or_word_cannot_be_shown(change, tmp_path):
    rows = [replace(one, **change) if one.measure == VERDICT else one for one in shown(REPORT)]
    (tmp_path / "made.csv").write_text(result_numbers.written(rows))
    with pytest.raises(ValueError, match=r"made\.csv: expected"):
        read("made", tmp_path)


def test_a_second_recipe_without_a_verdict_cannot_be_shown():
    sheet = Sheet(numbers="made", pages=(), kind="verdicts")
    rows = shown(REPORT.replace("selection alone <span>control: no attack</span>", "an attack"))
    assert "| alpha −0.2 | 95.0 % [91, 98] | 30.0 % [20, 40] | +20.0 [+3, +37] | **reduces** |" in written(sheet, rows)
    with pytest.raises(ValueError, match="expected one recipe without a verdict"):
        written(sheet, [one for one in rows if one.measure != VERDICT])
    more = Shown(recipe="other", measure="Test accuracy", value="1", low="0", high="2")
    with pytest.raises(ValueError, match="expected one recipe without a verdict"):
        written(sheet, [*rows, more])


def test_a_table_takes_the_place_between_its_marks_alone():
    page = "a\n<!-- x table: begin -->\n| old |\n<!-- x table: end -->\nb\n"
    assert placed(page, "x", "| new |\n") == page.replace("old", "new")
    with pytest.raises(ValueError, match="marks of the table y"):
        placed(page, "y", "| new |\n")


ONE_ATTACK = (
    "<table><tr><th>Recipe</th><th>Test accuracy</th><th>Leak<br>judge</th><th>Reduction, points</th></tr>"
    "<tr><th>alpha 0<span>baseline</span></th><td>95.0 % [91, 98]</td><td>50.0 % [40, 60]</td><td>reference</td></tr>"
    "<tr><th>alpha −0.8<span>least leak</span></th><td>94.0 % [90, 97]</td><td>20.0 % [12, 30]</td>"
    "<td>reduces<br>+30.0 [+20, +40]</td></tr></table>"
    "<table><tr><th>Recipe</th><th>n</th><th>Test accuracy</th><th>Independent judge</th></tr>"
    "<tr><th>alpha 0<span>baseline</span></th><td>5<span>seed 1</span></td><td>95.0 % [91, 98]</td>"
    "<td>50.0 % [40, 60]</td></tr>"
    "<tr><th>alpha −0.8</th><td>5</td><td>94.0 % [90, 97]</td><td>20.0 % [12, 30]</td></tr></table>"
)


def test_a_sweep_of_one_attack_has_its_verdicts_on_the_first_screen():
    rows = shown(ONE_ATTACK)
    told = [one for one in rows if one.measure == VERDICT]
    assert [(one.recipe, one.value, one.low, one.high, one.word) for one in told] == [
        ("alpha -0.8", "+30.0", "+20", "+40", "reduces")
    ]
    assert {(one.recipe, one.measure, one.n) for one in rows if one.measure != VERDICT} == {
        (recipe, measure, "5")
        for recipe in ("alpha 0", "alpha -0.8")
        for measure in ("Test accuracy", "Independent judge")
    }
    table = written(Sheet(numbers="made", pages=(), kind="verdicts"), rows)
    assert "| alpha −0.8 | 94.0 % [90, 97] | 20.0 % [12, 30] | +30.0 [+20, +40] | **reduces** |" in table
    with pytest.raises(ValueError, match="expected 2 recipes without a verdict"):
        written(Sheet(numbers="made", pages=(), kind="verdicts", baselines=2), rows)


def test_a_sweep_that_compares_settings_is_read_by_its_settings_alone():
    page = ONE_ATTACK.replace("<th>Recipe</th><th>Test", "<th>Setting</th><th>Test").replace("reduces", "finds less")
    rows = shown(page)
    assert [(one.recipe, one.measure) for one in rows] == [
        *((name, measure) for name in ("alpha 0", "alpha -0.8") for measure in ("Test accuracy", "Independent judge")),
        ("alpha -0.8", VERDICT),
    ]
    table = written(Sheet(numbers="made", pages=(), kind="verdicts", rows="setting"), rows)
    assert table.startswith("| setting |") and "**finds less**" in table


def test_measures_stand_beside_one_another_and_the_compared_ones_beside_their_difference():
    one = {"n": "5", "unit": "%", "low": "1", "high": "3"}
    rows = [
        Shown(recipe="plain", measure="Success", value="2.0", **one),
        Shown(recipe="other", measure="Success", value="100.0", n="5", unit="%"),
        Shown(recipe="plain", measure="Accuracy", value="2.0", **one),
        Shown(
            recipe="other",
            measure="Accuracy",
            value="1.0",
            **one,
            difference="-1.0",
            difference_low="-2",
            difference_high="0",
        ),
    ]
    sheet = Sheet(
        numbers="made",
        pages=(),
        kind="measures",
        measures={"Accuracy": "accuracy", "Success": "success"},
        compared=("Accuracy",),
    )
    head, _, plain, other = written(sheet, rows).splitlines()
    assert head == "| recipe | n | accuracy | difference | success |"
    assert plain == "| plain | 5 | 2.0 % [1, 3] |  | 2.0 % [1, 3] |"
    assert other == "| other | 5 | 1.0 % [1, 3] | −1.0 [−2, 0] | 100.0 % (no interval) |"
    with pytest.raises(ValueError, match="expected one recipe without a verdict"):
        written(sheet, rows[1:2] + rows[3:])
