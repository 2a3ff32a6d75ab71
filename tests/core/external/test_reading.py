"""Probabilities that are none end in one line, at whichever answer they come; rounded ones are taken as they are."""

from decimal import Decimal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.model import Reader, as_logits, is_distribution

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


@pytest.mark.parametrize("wild", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("answers", ["logits", "probabilities"])
def test_one_wild_number_is_refused_wherever_it_stands(wild, answers):
    for place in range(6):
        found = torch.full((2, 3), 1 / 3)
        found.view(-1)[place] = wild
        with pytest.raises(InputError, match=f"^model: expected finite {answers}, got NaN or infinity"):
            reader(answers).logits(found)


@pytest.mark.parametrize(
    ("row", "fine"),
    [
        ([1.01, -0.01, 0.0], True),
        ([1.0101, -0.0101, 0.0], False),
        ([1.01, -0.0102, 0.0], False),
        ([1.0, 0.0, 0.0], True),
        # the sum of three exact numbers may miss one by the hundredth part of the root of three, .01732
        ([0.317311, 0.35, 0.35], True),
        ([0.31735, 0.35, 0.35], False),
        ([0.282651, 0.35, 0.35], False),
        ([0.282701, 0.35, 0.35], True),
        # of many classes two digits leave room for half of the last one of each: 50 times .005 below, 15 times above
        ([0.02] * 38 + [0.0] * 12, True),
        ([0.02] * 37 + [0.0] * 13, False),
        ([0.07] * 15 + [0.0] * 35, True),
        ([0.09] * 12 + [0.0] * 38, False),
        ([0.1] * 10 + [0.08] + [0.0] * 39, False),
        ([0.04] * 28 + [0.0] * 72, True),
        ([0.05] * 23 + [0.0] * 77, False),
    ],
)
def test_how_far_a_row_may_be_from_a_distribution(row, fine):
    """Worked out anew with exact numbers, one after the other."""
    numbers = [Decimal(str(one)) for one in row]
    longest = max(2, *(-one.as_tuple().exponent for one in numbers))
    half = Decimal(5) / 10 ** (longest + 1) if longest <= 4 else Decimal(0)
    usual = Decimal("0.01") * Decimal(len(row)).sqrt()
    missed = sum(numbers) - 1
    most, least = max(usual, half * sum(one > 0 for one in numbers)), -max(usual, half * len(row))
    inside = all(Decimal("-0.01") <= one <= Decimal("1.01") for one in numbers)
    assert (inside and least <= missed <= most) is fine
    good = [1.0] + [0.0] * (len(row) - 1)
    for rows in ([row], [good, row], [row, good]):
        assert is_distribution(torch.tensor(rows, dtype=torch.float64)) is fine


def test_no_rows_are_no_distribution():
    assert not is_distribution(torch.zeros(0, 3)) and is_distribution(torch.tensor([[1.0, 0.0]]))


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.float64])
def test_logarithms_are_of_probabilities_alone(kind):
    found = torch.tensor([[0.5, 0.5, 0.0]], dtype=kind)
    logits = reader().logits(found)
    assert logits.dtype == torch.float32
    assert logits[0].tolist() == pytest.approx([np.log(0.5), np.log(0.5), np.log(1e-30)], rel=1e-6)
    assert torch.equal(as_logits(found, "logits"), found) and reader("logits").logits(found).dtype == torch.float32


def test_a_decision_is_a_probability_of_one():
    labels = Reader(answers="labels", num_classes=4, where="model")
    for kind in (torch.int64, torch.uint8, torch.float32):
        found = labels.logits(torch.tensor([3, 0], dtype=kind))
        assert found.dtype == torch.float32
        assert found.tolist() == [[-100.0, -100.0, -100.0, 0.0], [0.0, -100.0, -100.0, -100.0]]
    for wrong, got in (
        ([0.0, 1.5], "0 to 1.5"),
        ([0, 4], "0 to 4"),
        ([-1, 2], "-1 to 2"),
        ([3.0001, 3], "3 to 3.0001"),
    ):
        with pytest.raises(InputError) as told:
            labels.logits(torch.tensor(wrong))
        assert str(told.value) == f"model: expected labels, whole numbers from 0 to 3, got {got}"


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.uint8])
def test_an_array_of_numbers_is_as_good_as_a_tensor(kind):
    array = np.arange(6).reshape(2, 3).astype(kind)
    for answer in (array, torch.from_numpy(array)):
        assert torch.equal(reader("logits").shaped(answer, 2), torch.from_numpy(array))
        assert torch.equal(reader("labels").shaped(answer[0], 3), torch.from_numpy(array[0]))


@pytest.mark.parametrize(
    ("answers", "classes", "answer", "said"),
    [
        ("logits", None, [[1.0]], "logits as one tensor or an array of numbers, got list"),
        ("labels", None, np.array(["a"]), "labels as one tensor or an array of numbers, got ndarray"),
        ("logits", None, np.array([[True, False]] * 2), "logits as one tensor or an array of numbers, got ndarray"),
        ("logits", None, torch.zeros(2, 1), "logits of shape [2, C], got [2, 1]"),
        ("logits", None, torch.zeros(2), "logits of shape [2, C], got [2]"),
        ("logits", None, torch.zeros(2, 3, 1), "logits of shape [2, C], got [2, 3, 1]"),
        ("logits", 4, torch.zeros(2, 3), "logits of shape [2, 4], got [2, 3]"),
        ("probabilities", 3, torch.zeros(1, 3), "probabilities of shape [2, 3], got [1, 3]"),
        ("labels", 3, torch.zeros(2, 3), "labels of shape [2], got [2, 3]"),
        ("labels", 3, torch.zeros(3), "labels of shape [2], got [3]"),
    ],
)
def test_an_answer_of_another_form_is_one_line(answers, classes, answer, said):
    with pytest.raises(InputError) as told:
        Reader(answers=answers, num_classes=classes, where="model").shaped(answer, 2)
    assert str(told.value) == f"model: expected {said}"
