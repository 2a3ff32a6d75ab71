"""The sweeps of Tables 5, 6, 7 and 10: each printed row has exactly one cell, and no other setting finds a row."""

from pathlib import Path

import pytest

from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.paper_numbers import matching
from smoothsweep.sweeps.paper_settings import departures, recipe_axes
from smoothsweep.sweeps.schema import InversionSweep

SWEEPS = Path(__file__).resolve().parents[2] / "sweeps"


def row_of(settings, table):
    found = matching(recipe_axes(settings, "facescrub", table), table)
    return None if found is None else found.first.row


def changed(table, cell, **changes):
    settings = expand(load_sweep(SWEEPS / f"table{table}.yaml"))[cell].settings
    raw = settings.model_dump(mode="python")
    return InversionSweep.model_validate(raw | {"attack": raw["attack"] | changes})


def test_a_cell_without_another_target_is_its_own_rows():
    assert row_of(changed("5", 0, sampling_target=None), "5") == 2
    assert row_of(changed("7", 5, selection_target=None), "7") == 6


@pytest.mark.parametrize(
    "other",
    [
        {"recipe.defense.alpha": 0.1, "recipe.architecture": "resnet50"},
        {"recipe.defense": {"kind": "mid", "beta": 0.005}},
        {"recipe.defense.alpha": 0.1, "data.samples_per_class": 10},
        {"recipe.defense.alpha": 0.2},
    ],
)
def test_a_target_that_the_table_does_not_have_finds_no_row(other):
    assert row_of(changed("5", 0, sampling_target={"trial": other}), "5") is None


@pytest.mark.parametrize(
    "variant", [{"lr": 0.05, "loss": "cross_entropy"}, {"loss": "logit"}, {"feature_weight": 1.0}, {"lr": 0.01}]
)
def test_a_variant_that_the_table_does_not_have_finds_no_row(variant):
    assert row_of(changed("10", 0, **variant), "10") is None


def test_a_sweep_at_reduced_counts_keeps_its_rows_and_says_so():
    few = changed("10", 0, pool={"size": 24, "crop": 50}, candidates=8, selected=4)
    assert row_of(few, "10") == 1
    assert "attack.pool.size 24 (paper: 2000)" in departures(few, "facescrub", "10")
    more = changed("10", 1, lr=0.005)
    assert row_of(more, "10") == 2 and departures(more, "facescrub", "10") == ()
