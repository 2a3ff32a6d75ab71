"""The pictures of the first screen: whose they are, of which attack, and when there are none."""

from dataclasses import replace

import numpy as np
import pytest

from smoothsweep.orchestrator.page.content import extremes, faces
from smoothsweep.orchestrator.page.render import render
from smoothsweep.orchestrator.result.data import ContactSheet, SheetRow, Tile
from smoothsweep.orchestrator.result.summary import summarise

CLASSES = ("Ada", "Bo", "Cy")


def tile(number, recognised=None):
    return Tile(image=np.full((4, 4, 3), number, dtype=np.uint8), recognised=recognised)


def sheet(attack, recipes, first):
    """Pixels tell which picture it is: the class in the ones, the recipe in the tens, the attack by `first`."""
    rows = [
        SheetRow(
            name=name,
            real=tile(200 + row),
            reconstructions=tuple(tile(first + 10 * column + row, row == 1) for column in range(len(recipes))),
        )
        for row, name in enumerate(CLASSES)
    ]
    return ContactSheet(title=attack, columns=tuple(recipes), rows=tuple(rows), judge="the judge")


@pytest.fixture(scope="module")
def summary(make_data):
    """Two attacks; the second works best against every recipe, the last recipe has not met all of them."""
    return summarise(make_data())


@pytest.fixture(scope="module")
def sheets(summary):
    return tuple(sheet(attack, summary.recipes, 100 * at) for at, attack in enumerate(summary.attacks))


def numbers(group):
    return [int(one.image[0, 0, 0]) for one in group.tiles]


def test_training_images_then_the_baseline_the_least_and_the_most(summary, sheets):
    real, *groups = faces(summary, sheets)
    assert real.recipe is None and numbers(real) == [200, 201, 202] and real.classes == CLASSES
    measured = {one: summary.frame.loc[row, "embedder_acc1"] for one, row in summary.rows("embedder_acc1").items()}
    roles = {role: group.recipe for group in groups for role in group.roles}
    assert roles["baseline"] == summary.baseline_recipe
    assert roles["lowest leak"] == min(measured, key=measured.get)
    assert roles["highest leak"] == max(measured, key=measured.get)
    assert len({group.recipe for group in groups}) == len(groups) == len(set(roles.values()))


def test_each_is_shown_under_the_attack_that_works_best_against_it(summary, sheets):
    """Of the second attack, whose pictures begin at 100, and in the column of the recipe."""
    for group in faces(summary, sheets)[1:]:
        column = summary.recipes.index(group.recipe)
        assert group.attack == summary.attacks[1] and numbers(group) == [100 + 10 * column + row for row in range(3)]
        assert [one.recognised for one in group.tiles] == [False, True, False] and group.judge == "the judge"


def test_without_pictures_or_a_leak_there_are_none(summary, sheets, make_data):
    assert faces(summary, ()) == ()
    other = tuple(replace(one, title="another attack") for one in sheets)
    assert faces(summary, other) == ()
    nothing = summarise(make_data(results=make_data().results.assign(status="missing")))
    assert extremes(nothing) == {} and faces(nothing, sheets) == ()


def test_the_page_shows_them_on_its_first_screen(make_data, sheets, summary):
    page = render(make_data(sheets=sheets))
    first = page[: page.index('<section id="limits">')]
    shown = first[first.index('<section id="faces">') :]
    assert shown.count("<img ") == len(CLASSES) * len(faces(summary, sheets))
    assert shown.count('class="tile recognised"') == len(faces(summary, sheets)) - 1
    assert "Ada, training image" in shown and "matched by the the judge" in shown
    assert '<section id="faces">' not in render(make_data(sheets=()))
