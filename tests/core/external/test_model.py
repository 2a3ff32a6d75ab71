"""Models that only answer, by functions of the test's own: the order of classes, fixed numbers of images, gradients."""

import pytest
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.external.enrolling import Embedding
from smoothsweep.core.external.model import ExternalModel, OpenedModel, try_external
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
