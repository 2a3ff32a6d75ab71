"""The figures and pictures of a report, as they are drawn."""

import base64
import io
import re
import xml.etree.ElementTree as ElementTree
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from smoothsweep.orchestrator.page.figures import charts
from smoothsweep.orchestrator.page.figures.accuracy_leak import plot
from smoothsweep.orchestrator.page.figures.canvas import Canvas, Labels
from smoothsweep.orchestrator.page.figures.of_sweep import Figures
from smoothsweep.orchestrator.page.pictures import comparison_sheet, data_uri
from smoothsweep.orchestrator.page.render import faces, part
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.data import ContactSheet, Importance, SheetRow, Tile
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from tests.made_searches import view
from tests.orchestrator.result.test_standing import queries  # noqa: F401
from tests.study_answers import ALPHAS, PEOPLE, REAL_RED, made_sweep, red_of

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ("alpha\u00a0\u22120.2", "alpha\u00a00", "alpha\u00a00.1")


def drawn(canvas):
    """As its reader gets it, with a colour for every text: what has none is black on a dark screen, too."""
    tree = ElementTree.fromstring(canvas.file("a.svg"))
    assert all("fill" in text.get("style") for text in tree.iter(f"{SVG}text"))
    return tree


def titles(canvas):
    return [title.text for title in drawn(canvas).iter(f"{SVG}title")]


def figures_of(data, result=None):
    return Figures(data=data, result=result or result_of(data, summarise(data)))


@pytest.mark.parametrize("name", ["a.pdf", "a.svg", "a.png", "a.b.pdf"])
def test_a_file_is_what_its_name_says_and_the_same_bytes_again(name):
    def content():
        canvas = Canvas(200, 100, "A \x1btitle")
        canvas.axes((20, 10, 190, 90), x="accuracy \N{MINUS SIGN}0.8").plot([0, 1], [0, 1])
        return canvas.file(name)

    made = content()
    assert made.startswith({"pdf": b"%PDF-", "svg": b"<?xml", "png": b"\x89PNG"}[name[-3:]]) and made == content()
    if name == "a.pdf":
        assert b"CreationDate" not in made and b"Producer" not in made and b"Creator" not in made
        start = made.index(b"stream\n") + 7
        assert b" Tf" in zlib.decompress(made[start : made.index(b"endstream", start)]), "text is text"


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


PANEL = (48.0, 30.0, 688.0, 386.0)
PIXELS = st.tuples(st.floats(PANEL[0], PANEL[2]), st.floats(PANEL[1], PANEL[3]))


@settings(max_examples=25, deadline=None)
@given(
    points=st.lists(st.tuples(PIXELS, st.floats(20, 290), st.integers(1, 2)), min_size=11, max_size=16),
    close=st.sampled_from([1.0, 0.1, 0.0]),
)
def test_no_name_lies_on_another_name_or_on_a_point(points, close):
    """close: how far apart the points are, down to all at one place."""

    middle = (300.0, 180.0)
    spots = [tuple(m + close * (at - m) for at, m in zip(spot, middle, strict=True)) for spot, _, _ in points]
    labels = Labels()
    for x, y in spots:
        labels.mark(x, y, 8)
        labels.boxes.append((PANEL[0], y - 1, PANEL[2], y + 1))
    placed = [
        labels.place(x, y, width, 14 * lines, PANEL) for (x, y), (_, width, lines) in zip(spots, points, strict=True)
    ]
    assert sum(spot is not None for spot in placed) == len(labels.names) >= 9, "there is room for most"
    for number, box in enumerate(labels.names):
        assert PANEL[0] <= box[0] and box[2] <= PANEL[2] and PANEL[1] <= box[1] and box[3] <= PANEL[3]
        assert not any(overlap(box, other) for other in labels.names[:number])
        assert not any(overlap(box, (x - 8, y - 8, x + 8, y + 8)) for x, y in spots)


