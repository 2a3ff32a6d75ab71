"""Where a value of one dimension lies, where it does not, and what lies at a share of it."""

import math

import pytest

from smoothsweep.sweeps.space import Dimension, same_value

RANGE = Dimension(key="a", low=0.5, high=2.0)
RATE = Dimension(key="a", low=1e-4, high=1e-2, log=True)
STEPS = Dimension(key="a", low=0.1, high=0.5, step=0.2)
WHOLE = Dimension(key="a", low=2, high=5, step=1, integer=True)
NAMES = Dimension(key="a", choices=("one", None, True, 1, {"k": 1}))
POINT = Dimension(key="a", low=0.3, high=0.3)
HIGHER = Dimension(key="a", low=0.0, high=1.0, above="b")
HIGHER_RATE = Dimension(key="a", low=1e-4, high=1e-2, log=True, above="b")
HIGHER_STEPS = Dimension(key="a", low=0.0, high=1.0, step=0.25, above="b")
NO_NUMBERS = ("one", None, True, False, [0.5], {"k": 1}, math.nan)


@pytest.mark.parametrize("dimension", [RANGE, RATE, STEPS, WHOLE, POINT, HIGHER, HIGHER_RATE, HIGHER_STEPS])
@pytest.mark.parametrize("value", [*NO_NUMBERS, -1, 7, 1e9, -math.inf, math.inf])
def test_what_is_no_number_of_the_range_lies_nowhere(dimension, value):
    assert dimension.position(value, {"b": 0.0}) is None


@pytest.mark.parametrize(
    ("dimension", "value", "expected"),
    [
        (RANGE, 0.5, 0.5),
        (RANGE, 2, 2.0),
        (STEPS, 0.1, 0),
        (STEPS, 0.5, 2),
        (STEPS, 0.4, None),
        (WHOLE, 5, 3),
        (WHOLE, 6, None),
        (NAMES, "one", 0),
        (NAMES, None, 1),
        (NAMES, True, 2),
        (NAMES, 1, 3),
        (NAMES, {"k": 1}, 4),
        (NAMES, False, None),
        (POINT, 0.3, 0),
    ],
)
def test_a_position_is_an_index_or_the_number_itself(dimension, value, expected):
    found = dimension.position(value, {})
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    ("dimension", "floor", "value", "expected"),
    [
        (HIGHER, 0.0, 0.25, 0.25),
        (HIGHER, 0.5, 0.75, 0.5),
        (HIGHER, 0.5, 0.5, 0.0),
        (HIGHER, 0.5, 0.49, None),
        (HIGHER, 0.5, 1.01, None),
        (HIGHER, -3, 0.25, 0.25),
        (HIGHER_RATE, 1e-4, 1e-3, 0.5),
        (HIGHER_RATE, 1e-6, 1e-3, 0.5),
        (HIGHER_RATE, 1e-3, 1e-2, 1.0),
        (HIGHER_STEPS, 0.5, 0.75, 0.25),
        (HIGHER_STEPS, 0.5, 1.0, 0.75),
        (HIGHER_STEPS, 0.5, 0.5, None),
        (HIGHER_STEPS, -1, 0.0, 0.1),
    ],
)
def test_above_another_a_position_is_a_share_of_what_that_leaves(dimension, floor, value, expected):
    found = dimension.position(value, {"b": floor})
    assert found == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("dimension", "share", "expected"),
    [
        (RANGE, 0.5, 1.25),
        (RATE, 0.5, 1e-3),
        (RATE, 0.25, 10**-3.5),
        (STEPS, 0.0, 0),
        (STEPS, 0.34, 1),
        (WHOLE, 0.999999, 3),
        (NAMES, 0.2, 1),
        (POINT, 0.7, 0),
        (HIGHER, 0.3, 0.3),
        (HIGHER_STEPS, 0.3, 0.3),
    ],
)
def test_a_share_of_a_dimension_is_even_over_its_values_or_its_logarithm(dimension, share, expected):
    found = dimension.spread(share)
    assert found == pytest.approx(expected) and isinstance(found, type(expected))


@pytest.mark.parametrize(
    ("dimension", "position", "floor", "expected"),
    [
        (RANGE, 1.2345678, None, 1.23457),
        (RATE, 0.00123456789, None, 0.00123457),
        (RANGE, 0.1, None, 0.5),
        (RANGE, 9.0, None, 2.0),
        (STEPS, 1, None, 0.3),
        (WHOLE, 3, None, 5),
        (POINT, 0, None, 0.3),
        (HIGHER, 0.5, 0.5, 0.75),
        (HIGHER, 0.0, 0.5, 1.0),
        (HIGHER_RATE, 0.5, 1e-4, 1e-3),
        (HIGHER_STEPS, 0.0, 0.5, 0.75),
        (HIGHER_STEPS, 1.0, 0.5, 1.0),
    ],
)
def test_a_value_has_six_digits_and_stays_within_its_ends(dimension, position, floor, expected):
    found = dimension.at(position, {} if floor is None else {"b": floor})
    assert found == expected and type(found) is type(expected)


def test_a_dimension_exists_where_all_its_conditions_hold():
    both = Dimension(key="a", choices=(1,), when={"kind": ("ramp", "step"), "on": (True,)})
    assert both.exists({"kind": "step", "on": True})
    for values in ({"kind": "step"}, {"kind": "other", "on": True}, {"kind": "step", "on": 1}, {}):
        assert not both.exists(values)
    assert same_value(1, 1.0) and not same_value(1, True) and not same_value("1", 1)
