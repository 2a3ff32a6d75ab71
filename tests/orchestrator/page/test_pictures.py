"""Which pictures a sheet shows: nobody picks them."""

from pathlib import Path

import pytest
from study_answers import ALPHAS, PEOPLE, REAL_RED, made_sweep, red_of

from smoothsweep.orchestrator.page.pictures import comparison_sheet
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The trials of three recipes under one seed, and a store whose pictures say by their colours what they are."""
    sweep, store = made_sweep(tmp_path_factory.mktemp("sheets"), seeds=[1])
    return trials_of(load_sweep(Path(sweep))), Store(root=store)


def colour(tile):
    return tuple(int(value) for value in tile.pixels.reshape(-1, 3).mean(0))


def test_rows_are_people_columns_recipes_and_the_attack_itself_ranks(made):
    """The paper's Figures 9 to 11: a training image, then what each recipe's attack ranks first."""
    trials, store = made
    sheet = comparison_sheet(trials, [str(alpha) for alpha in ALPHAS], store, title="t")
    people = [round(place * (PEOPLE - 1) / 5) for place in range(6)]
    assert [row.name for row in sheet.rows] == [f"Person <b>{label}</b>" for label in people]
    for label, row in zip(people, sheet.rows, strict=True):
        green = label * 16 + 8
        assert colour(row.real) == (REAL_RED, green, 0), "the first training image of the person"
        assert [colour(tile) for tile in row.reconstructions] == [(red_of(alpha), green, 0) for alpha in ALPHAS]
    assert comparison_sheet(trials[1:], ["a", "b"], store, title="t").rows[0].reconstructions[0] is not None


def test_a_recipe_without_pictures_leaves_its_place_empty(made, tmp_path):
    trials, store = made
    other = trials_of(load_sweep(made_sweep(tmp_path, grid={"recipe.defense.alpha": [-0.2]}, seeds=[9])[0]))
    sheet = comparison_sheet([*trials, *other], ["a", "b", "c", "d"], store, title="t")
    assert all(row.reconstructions[3] is None and row.reconstructions[0] is not None for row in sheet.rows)
    assert comparison_sheet(other, ["d"], store, title="t") is None
