"""The paper's tables as data: whole, consistent wherever the paper repeats itself, and found by a recipe's axes."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.sweeps.paper_numbers import (
    CHANGE,
    TABLES,
    datasets_of,
    matching,
    paper_rows,
    printed_rows,
)

BASE = {"dataset": "facescrub", "architecture": "resnet152", "samples_per_class": None, "attack": "ppa"}


def numbers(tables=TABLES):
    return [number for table in tables for number in paper_rows(table)]


def values(row):
    return {metric: number.value for metric, number in row.numbers.items()}


def test_every_table_is_there_with_all_its_numbers():
    printed = Counter(number.table for number in numbers())
    assert printed == {
        "1": 64,
        "2": 220,
        "3": 160,
        "4": 264,
        "5": 25,
        "6": 25,
        "7": 50,
        "8": 371,
        "9": 42,
        "10": 49,
        "11": 162,
        "12": 15,
        "13": 48,
    }
    rows = {table: len(printed_rows(table)) for table in TABLES}
    assert rows == {
        "1": 10,
        "2": 22,
        "3": 16,
        "4": 24,
        "5": 3,
        "6": 3,
        "7": 6,
        "8": 49,
        "9": 6,
        "10": 7,
        "11": 18,
        "12": 9,
        "13": 6,
    }


def test_the_printed_digits_are_kept():
    row = matching(BASE | {"defense": "label_smoothing", "alpha": -0.05}, "2")
    assert values(row) == pytest.approx(
        {
            "test_acc": 0.9145,
            "ece": 0.1474,
            "attack_acc1": 0.1434,
            "attack_acc1_std": 0.076,
            "attack_acc5": 0.3094,
            "dist_face": 1.2320,
            "dist_eval": 239.02,
            "fid": 59.38,
            "xi_train": 0.1645,
            "xi_test": 0.1573,
        }
    )
    assert [row.numbers[m].decimals for m in ("test_acc", "attack_acc1_std", "dist_face", "fid")] == [4, 3, 4, 2]
    assert row.numbers["test_acc"].half_unit == pytest.approx(0.00005)


@pytest.mark.parametrize(
    ("axes", "table", "row"),
    [
        ({"defense": "none"}, "2", 4),
        ({"defense": "label_smoothing", "alpha": 0}, "2", 4),
        ({"defense": "label_smoothing", "alpha": -0.2}, "2", None),
        ({"defense": "mid", "beta": 0.005, "alpha": 0.0}, "3", 4),
        ({"defense": "mid", "beta": 0.005, "alpha": -0.05}, "3", None),
        ({"defense": "bido", "lambda_input": 0.05, "lambda_label": 2.5, "alpha": None}, "1", 5),
        ({"defense": "bido", "lambda_input": 0.05, "lambda_label": 0.5, "dataset": "celeba"}, "1", 10),
        ({"defense": "bido", "lambda_input": 0.05, "lambda_label": 0.5}, "1", None),
        ({"defense": "label_smoothing", "alpha": 0.1, "samples_per_class": 40}, "4", 10),
        ({"defense": "label_smoothing", "alpha": 0.1}, "4", None),
        ({"defense": "label_smoothing", "alpha": 0.1, "samples_per_class": 10}, "2", None),
        ({"defense": "label_smoothing", "alpha": -0.05, "variant": "cross_entropy"}, "10", 5),
        ({"defense": "none", "selection_alpha": -0.05}, "7", 3),
        ({"defense": "none", "architecture": "resnet_small"}, "2", None),
    ],
)
def test_recipes_find_their_row(axes, table, row):
    found = matching(BASE | axes, table)
    assert (found and found.first.row) == row


def test_what_fits_nothing_or_too_much_is_said():
    with pytest.raises(InputError, match=r"paper table: expected one of 1, 2, .* got '14'"):
        paper_rows("14")
    with pytest.raises(InputError, match=r"table 2: expected axes among dataset, .* got 'seed'"):
        matching({"seed": 1}, "2")
    with pytest.raises(InputError, match="got rows 1, 2, 3: name defense"):
        matching({"dataset": "facescrub", "samples_per_class": 10}, "4")
    with pytest.raises(InputError, match="dataset: expected one of facescrub, celeba, got 'imagenette'"):
        printed_rows("2", "imagenette")
    assert datasets_of("12") == ("imagenette",)


@given(st.sampled_from([n for n in numbers() if not n.metric.endswith(CHANGE)]))
def test_every_printed_row_is_found_by_its_own_axes(number):
    assert matching(number.axes, number.table).numbers[number.metric] == number