def test_the_panels_show_every_measured_cell_with_its_seeds_where_the_numbers_say(make_data, summary, result):
    panels = figures_of(make_data(), result).panels.attacks()
    points = [point for panel in panels for point in panel.dots]
    assert len(panels) == 4 and len(points) == 2 * 8  # judges x cells
    assert sum(point.hollow for point in points) == 4
    assert sum(len(point.seeds) for point in points) == 2 * 22  # for the seeds that are done
    canvas = plot(panels, 500, 390, "all", across=2)
    told = titles(canvas)
    assert any(NAMES[0] in t and "independent judge" in t and "n = 3" in t for t in told) and len(told) == 16
    rows = summary.frame.iloc[:4]
    assert [(p.x, p.y) for p in panels[0].dots] == [*zip(rows["test_acc"], rows["embedder_acc1"], strict=True)]
    marks = {tuple(line.get_xydata()[0]) for line in canvas.figure.axes[0].lines if len(line.get_xdata()) == 1}
    assert {(point.x, point.y) for point in panels[0].dots} <= marks


def test_no_name_as_it_is_drawn_lies_on_a_curve_another_name_or_a_dot(defense_data):
    figures = figures_of(defense_data(only=("label_smoothing", "mid", "skip_removal")))
    (group,), panels = figures.result.facts["settings"], figures.panels
    for panel in (panels.frontier(), *(one for _, one in panels.families(group))):
        (axes,) = plot([panel], 360, 320).figure.axes
        names = {dot.name for dot in panel.dots} - {""}
        boxes = [text.get_window_extent().padded(-2) for text in axes.texts if text.get_text() in names]
        assert len(boxes) == len(names)
        dots = [axes.transData.transform(panel.held(dot.x, dot.y)) for dot in panel.dots]
        for place, box in enumerate(boxes):
            assert not any(overlap(box.extents, other.extents) for other in boxes[:place])
            assert not any(box.padded(3).contains(*dot) for dot in dots)
        for curve in (line for line in axes.lines if line.get_gid() == "curve"):
            path = curve.get_path().transformed(curve.get_transform())
            assert not any(path.intersects_bbox(box, filled=False) for box in boxes)


def test_no_coordinate_is_lost_and_figures_without_data_are_left_out(make_data):
    data = make_data()
    for results in (data.results, data.results[data.results["seed"] == 0]):
        one = make_data(results=results)
        figures = figures_of(one)
        for name in ("accuracy-leak.svg", "judges.svg", "exposure.svg"):
            assert "nan" not in re.sub(r"<title>.*?</title>", "", figures.drawn[name].svg(), flags=re.S).lower()
    empty = make_data(
        results=data.results.assign(status="missing"), sheets=(), histories={"a": pd.DataFrame({"epoch": [0]})}
    )
    figures = figures_of(empty)
    assert [name for name, canvas in figures.files().items() if canvas] == [] and figures.frontier() is None


