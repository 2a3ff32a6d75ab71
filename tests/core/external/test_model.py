"""Models that only answer, by functions of the test's own: the order of classes, fixed numbers of images, gradients."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.model import ExternalModel, OpenedModel, is_distribution, try_external
from smoothsweep.core.models.inference import Normalisation

OURS = Normalisation()
WEIGHTS = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.25, 0.0]])


def linear(images):
    """[n, 3, S, S] -> [n, 4]: no two classes alike, no two images alike."""
    return images.mean((2, 3)) @ WEIGHTS.T


def images(count, side=4):
    shades = torch.arange(count * 3).reshape(count, 3) / (count * 3) * 2 - 1
    return shades[:, :, None, None].expand(-1, -1, side, side).contiguous()


def made(answer=linear, answers="logits", access="gradients", normalisation=OURS, order=None, **opened):
    return ExternalModel(
        OpenedModel(answer=answer, **opened),
        answers=answers,
        access=access,
        num_classes=4,
        normalisation=normalisation,
        order=order,
        where="here",
    )


def test_the_order_of_the_data_is_that_of_the_answer():
    """A permutation that is not its own inverse: column c of the answer is the model's output `order[c]`."""
    order, shown = torch.tensor([2, 0, 3, 1]), images(5)
    expected = torch.stack([linear(shown)[:, place] for place in (2, 0, 3, 1)], 1)
    torch.testing.assert_close(made(order=order)(shown), expected)
    decided = made(lambda x: linear(x).argmax(1), answers="labels", access="labels", order=order)(shown)
    assert torch.equal(decided.argmax(1), expected.argmax(1))


