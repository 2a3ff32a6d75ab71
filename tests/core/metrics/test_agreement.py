"""Fleiss' kappa against its closed forms and the example that everybody prints."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from smoothsweep.core.metrics.agreement import fleiss_kappa

TEXTBOOK = [
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
]
"""Ten things, fourteen raters, five categories: kappa 0.210."""


def test_the_textbooks_example():
    assert fleiss_kappa(TEXTBOOK) == pytest.approx(0.2099, abs=5e-5)


def test_closed_forms_of_two_raters():
    """Two raters who agree on a share p of things, categories in balance: kappa is 2 p - 1."""
    for pairs in range(6):
        rows = [[2, 0], [0, 2]] * pairs + [[1, 1]] * (10 - 2 * pairs)
        assert fleiss_kappa(rows) == pytest.approx(2 * (2 * pairs / 10) - 1)


def test_who_agrees_on_everything_has_one_and_chance_has_none():
    assert fleiss_kappa([[3, 0, 0], [0, 3, 0], [0, 0, 3]]) == pytest.approx(1)
    rng = np.random.default_rng(0)
    votes = rng.multinomial(3, [0.2, 0.3, 0.5], size=20_000)
    assert abs(fleiss_kappa(votes)) < 0.02


def test_what_says_nothing_of_agreement_is_left_out():
    assert fleiss_kappa([*TEXTBOOK, [0, 1, 0, 0, 0], [0] * 5]) == fleiss_kappa(TEXTBOOK)
    assert fleiss_kappa([[1, 0], [0, 1]]) is None and fleiss_kappa(np.zeros((0, 3))) is None
    assert fleiss_kappa([[3, 0], [2, 0]]) is None


@given(arrays(np.int64, (6, 3), elements=st.integers(0, 5)))
def test_neither_names_nor_order_matter(votes):
    kappa = fleiss_kappa(votes)
    moved = fleiss_kappa(votes[::-1][:, [2, 0, 1]])
    assert (kappa is None) == (moved is None)
    if kappa is not None:
        assert moved == pytest.approx(kappa) and kappa <= 1 + 1e-12


@pytest.mark.parametrize("votes", [[1, 2], [[-1, 3]], [[0.5, 1.5]]])
def test_what_is_no_table_of_counts_is_refused(votes):
    with pytest.raises(ValueError, match="whole numbers"):
        fleiss_kappa(votes)
