"""Models that only answer, by functions of the test's own: the order of classes, fixed numbers of images, gradients."""

import numpy as np
import pytest
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.enrolling import Embedding
from smoothsweep.core.external.model import ExternalModel, OpenedModel, Reader, as_logits, is_distribution, try_external
from smoothsweep.core.models.normalisation import Normalisation

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


def test_what_is_asked_has_every_size_and_the_side_of_the_file_is_held_to():
    seen = []
    opened = OpenedModel(answer=lambda x: seen.append(x.detach().clone()) or linear(x), side=8)
    found = try_external(opened, answers="logits", num_classes=4, image_size=8, normalisation=OURS, where="here")
    assert found.access == "gradients" and {tuple(x.shape)[1:] for x in seen} == {(3, 8, 8)}
    assert -1 <= seen[0].min() < -0.9 and 0.9 < seen[0].max() <= 1
    for size in (7, 9):
        with pytest.raises(InputError, match=f"--image-size: expected 8, which here takes, got {size}"):
            try_external(opened, answers="logits", num_classes=4, image_size=size, normalisation=OURS, where="here")


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


@pytest.mark.parametrize(("side", "stated", "end"), SIDED)
def test_an_embedder_is_asked_for_another_side_likewise(side, stated, end):
    embed = Embedding(OpenedModel(answer=only(side, [])), image_size=stated, normalisation=OURS, where="here")
    with pytest.raises(InputError, match=f"^here: shapes cannot be multiplied{end}$"):
        embed.check_side()
    Embedding(OpenedModel(answer=only(side, [])), image_size=side, normalisation=OURS, where="here").check_side()


@pytest.mark.parametrize("given", [{"own_input": True}, {"side": 112}])
def test_no_other_side_is_tried_where_queries_are_counted_or_the_file_has_one(given):
    opened = OpenedModel(answer=only(64, asked := []), **given)
    with pytest.raises(InputError, match=r"multiplied$"):
        try_external(opened, answers="logits", num_classes=4, image_size=112, normalisation=OURS, where="here")
    assert {shape[-1] for shape in asked} == {112}


def test_what_answers_otherwise_than_was_said_is_one_line_that_begins_with_the_model():
    for answer, line in (
        (lambda x: linear(x)[:, :3], r"^here: expected logits of shape \[3, 4\], got \[3, 3\]$"),
        (lambda x: linear(x) * float("nan"), "^here: expected finite logits, got NaN or infinity$"),
        (lambda x: "yes", "^here: expected logits as one tensor or an array of numbers, got str$"),
    ):
        with pytest.raises(InputError, match=line):
            opened, sizes = OpenedModel(answer=answer), {"num_classes": 4, "image_size": 4}
            try_external(opened, answers="logits", normalisation=OURS, where="here", **sizes)


def read(answers, found, count=2, classes=3):
    reader = Reader(answers=answers, num_classes=classes, where="here")
    return reader.logits(reader.shaped(found, count))


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int16, np.uint8])
def test_arrays_of_every_kind_of_number_are_taken(kind):
    numbers = np.array([[1, 2, 3], [6, 5, 4]], kind)
    assert read("logits", numbers).tolist() == [[1.0, 2.0, 3.0], [6.0, 5.0, 4.0]]
    assert read("logits", numbers).dtype == torch.float32


@pytest.mark.parametrize(
    "odd",
    [
        np.array([["a", "b"]]),
        np.array([[True, False]]),
        np.array([[1j]]),
        None,
        3,
        [[1.0]],
        {"logits": torch.zeros(2, 3)},
        (torch.zeros(2, 3),),
    ],
)
def test_anything_but_numbers_is_refused(odd):
    with pytest.raises(InputError, match=r"^here: expected logits as one tensor or an array of numbers, got "):
        read("logits", odd)


@pytest.mark.parametrize(
    ("answers", "shape", "classes", "wanted"),
    [
        ("logits", (2, 4), 3, r"\[2, 3\]"),
        ("logits", (3, 3), 3, r"\[2, 3\]"),
        ("logits", (2,), None, r"\[2, C\]"),
        ("logits", (2, 1), None, r"\[2, C\]"),
        ("logits", (2, 3, 1), None, r"\[2, C\]"),
        ("labels", (2, 3), 3, r"\[2\]"),
        ("labels", (3,), 3, r"\[2\]"),
        ("probabilities", (2, 3, 1, 1), 3, r"\[2, 3\]"),
    ],
)
def test_other_shapes_are_refused(answers, shape, classes, wanted):
    with pytest.raises(InputError, match=f"expected {answers} of shape {wanted}, got"):
        read(answers, torch.zeros(shape), classes=classes)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_the_number_of_classes_may_be_what_the_answers_show(classes):
    assert read("logits", torch.ones(2, classes), classes=None).shape == (2, classes)


def test_a_decided_class_has_all_and_the_others_nothing():
    logits = read("labels", torch.tensor([2, 0]), classes=3)
    assert logits.tolist() == [[-100.0, -100.0, 0.0], [0.0, -100.0, -100.0]]
    assert torch.equal(read("labels", torch.tensor([2.0, 0.0])), logits)
    for odd in ([0, 3], [-1, 2], [0.5, 1.0], [float("nan"), 1.0]):
        with pytest.raises(InputError, match="expected labels, whole numbers from 0 to 2, got"):
            read("labels", torch.tensor(odd))


def test_probabilities_of_nothing_have_a_logarithm():
    found = as_logits(torch.tensor([[0.0, 0.25, 0.75]]), "probabilities")
    assert found[0].tolist() == pytest.approx([np.log(1e-30), np.log(0.25), np.log(0.75)])
    assert torch.equal(as_logits(torch.tensor([[0.0, -3.0]]), "logits"), torch.tensor([[0.0, -3.0]]))


@pytest.mark.parametrize(
    ("row", "loose"),
    [
        ([0.5, 0.5], True),
        ([0.5, 0.5005], True),
        ([0.5, 0.4995], True),
        ([0.5, 0.502], True),
        ([0.5, 0.498], True),
        ([0.5, 0.513], True),
        ([0.5, 0.487], True),
        ([0.5, 0.516], False),
        ([0.5, 0.484], False),
        ([-0.009, 1.009], True),
        ([-0.011, 1.011], False),
        ([1.009, 0.0], True),
        ([1.011, 0.0], False),
        ([1.0, 0.0], True),
        ([-1e-5, 1 + 1e-5], True),
    ],
)
def test_what_may_be_a_distribution_by_hand(row, loose):
    """Two classes: within .01 of [0, 1] each, and of one together by .01 times the root of two."""
    good = [0.25, 0.75]
    for rows in ([row], [good, row], [row, good]):
        assert is_distribution(torch.tensor(rows)) == loose


def test_no_rows_are_no_distribution():
    assert is_distribution(torch.zeros(0, 3)) is False


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
