"""Contact sheets, and the pictures of the first screen: whose they are, of which attack; nobody picks them."""

import base64
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from study_answers import ALPHAS, PEOPLE, REAL_RED, made_sweep, red_of

from smoothsweep.orchestrator.page.figures.canvas import ACCENT
from smoothsweep.orchestrator.page.pictures import comparison_sheet, data_uri, sheet_image
from smoothsweep.orchestrator.page.render import extremes, faces, part
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.data import ContactSheet, SheetRow, Tile
from smoothsweep.orchestrator.result.summary import summarise
from smoothsweep.orchestrator.result.sweep_result import result_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep

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


def test_a_sheet_as_a_table_and_as_a_picture_names_and_frames_the_recognised(make_data):
    tiles = (flat(100, recognised=True), flat(200, recognised=False), None)
    names = ("A\nname with a line break", "王小明" * 30)
    rows = tuple(SheetRow(name=name, real=flat(20), reconstructions=tiles) for name in names)
    sheet = ContactSheet(title="T", columns=("alpha −0.2", "alpha 0", "x" * 80), rows=rows)
    data = make_data(sheets=(sheet,))
    table = part("sheets", data, result_of(data, summarise(data)))
    assert table.count("<img") == 2 * 3 and table.count('scope="row"') == 2 and table.count('scope="col"') == 5
    assert "matched by the independent judge" in table and "training image" in table
    assert table.count("<b>matched</b>") == 2 and "none" in table
    image = np.asarray(sheet_image(sheet, tile=32)).astype(int)
    for value in (20, 100, 200):
        assert (image == value).all(-1).sum() >= 2 * 32 * 32
    columns = [np.nonzero((image == value).all(-1).sum(0) > 16)[0].mean() for value in (20, 100, 200)]
    assert columns[0] < columns[1] < columns[2]
    red = tuple(bytes.fromhex(ACCENT[1:]))
    assert (image == red).all(-1).sum() > 2 * 4 * 32


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


def test_without_pictures_or_a_leak_there_are_none(result, sheets, make_data):
    assert faces(result, ()) == [] and '<section id="faces">' not in part("first", make_data(sheets=()), result)
    assert faces(result, tuple(replace(one, title="another attack") for one in sheets)) == []
    nothing = result_of(make_data(results=make_data().results.assign(status="missing")))
    assert extremes(nothing) == {} and faces(nothing, sheets) == []
