"""Figures of the results hold what their tables hold, and every one that a page shows is there."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from tools.result_figures import FOLDER, PAGES, drawing, figures_of

PAGE = """
<!-- figure leaks: plain; -0.8 = strong; reduction | recognised, % | without accuracy -->
![words](figures/leaks.svg)

| attack | plain | −0.8, from 10 % on | reduction, points |
| --- | ---: | ---: | ---: |
| **[one](other.md)** | **50.5 % [40, 61]** | 20 % | +30.5 [−2, +63] |
| two | not run | 1,000 | |
| accuracy | 90 % | 91 % | |

| other | plain |
| --- | --- |
| row | 1 % |
"""


def titles(svg):
    tree = ElementTree.fromstring(svg)
    return [node.text for node in tree.iter("{http://www.w3.org/2000/svg}title")]


def page(name="−0.8"):
    return PAGE.replace("-0.8 =", f"{name} =")


def test_cells_become_points_with_their_intervals():
    (figure,) = figures_of(page())
    assert figure.columns == ("plain", "strong", "reduction") and figure.axis == "recognised, %"
    assert [(one.row, one.column, one.value, one.low, one.high) for one in figure.points] == [
        ("one", "plain", 50.5, 40, 61),
        ("one", "strong", 20, None, None),
        ("one", "reduction", 30.5, -2, 63),
        ("two", "strong", 1000, None, None),
    ]
    assert sorted(titles(drawing(figure))) == sorted(one.words for one in figure.points)


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"figure leaks: expected one column '−0.9' in the table"):
        list(figures_of(page("−0.9")))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_figures_in_the_repository_are_of_the_tables(path):
    """By what each mark says, since another version of the library that draws may write other bytes."""
    text = path.read_text(encoding="utf-8")
    figures = list(figures_of(text))
    shown = re.findall(r"\(figures/([\w-]+)\.svg\)", text)
    assert [figure.name for figure in figures] == shown and len(set(shown)) == len(shown) > 10
    for figure in figures:
        kept = (FOLDER / f"{figure.name}.svg").read_bytes()
        assert sorted(titles(kept)) == sorted(point.words for point in figure.points), "run tools.result_figures"
        assert len(figure.points) >= len(figure.rows) > 1
    assert {file.stem for file in FOLDER.glob("*.svg")} >= set(shown)