CLASSES = ("Ada", "Bo", "Cy")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The trials of three recipes under one seed, and a store whose pictures say by their colours what they are."""
    sweep, store = made_sweep(tmp_path_factory.mktemp("sheets"), seeds=[1])
    return trials_of(load_sweep(Path(sweep))), Store(root=store)


def colour(tile):
    return tuple(int(value) for value in tile.pixels.reshape(-1, 3).mean(0))


def test_rows_are_people_columns_recipes_and_the_attack_itself_ranks(made, tmp_path):
    """The paper's Figures 9 to 11: a training image, then what each recipe's attack ranks first."""
    trials, store = made
    other = trials_of(load_sweep(made_sweep(tmp_path, grid={"recipe.defense.alpha": [-0.2]}, seeds=[9])[0]))
    sheet = comparison_sheet([*trials, *other], [*map(str, ALPHAS), "d"], store, title="t")
    people = [round(place * (PEOPLE - 1) / 5) for place in range(6)]
    assert [row.name for row in sheet.rows] == [f"Person <b>{label}</b>" for label in people]
    for label, row in zip(people, sheet.rows, strict=True):
        green = label * 16 + 8
        assert colour(row.real) == (REAL_RED, green, 0), "the first training image of the person"
        assert [colour(tile) for tile in row.reconstructions[:3]] == [(red_of(alpha), green, 0) for alpha in ALPHAS]
        assert row.reconstructions[3] is None, "a recipe without pictures leaves its place empty"
    assert comparison_sheet(other, ["d"], store, title="t") is None


def flat(value, size=8, recognised=None):
    return Tile(pixels=np.full((size, size, 3), value, np.uint8), recognised=recognised)


def test_pictures_survive_the_uri_and_large_ones_are_stored_small(make_data):
    def decoded(uri):
        head, body = uri.split(",", 1)
        assert head == "data:image/png;base64"
        return np.asarray(Image.open(io.BytesIO(base64.b64decode(body))))

    image = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    assert np.array_equal(decoded(data_uri(image)), image)
    row = SheetRow(name="a", real=flat(0, size=300), reconstructions=())
    data = make_data(sheets=(ContactSheet(title="T", columns=(), rows=(row,)),))
    table = part("sheets", data, result_of(data, summarise(data)))
    assert decoded(table.split('src="')[1].split('"')[0]).shape == (128, 128, 3)


def sheet_of(attack, recipes, first):
    """Pixels tell which picture it is: the class in the ones, the recipe in the tens, the attack by `first`."""
    rows = [
        SheetRow(
            name=name,
            real=flat(200 + row),
            reconstructions=tuple(
                flat(first + 10 * column + row, recognised=row == 1) for column in range(len(recipes))
            ),
        )
        for row, name in enumerate(CLASSES)
    ]
    return ContactSheet(title=attack, columns=tuple(recipes), rows=tuple(rows), judge="the judge")


@pytest.fixture(scope="module")
def sheets(summary):
    """Of two attacks; the second works best against every recipe."""
    return tuple(sheet_of(attack, summary.recipes, 100 * at) for at, attack in enumerate(summary.attacks))


def numbers(group):
    return [int(one.pixels[0, 0, 0]) for one in group["tiles"]]


def test_the_page_has_training_images_then_the_baseline_the_least_and_the_most(summary, result, sheets, make_data):
    """Each of them under the attack that works best against it: the second, whose pictures begin at 100."""
    real, *groups = faces(result, sheets)
    assert real["recipe"] is None and numbers(real) == [200, 201, 202] and real["classes"] == list(CLASSES)
    measured = {one: summary.frame.loc[row, "embedder_acc1"] for one, row in summary.worst("embedder_acc1").items()}
    assert {role: group["recipe"] for group in groups for role in group["roles"]} == {
        "baseline": summary.baseline_recipe,
        "lowest leak": min(measured, key=measured.get),
        "highest leak": max(measured, key=measured.get),
    }
    for group in groups:
        column = summary.recipes.index(group["recipe"])
        assert group["attack"] == summary.attacks[1] and numbers(group) == [100 + 10 * column + row for row in range(3)]
        assert [one.recognised for one in group["tiles"]] == [False, True, False] and group["judge"] == "the judge"
    assert len({group["recipe"] for group in groups}) == len(groups)
    first = part("first", make_data(sheets=sheets), result)
    shown = first[first.index('<section id="faces">') : first.index('<section id="limits">')]
    assert shown.count("<img ") == len(CLASSES) * (1 + len(groups))
    assert shown.count('class="tile recognised"') == len(groups)
    assert "Ada, training image" in shown and "matched by the the judge" in shown


def test_the_importance_of_parameters_is_a_bar_each():
    shares = (Importance(objective="test_acc", recipes=6, shares=(("alpha", 0.75), ("kind", 0.25))),)
    bars = drawn(charts.importance(view(importances=shares)))
    assert {"75 %", "25 %", "alpha", "kind"} <= {text.text for text in bars.iter(f"{SVG}text")}
    assert charts.importance(view()) is None
