"""The figures of the results: drawn from the table below them, of every table, as they lie in the repository."""

import re
from xml.etree import ElementTree

import pytest

from tools import result_figures
from tools.result_figures import FIGURES, FOLDER, drawn, estimate, table_below
from tools.svg_dots import WIDTH, Dots, Point, Row, drawing

PICTURE = re.compile(r'<img src="[\w/]*figures/(\w+)\.svg" width="\d+" alt="([^"]+)">')
SVG = "{http://www.w3.org/2000/svg}"


def pages(repository):
    """Those that answer a question with numbers."""
    found = sorted((repository / "docs" / "results").glob("*.md"))
    return [repository / "docs" / "results.md", *(page for page in found if page.name != "open.md")]


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_a_figure_in_the_repository_is_the_one_that_its_table_gives(name):
    assert (FOLDER / f"{name}.svg").read_text() == drawn(name), "run python -m tools.result_figures"


def test_every_table_of_numbers_has_its_figure_above_it_and_every_figure_words_for_who_cannot_see(repository):
    shown = {}
    for page in pages(repository):
        text = page.read_text()
        tables = [found for found in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE) if "---:" in found]
        pictures = PICTURE.findall(text)
        assert len(pictures) == len(tables) or page.name == "results.md", page.name
        shown |= {name: page.name for name, alt in pictures if len(alt) > 30}
    assert shown == {name: figure.page.rpartition("/")[2] for name, figure in FIGURES.items()}
    assert sorted(FIGURES) == sorted(file.stem for file in FOLDER.iterdir())


def test_a_page_begins_with_question_answer_figure_and_table(repository):
    for page in pages(repository)[1:]:
        lines = [line for line in page.read_text().splitlines() if line]
        assert (
            lines[0].startswith("# ") and lines[1].startswith("**Question.** ") and lines[2].startswith("**Answer.**")
        )
        text = page.read_text()
        assert 0 < text.index("<img ") < text.index("\n| ---")


def test_a_cell_is_read_with_its_minus_its_interval_and_thousands():
    assert estimate("**+19.3 [+6, +33]**") == Point(middle=19.3, low=6, high=33)
    assert estimate("−0.5 [−15, +13]") == Point(middle=-0.5, low=-15, high=13)
    assert estimate("43.8 % [23, 66] (100)") == Point(middle=43.8, low=23, high=66)
    assert estimate("60.4\N{NO-BREAK SPACE}% [53,\N{NO-BREAK SPACE}68]") == Point(middle=60.4, low=53, high=68)
    assert estimate("1,204") == Point(middle=1204.0)
    assert estimate("0.0 % (49)") == Point(middle=0.0)
    assert estimate("") is None and estimate("baseline") is None


def test_no_interval_of_a_drawn_column_is_lost(repository):
    read = 0
    for name, figure in FIGURES.items():
        table = table_below((repository / "docs" / figure.page).read_text(), name)
        for column in (one for panel in figure.panels if not panel.parts for one in panel.columns):
            for cells in table.rows:
                text = cells[table.column(column)] if table.column(column) < len(cells) else ""
                if "[" in text:
                    point = estimate(text)
                    assert point is not None and point.low is not None and point.low <= point.middle <= point.high, text
                    read += 1
    assert read > 150


def test_another_number_in_the_table_is_another_figure(repository, tmp_path, monkeypatch):
    page = repository / "docs" / FIGURES["quickstart"].page
    monkeypatch.setattr(result_figures, "DOCS", tmp_path)
    (tmp_path / "results").mkdir()
    copy = tmp_path / FIGURES["quickstart"].page
    copy.write_text(page.read_text())
    assert drawn("quickstart") == (FOLDER / "quickstart.svg").read_text()
    copy.write_text(page.read_text().replace("| 65.9 % [54, 76]", "| 66.0 % [54, 76]"))
    assert drawn("quickstart") != (FOLDER / "quickstart.svg").read_text()


def test_a_page_without_the_picture_or_without_a_table_is_refused():
    with pytest.raises(ValueError, match="figure f: expected a picture and a table below it"):
        table_below("figures/f.svg\nno table\n", "f")
    with pytest.raises(ValueError, match="figure f"):
        table_below("| a |\n| --- |\n| 1 |\n", "f")


def test_dots_and_lines_stand_where_the_axis_has_their_numbers():
    """On an axis from 0 to 100 that reaches from 16 to 364: 50 is 190, 25 is 103, 75 is 277."""
    rows = [Row(label="a & b", points=[Point(middle=50, low=25, high=75), None])]
    root = ElementTree.fromstring(drawing([Dots(axis="x, %", names=("p", "q"), rows=rows, low=0, high=100)]))
    paths = [path.attrib for path in root.iter(f"{SVG}path")]
    [line] = [path["d"] for path in paths if "stroke-width" in path]
    assert line.startswith("M103.0 ") and line.endswith("H277.0")
    moved = [path["transform"] for path in paths if "transform" in path]
    assert len(moved) == 3 and moved[-1].startswith("translate(190.0 ")  # two of the legend, one dot
    words = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert {"x, %", "a & b", "p", "q", "0", "20", "100"} <= {*words}
    assert any("95 % interval" in one for one in words)


def test_without_intervals_none_is_explained_and_ends_of_the_axis_follow_the_numbers():
    rows = [Row(label="a", points=[Point(middle=-17)]), Row(label="b", points=[Point(middle=41)])]
    root = ElementTree.fromstring(drawing([Dots(axis="points", names=("p",), rows=rows)]))
    words = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert words == ["points", "−20", "0", "20", "40", "60", "a", "b"]
    assert [path.attrib["class"] for path in root.iter(f"{SVG}path")].count("zero") == 1


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_no_word_of_a_figure_is_cut_off_on_a_phone(name):
    """Letters of 12 units are about 6.2 wide on average."""
    root = ElementTree.parse(FOLDER / f"{name}.svg").getroot()
    assert root.attrib["viewBox"].startswith(f"0 0 {WIDTH} ")
    for text in root.iter(f"{SVG}text"):
        words, x = "".join(text.itertext()), float(text.attrib["x"])
        assert text.attrib["text-anchor"] == "middle" or x + 6.2 * len(words) <= WIDTH + 6, words
