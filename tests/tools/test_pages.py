"""Pages that are written by tools: keys, columns and results stand on them as the program has them."""

import re
from types import SimpleNamespace
from typing import Annotated, Literal

import numpy as np
import pandas as pd
import pytest
from pydantic import BaseModel, Field

from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.columns import TIME_COLUMNS, TOY_COLUMNS
from smoothsweep.core.metrics.leak_comparisons import compare_leaks
from smoothsweep.core.same_code import TREE
from tools import reference, results


@pytest.mark.parametrize("file", reference.TABLES, ids=lambda file: file.stem)
def test_a_reference_page_says_what_the_program_says(file):
    text = reference.page(file)
    assert file.read_text(encoding="utf-8") == text, "run `python -m tools.reference`"
    anchors = [reference.anchor(heading)[1:] for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    anchors += re.findall(r'<a id="([^"]+)">', text)
    assert len(anchors) == len(set(anchors)) and set(re.findall(r"\]\(#([^)]*)\)", text)) <= set(anchors)


def test_every_key_has_a_meaning_and_its_whole_name_on_the_page():
    keys, text = reference.Page().keys.values(), (TREE / "docs" / "sweep-keys.md").read_text(encoding="utf-8")
    places = {place for key in keys for place in key.places}
    assert len(keys) > 300 and [list(key.places) for key in keys if not key.meaning.strip()] == []
    assert {*re.findall(r"`([^`]+)`", "".join(line.split(" | ")[0] for line in text.splitlines()))} >= places


def test_the_page_of_columns_names_those_that_are_no_metrics():
    text = (TREE / "docs" / "columns.md").read_text(encoding="utf-8")
    assert [one for one in (*TOY_COLUMNS, *TIME_COLUMNS) if f"`{one}`" not in text] == []


class Nested(BaseModel):
    """What stands inside."""

    depth: int = 1  # in layers


class Made(BaseModel):
    """A made-up model. low, high: bounds in pixels; null: none. word: one of two words.

    Not of word: this paragraph. later: seconds.
    """

    low: Annotated[float, Field(ge=0, lt=1)] = 0.5
    high: int | None = None
    word: Literal["this", "that"]
    later: float = 123.456789
    inside: Nested = Nested()
    pairs: tuple[tuple[int, float], ...] = ()
    unsaid: bool = False


def test_rows_of_a_model():
    rows = {name: (key.kind, key.default, key.meaning) for name, key in reference.keys_of(Made)}
    assert rows == {
        "low": ("number in [0, 1)", "`0.5`", "Bounds in pixels; null: none"),
        "high": ("integer or null", "null", "Bounds in pixels; null: none"),
        "word": ("`this`, `that`", "*required*", "One of two words"),
        "later": ("number", "`123.5`", "Seconds"),
        "inside": ("keys", "its defaults", "What stands inside"),
        "pairs": ("list of lists of integer, number", "`[]`", ""),
        "unsaid": ("true or false", "`false`", ""),
    }


PAGES = sorted({sheet["page"] for sheet in results.SHOWN["tables"].values()})
MARKED = re.compile(r"<!-- ([\w-]+) table: begin -->\n(.*?)<!-- \1 table: end -->", re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_tables_of_a_page_are_those_of_the_files_of_numbers(page, repository):
    text = (repository / page).read_text()
    assert results.page(page, text) == text, "run `python -m tools.results`"
    left = re.findall(r"^\|.*\|$", MARKED.sub("", text), re.MULTILINE)
    typed = [row for row in left if re.search(r"\|\W*\d[\d.]* ?(%|points)", row)]
    assert typed == [], "numbers of a table come from a file of numbers"


@pytest.mark.parametrize("name", results.SHOWN["figures"])
def test_a_figure_shows_every_number_of_its_table(name, repository, tmp_path):
    page = results.SHOWN["tables"][results.SHOWN["figures"][name]["table"]]["page"]
    assert f"figures/{name}.svg" in (repository / page).read_text()
    points = [one for _, _, drawn in results.series(name) for column in drawn for one in column if one]
    assert points and all(low <= value <= high for value, low, high in points)
    results.draw(name, tmp_path / "drawn.svg")
    marks = [
        len(re.findall(r"<use ", path.read_text()))
        for path in (tmp_path / "drawn.svg", results.FIGURES / f"{name}.svg")
    ]
    assert marks[0] == marks[1] >= len(points), "run `python -m tools.results`"


def test_figures_and_numbers_are_all_used(repository):
    assert {file.stem for file in results.FIGURES.glob("*.svg")} == set(results.SHOWN["figures"])
    assert {file.stem for file in results.FOLDER.glob("*.csv")} == {
        one["numbers"] for one in results.SHOWN["tables"].values()
    }


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("**+19.3 [+6, +33]**", (19.3, 6, 33)),
        ("−0.5 [−15, +13]", (-0.5, -15, 13)),
        ("60.4\N{NO-BREAK SPACE}% [53,\N{NO-BREAK SPACE}68]", (60.4, 53, 68)),
        ("1,204", (1204, 1204, 1204)),
        ("baseline", None),
    ],
)
def test_a_cell_is_read_with_its_interval(cell, expected):
    assert results.estimate(cell) == expected


