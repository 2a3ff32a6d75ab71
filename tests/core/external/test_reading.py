"""Probabilities that are none end in one line, at whichever answer they come; rounded ones are taken as they are."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.reading import Reader, is_distribution

ROWS = st.lists(st.lists(st.floats(-8, 8, width=32), min_size=3, max_size=3), min_size=1, max_size=5)


def reader(answers="probabilities"):
    return Reader(answers=answers, num_classes=None, where="model")


@given(logits=ROWS, digits=st.integers(2, 7))
def test_what_a_softmax_gives_is_taken_also_when_it_was_rounded(logits, digits):
    found = torch.tensor(logits).softmax(1)
    rounded = (found * 10**digits).round() / 10**digits
    assert is_distribution(rounded)
    back = reader().logits(rounded).softmax(1)
    torch.testing.assert_close(back, rounded / rounded.sum(1, keepdim=True), atol=1e-5, rtol=0)


@given(logits=ROWS, place=st.integers(0, 2), odd=st.sampled_from([-1.0, -0.03, 1.03, 2.0, 1e30, -1e30]), data=st.data())
def test_one_row_that_is_none_is_found_wherever_it_stands(logits, place, odd, data):
    """Negative or above one, though the row still adds up to one; and rows that do not."""
    found = torch.tensor(logits).softmax(1)
    row = data.draw(st.integers(0, len(found) - 1))
    others = [column for column in range(3) if column != place]
    found[row, place] = odd
    found[row, others] = (1 - odd) / 2
    with pytest.raises(
        InputError, match=r"^model: expected probabilities, each from 0 to 1 and together 1, got "
    ) as told:
        reader().logits(found)
    assert f"{odd:g}" in str(told.value), "the row that is none is shown"
    assert torch.equal(reader("logits").logits(found), found), "logits may be anything finite"


@pytest.mark.parametrize(
    "row", [[0.5, 0.5, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0], [0.2, 0.2, 0.2, 0.2], [-1.0, 2.0, 0.0, 0.0]]
)
def test_rows_by_hand(row):
    good = [0.25, 0.25, 0.25, 0.25]
    with pytest.raises(InputError, match="together 1, got"):
        reader().logits(torch.tensor([good, row, good]))


@pytest.mark.parametrize(
    ("rows", "worst"),
    [
        ([[0.9, 0.9], [0.25, 0.25]], 0),
        ([[0.25, 0.25], [0.9, 0.9]], 1),
        ([[1.5, -0.5], [0.0, 0.3]], 0),
        ([[0.3, 0.0], [0.5, 0.5], [-0.5, 1.5]], 2),
        ([[0.6, 0.6], [2.5, -1.5], [0.5, 0.5], [1.2, -0.2]], 1),
        ([[-0.4, 0.4], [-0.3, 1.3]], 0),
    ],
)
def test_of_several_rows_that_are_none_the_worst_is_shown(rows, worst):
    """By how far the sum is from one, and each number from where it may lie: .8 and .5; 0 + 1 and .7; and so on."""
    by_hand = [abs(sum(row) - 1) + sum(max(0, -one, one - 1) for one in row) for row in rows]
    assert by_hand.index(max(by_hand)) == worst
    with pytest.raises(InputError) as told:
        reader().logits(torch.tensor(rows))
    assert f"got {rows[worst][0]:g}, {rows[worst][1]:g};" in str(told.value)


def test_of_a_long_row_eight_numbers_are_shown():
    with pytest.raises(InputError) as told:
        reader().logits(torch.arange(12).float()[None])
    assert "got 0, 1, 2, 3, 4, 5, 6, 7; of other numbers say that the answers are logits" in str(told.value)


@pytest.mark.parametrize("wild", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("answers", ["logits", "probabilities"])
def test_one_wild_number_is_refused_wherever_it_stands(wild, answers):
    for place in range(6):
        found = torch.full((2, 3), 1 / 3)
        found.view(-1)[place] = wild
        with pytest.raises(InputError, match=f"^model: expected finite {answers}, got NaN or infinity"):
            reader(answers).logits(found)
