"""Contact sheets as a table and as a picture."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from smoothsweep.orchestrator.page.drawing.sheets import LEAK, data_uri, sheet_image
from smoothsweep.orchestrator.page.render import part
from smoothsweep.orchestrator.result.data import ContactSheet, SheetRow, Tile
from smoothsweep.orchestrator.result.summary import summarise


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