@pytest.mark.parametrize("rows", [None, 1, 2, 3, 5, 7])
def test_a_fixed_number_of_images_is_shown_each_time_and_only_real_ones_are_answered_for(rows):
    calls = []

    def answer(chunk):
        calls.append(chunk.clone())
        return linear(chunk)

    shown = images(5)
    torch.testing.assert_close(made(answer, rows=rows)(shown), linear(shown))
    if rows is None:
        assert [len(chunk) for chunk in calls] == [5]
        return
    assert [len(chunk) for chunk in calls] == [rows] * -(-5 // rows)
    seen = torch.cat(calls)
    assert torch.equal(seen[:5], shown) and all(torch.equal(one, shown[4]) for one in seen[5:]), "filled by the last"


def test_the_model_is_shown_what_its_normalisation_says_or_pictures():
    other, shown = Normalisation(mean=(0.1, 0.2, 0.3), std=(0.5, 0.25, 2.0)), images(3)
    mean, std = (torch.tensor(values)[:, None, None] for values in (other.mean, other.std))
    pixels = (shown + 1) / 2
    torch.testing.assert_close(made(normalisation=other)(shown), linear((pixels - mean) / std))
    torch.testing.assert_close(made(normalisation=other, own_input=True)(shown), linear(pixels))
    later = made()
    torch.testing.assert_close(later(shown), linear(shown))
    later.wants(other)
    torch.testing.assert_close(later(shown.double()), linear((pixels - mean) / std))


def test_gradients_lead_back_under_gradients_alone():
    for access, back in (("gradients", True), ("scores", False), ("labels", False)):
        assert made(access=access)(images(2).requires_grad_(True)).requires_grad is back


def test_what_a_model_gives_is_asked_of_three_images_then_of_one():
    calls = []

    def answer(most):
        def of(chunk):
            calls.append(len(chunk))
            if len(chunk) > most:
                raise InputError("here: too many")
            return linear(chunk)

        return of

    def found(opened, answers="logits"):
        calls.clear()
        return try_external(opened, answers=answers, num_classes=4, image_size=4, normalisation=OURS, where="here")

    assert found(OpenedModel(answer=answer(9))).rows is None and calls[:2] == [3, 1] and len(calls) <= 10
    one = found(OpenedModel(answer=answer(1)))
    assert (one.rows, one.access, calls[:3]) == (1, "gradients", [3, 1, 1]) and set(calls[1:]) == {1}
    with pytest.raises(InputError, match="too many"):
        found(OpenedModel(answer=answer(1), rows=2))
    fixed = found(OpenedModel(answer=answer(2), rows=2))
    assert fixed.rows == 2 and set(calls) == {2}
    for differs in (
        OpenedModel(answer=linear, differentiable=False),
        OpenedModel(answer=lambda x: linear(x.detach())),
        OpenedModel(answer=lambda x: linear(x * 0.0)),
        OpenedModel(answer=lambda x: linear(x).round()),
    ):
        assert found(differs).access == "scores", "no gradient, or none that is not zero"
    odd = OpenedModel(answer=lambda x: (x.mean((2, 3)).abs() - x.mean((2, 3)).abs()).sqrt() @ WEIGHTS.T)
    assert found(odd).access == "scores", "a gradient that is not finite"
    assert found(OpenedModel(answer=lambda x: linear(x).argmax(1)), "labels").access == "labels"


SIDED = [
    (64, 112, "; it takes images of 64 pixels: use --image-size 64"),
    (224, 64, "; it takes images of 224 pixels: use --image-size 224"),
    (50, 64, ""),
    (299, 32, ""),
]
"""What a model takes, what was stated, how the line ends: unusual sides and those far away are not looked for."""


def only(side, asked):
    def answer(images):
        asked.append(tuple(images.shape))
        if images.shape[-1] != side:
            raise InputError("here: shapes cannot be multiplied")
        return linear(images)

    return answer


@pytest.mark.parametrize(("side", "stated", "end"), SIDED)
@pytest.mark.parametrize("rows", [None, 1])
def test_a_side_that_the_model_does_not_take_is_refused_with_one_that_it_takes(side, stated, end, rows):
    opened = OpenedModel(answer=only(side, []), rows=rows)
    with pytest.raises(InputError, match=f"^here: shapes cannot be multiplied{end}$"):
        try_external(opened, answers="logits", num_classes=4, image_size=stated, normalisation=OURS, where="here")


@pytest.mark.parametrize("given", [{"own_input": True}, {"side": 112}])
def test_no_other_side_is_tried_where_queries_are_counted_or_the_file_has_one(given):
    opened = OpenedModel(answer=only(64, asked := []), **given)
    with pytest.raises(InputError, match=r"multiplied$"):
        try_external(opened, answers="logits", num_classes=4, image_size=112, normalisation=OURS, where="here")
    assert {shape[-1] for shape in asked} == {112}


@pytest.mark.parametrize(("answers", "mixed"), [("logits", False), ("probabilities", True)])
def test_what_was_said_of_the_answers_is_checked_over_all_images(answers, mixed):
    """Logits may look like probabilities for one image; probabilities may not look otherwise for any."""

    def answer(shown):
        found = linear(shown).softmax(1)
        found[0] += 1.0
        return found

    model = made(answer, answers=answers)
    if mixed:
        with pytest.raises(InputError, match="got numbers that do not add up to one: say --said logits"):
            model.check_answers(images(3), said_by="--said")
    else:
        model.check_answers(images(3))
    labels = made(lambda shown: linear(shown).argmax(1), answers="labels")
    labels.check_answers(images(3))


ROWS = st.lists(st.lists(st.floats(-8, 8, width=32), min_size=3, max_size=3), min_size=1, max_size=5)


def reader(answers="probabilities", num_classes=None):
    how = {"access": "scores", "normalisation": OURS, "where": "model"}
    return ExternalModel(OpenedModel(answer=linear), answers=answers, num_classes=num_classes, **how)


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
    good = [1.0] + [0.0] * (len(row) - 1)
    for rows in ([row], [good, row], [row, good]):
        assert is_distribution(torch.tensor(rows, dtype=torch.float64)) is fine


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.float64])
def test_logarithms_are_of_probabilities_alone(kind):
    found = torch.tensor([[0.5, 0.5, 0.0]], dtype=kind)
    logits = reader().logits(found)
    assert logits.dtype == torch.float32
    assert logits[0].tolist() == pytest.approx([np.log(0.5), np.log(0.5), np.log(1e-30)], rel=1e-6)
    assert torch.equal(reader("logits").logits(found), found.float())


def test_a_decision_is_a_probability_of_one():
    labels = reader("labels", 4)
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
        reader(answers, classes).shaped(answer, 2)
    assert str(told.value) == f"model: expected {said}"
