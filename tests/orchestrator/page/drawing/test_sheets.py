"""Contact sheets as a table and as a picture."""

import base64
import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from smoothsweep.orchestrator.page.drawing.sheets import HEAD_LINE, LEAK, data_uri, sheet_image
from smoothsweep.orchestrator.page.render import part
from smoothsweep.orchestrator.reading.numbers.model import ContactSheet, SheetRow, Tile
from smoothsweep.orchestrator.reading.numbers.summary import summarise


def decoded(uri):
    head, body = uri.split(",", 1)
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(body))))


def flat(value, size=8):
    return np.full((size, size, 3), value, np.uint8)


@pytest.fixture
def sheet():
    tiles = (Tile(image=flat(100), recognised=True), Tile(image=flat(200), recognised=False), None)
    rows = (
        SheetRow(name="A\nname with a line break", real=Tile(image=flat(10)), reconstructions=tiles),
        SheetRow(name="王小明" * 30, real=Tile(image=flat(30)), reconstructions=tiles),
    )
    return ContactSheet(title="T", columns=("alpha \u22120.2", "alpha 0", "x" * 80), rows=rows)


def test_pictures_survive_the_uri():
    image = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    assert np.array_equal(decoded(data_uri(image)), image)


def table_of(make_data, sheet):
    data = make_data(sheets=(sheet,))
    return part("sheets", data, summarise(data, resamples=50))


def test_the_table_has_real_headers_and_says_who_was_recognised(make_data, sheet):
    table = table_of(make_data, sheet)
    assert table.count("<img") == 2 * 3 and table.count('scope="row"') == 2 and table.count('scope="col"') == 5
    assert "matched by the independent judge" in table and "training image" in table
    assert table.count("<b>matched</b>") == 2 and "none" in table


def test_large_pictures_are_stored_small(make_data):
    big = Tile(image=np.zeros((300, 300, 3), np.uint8))
    sheet = ContactSheet(title="T", columns=(), rows=(SheetRow(name="a", real=big, reconstructions=()),))
    uri = table_of(make_data, sheet).split('src="')[1].split('"')[0]
    assert decoded(uri).shape == (128, 128, 3)


def test_the_picture_places_tiles_in_columns_and_frames_the_recognised(sheet):
    image = np.asarray(sheet_image(sheet, tile=32)).astype(int)
    for value in (10, 100, 200):
        assert (image == value).all(-1).sum() >= 32 * 32 * (2 if value != 10 else 1)
    columns = [np.nonzero((image == value).all(-1).sum(0) > 16)[0].mean() for value in (10, 100, 200)]
    assert columns[0] < columns[1] < columns[2]
    red = tuple(int(LEAK[i : i + 2], 16) for i in (1, 3, 5))
    assert (image == red).all(-1).sum() > 2 * 4 * 32


def test_recipes_whose_names_begin_alike_are_told_apart_over_their_columns(sheet):
    """Cut to the width of a column they would read the same."""
    one, other = (
        sheet_image(replace(sheet, columns=(*sheet.columns[:2], f"smoothing \u22120.8, step at {at}")))
        for at in ("0.1", "0.5")
    )
    assert one.size == other.size and not np.array_equal(np.asarray(one), np.asarray(other))
    assert one.height == sheet_image(replace(sheet, columns=("a", "b", "c"))).height + HEAD_LINE, (
        "three lines against two"
    )


def test_a_strip_shows_the_first_rows(sheet):
    assert sheet_image(sheet, rows=1).height < sheet_image(sheet).height


def test_red_frames_are_explained_below_where_there_are_any(sheet):
    bare = [
        replace(row, reconstructions=tuple(t and replace(t, recognised=None) for t in row.reconstructions))
        for row in sheet.rows
    ]
    with_frames, without = sheet_image(sheet), sheet_image(replace(sheet, rows=tuple(bare)))
    assert with_frames.height - without.height in (HEAD_LINE, 2 * HEAD_LINE)
    named = sheet_image(replace(sheet, judge="evaluator"))
    assert not np.array_equal(np.asarray(named), np.asarray(with_frames)), "the judge is named"