VERDICTS = [
    "plain,,Test accuracy,3,95.8,%,92,98,,,,",
    "plain,,Independent judge,3,50.0,%,40,60,,,,",
    "other,,Test accuracy,3,95.0,%,91,98,,,,",
    "other,,Independent judge,3,30.0,%,20,40,,,,",
    "other,,verdict,,+20.0,,+3,+37,,,,reduces",
]


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.setitem(results.SHOWN["tables"], "made", {"numbers": "made", "page": "p.md", "kind": "verdicts"})

    def write(rows):
        (tmp_path / "made.csv").write_text("\n".join([",".join(results.COLUMNS), *rows]) + "\n")
        return tmp_path

    return write


def test_a_recipe_is_shown_with_interval_and_word(made):
    page = results.page("p.md", "a\n<!-- made table: begin -->\n| old |\n<!-- made table: end -->\nb\n", made(VERDICTS))
    assert page.startswith("a\n<!-- made table: begin -->\n| recipe |") and page.endswith("end -->\nb\n")
    assert "| other | 95.0 % [91, 98] | 30.0 % [20, 40] | +20.0 [+3, +37] | **reduces** |\n" in page


@pytest.mark.parametrize(
    "rows",
    [
        VERDICTS[:-1],  # a second recipe without a verdict
        [*VERDICTS[:-1], "other,,verdict,,+20.0,,,,,,,reduces"],  # no interval
        [*VERDICTS[:-1], "other,,verdict,,+20.0,,+3,+37,,,,probably"],  # no word
        [*VERDICTS[:-2], "other,,Independent judge,3,30.0,%,,,,,,", VERDICTS[-1]],  # a leak without an interval
    ],
)
def test_what_lacks_interval_or_word_is_not_shown(rows, made):
    with pytest.raises(ValueError, match="expected"):
        results.table("made", made(rows))


def test_a_page_without_the_marks_is_refused(made):
    with pytest.raises(InputError, match="marks of the table made"):
        results.page("p.md", "nothing", made(VERDICTS))


def test_numbers_are_read_from_a_result():
    row = {"recipe": "plain", "attack": "ppa", "control": False, "embedder_acc1_n": 3, "reduction_low": None}
    row |= {"embedder_acc1": 0.5, "embedder_acc1_low": 0.4, "embedder_acc1_high": 0.6, "verdict": ""}
    row |= {"hidden": 0.1, "hidden_low": -0.004, "hidden_high": 0.204}
    gone = {"reduction": 0.2, "reduction_low": 0.03, "reduction_high": 0.37, "recipe": "other", "verdict": "reduces"}
    estimates = {"margin": 0.7, "inversion": 0.5, "label_views": 0.55, "less_by_scores": 0.1, "less_by_labels": 0.01}
    ends = {
        f"{name}{end}": estimates[name] + by for name in estimates for end, by in (("_low", -0.05), ("_high", 0.05))
    }
    rows = pd.DataFrame([row, row | gone])
    leaks = pd.DataFrame([{"recipe": "r", "seeds": 5, "word": "both", **estimates, **ends}])
    result = SimpleNamespace(facts={"key_metrics": ["embedder_acc1"]}, attacks=rows, recipes=rows, membership=leaks)
    found = list(results.numbers_of(result))
    assert [(one["recipe"], one["measure"], one["value"], one["low"]) for one in found] == [
        ("plain", "Independent judge", "50.0", "40"),
        ("other", "Independent judge", "50.0", "40"),
        ("other", "verdict", "+20.0", "+3"),
    ]
    assert "difference" not in found[0] and (found[1]["difference"], found[2]["high"]) == ("+20.0", "+37")
    assert results.told(pd.Series(found[2]), hidden=True) == {
        "reduction, points": "+20.0 [+3, +37]",
        "hidden, points": "+10.0 [−0.4, +20]",
        "verdict": "**reduces**",
    }
    told = list(results.leaks_of(result))
    assert [one["value"] for one in told] == ["70.0", "55.0", "50.0", "+10.0"]
    assert told[-1] == {"recipe": "r", "measure": "verdict", "word": "reduces", **told[-1]}


def test_reductions_intervals_and_words_follow_from_the_cells():
    """The rule on recorded matches of every class, beside the numbers that a page shows."""
    frame = pd.read_csv(results.FOLDER / "cells" / "factors_small.csv", keep_default_na=False)
    leaks = {
        recipe: {
            attack: np.array([row.split() for row in rows["fractions"]], dtype=float)
            for attack, rows in mine.groupby("attack", sort=False)
        }
        for recipe, mine in frame.groupby("recipe", sort=False)
    }
    baseline = frame.loc[frame["baseline"] == 1, "recipe"].iloc[0]
    published = list(frame.loc[frame["published"] == 1, "attack"].unique())
    found = compare_leaks(leaks, baseline=baseline, published=published, span=1.0, every_pair=False).verdicts
    told = results.read("factors_small").query("measure == 'verdict'").set_index("recipe")
    assert len(found) == len(told) > 1
    for recipe, one in found.items():
        row = told.loc[recipe.replace("−", "-")]
        assert one.word == row["word"]
        for value, text in [(one.reduction, row["value"]), (one.low, row["low"]), (one.high, row["high"])]:
            digits = len(text.partition(".")[2])
            assert abs(100 * value - float(text)) <= 0.5 * 10**-digits + 1e-9, (recipe, value, text)
