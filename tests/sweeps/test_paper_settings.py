"""Where a sweep's recipe stands in the paper's tables, and in what its settings depart from the paper's."""

from types import SimpleNamespace
from typing import get_args

import pytest

from smoothsweep.sweeps.data import PublishedData
from smoothsweep.sweeps.paper_numbers import (
    matching,
)
from smoothsweep.sweeps.paper_settings import departures, recipe_axes
from smoothsweep.sweeps.schema import InversionSweep, PaperTable


def sweep(**changes):
    fields = {
        "name": "t",
        "seeds": [1],
        "protocol": "paper",
        "data": {"kind": "facescrub", "path": "faces"},
        "prior": {"kind": "folder", "path": "ffhq"},
        "attack": {"pool": {"crop": 800}},
    }
    return InversionSweep.model_validate(fields | changes)


def test_the_schemas_defaults_are_the_papers_settings():
    assert departures(sweep(), "facescrub", "2") == ()
    celeba = departures(sweep(data={"kind": "celeba", "path": "faces"}), "celeba", "2")
    assert celeba == ("attack.pool.size 2000 (paper: 5000)", "attack.steps 50 (paper: 70)")


def test_departures_are_named():
    small = sweep(
        recipe={"epochs": 10, "lr_milestones": [0.5]},
        prior={"kind": "shipped"},
        classes=[0, 1],
        attack={"loss": "cross_entropy", "pool": {"crop": 800}},
    )
    assert set(departures(small, "facescrub", "2")) == {
        "recipe.epochs 10 (paper: 100)",
        "recipe.lr_milestones [0.5] (paper: [0.75, 0.9])",
        "attack.loss cross_entropy (paper: poincare)",
        "classes [0, 1] (paper: all)",
        "prior.kind shipped (paper: StyleGAN2 of FFHQ, 1024 pixels)",
    }
    assert "attack.loss cross_entropy (paper: poincare)" not in departures(small, "facescrub", "10")
    assert "attack.pool.size 2000 (paper: 10000)" in departures(sweep(), "facescrub", "5")


@pytest.mark.parametrize(
    ("defense", "row"),
    [({"kind": "label_smoothing", "alpha": -0.05}, 2), ({"kind": "mid", "beta": 0.005}, 4), (None, None)],
)
def test_imported_targets_are_placed_by_what_their_card_says(defense, row):
    target = SimpleNamespace(architecture="resnet152", stated_defense=defense)
    data = SimpleNamespace(samples_per_class=None)
    settings = SimpleNamespace(recipe=target, data=data, attack=SimpleNamespace(kind="ppa"))
    axes = recipe_axes(settings, "facescrub", "3")
    assert (axes and matching(axes, "3").first.row) == row


def test_a_sweeps_recipe_finds_its_row():
    smoothed = sweep(recipe={"defense": {"kind": "label_smoothing", "alpha": -0.05}})
    for table, row in (("1", 3), ("2", 7), ("9", 3), ("11", 3)):
        assert matching(recipe_axes(smoothed, "facescrub", table), table).first.row == row
    few = sweep(data={"kind": "facescrub", "path": "faces", "samples_per_class": 20})
    assert matching(recipe_axes(few, "celeba", "4"), "4").first.row == 20
    assert matching(recipe_axes(few, "celeba", "2"), "2") is None
    piecewise = {"kind": "label_smoothing", "schedule": {"kind": "piecewise", "points": [[0, 0], [1, 0.1]]}}
    assert matching(recipe_axes(sweep(recipe={"defense": piecewise}), "facescrub", "2"), "2").first.row == 3


@pytest.mark.parametrize("kind", get_args(PublishedData.model_fields["kind"].annotation))
def test_a_published_set_has_the_papers_name(kind):
    """CelebA at 64 pixels is CelebA."""
    data = PublishedData(kind=kind, path="somewhere")
    assert PaperTable(table="2").dataset_of(data) == {"celeba64": "celeba"}.get(kind, kind)
    assert PaperTable(table="2", dataset="facescrub").dataset_of(data) == "facescrub"
