"""Numbers in words: digits, signs, units."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.judges.columns import metric_of
from smoothsweep.core.text import MINUS, NBSP
from smoothsweep.orchestrator.result.format import (
    ascii_text,
    difference,
    estimate,
    interval,
    is_null,
    number,
    points,
    signed,
    signed_interval,
)

ACC, DIST = metric_of("test_acc"), metric_of("dist_face")


@pytest.mark.parametrize("value", [None, float("nan"), np.nan, pd.NA, pd.NaT])
def test_every_kind_of_null_is_null(value):
    assert is_null(value)
    assert number(ACC, value) == "\u2013"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.712, "0.712"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (151.42, "151"),
        (1523.4, "1,523"),
        (0.0432, "0.043"),
        (0.0004, "0.0004"),
        (-0.5, "\u22120.500"),
        (0.0, "0"),
    ],
)
def test_plain_metrics_have_three_digits(value, text):
    assert number(DIST, value) == text


def test_percentages():
    assert number(ACC, 0.8724) == f"87.2{NBSP}%"
    assert interval(ACC, 0.861, 0.883) == f"[86.1,{NBSP}88.3]"
    assert interval(ACC, 0.10, 0.17) == f"[10,{NBSP}17]"
    assert interval(ACC, float("nan"), 0.2) == ""
    assert estimate(ACC, 0.134, 0.10, 0.17) == f"13{NBSP}% [10,{NBSP}17]"
    assert estimate(ACC, 0.134, 0.13, 0.138) == f"13.4{NBSP}% [13.0,{NBSP}13.8]"
    assert estimate(ACC, 0.134, float("nan"), float("nan")) == f"13.4{NBSP}%"


def test_differences_carry_sign_and_unit():
    assert difference(ACC, -0.261, -0.30, -0.21) == f"{MINUS}26.1{NBSP}points [{MINUS}30,{NBSP}{MINUS}21]"
    assert difference(ACC, 0.01, float("nan"), float("nan")) == f"+1.0{NBSP}point"
    assert signed(DIST, 0.52) == "+0.520"
    assert signed(ACC, 0.0001) == "0.0"
    assert points(ACC, -0.012) == f"1.2{NBSP}points"
    assert points(DIST, -0.5) == "0.500"


def test_an_end_near_zero_keeps_the_digits_that_show_its_side():
    assert signed_interval(ACC, -0.19, -0.004) == f"[{MINUS}19,{NBSP}{MINUS}0.4]"
    assert signed_interval(ACC, -0.19, 0.0) == f"[{MINUS}19,{NBSP}0]"


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_the_printed_interval_of_a_difference_never_changes_its_verdict(a, b):
    low, high = sorted((a, b))
    ends = ascii_text(signed_interval(ACC, low, high)).strip("[]").split(", ")
    shown = [float(end) for end in ends]
    if low > 1e-5:
        assert shown[0] > 0
    if high < -1e-5:
        assert shown[1] < 0
