"""Defenses that show decoys: trapdoors, attraction to other classes, answers moved towards others."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.defenses.decoys import AtAt, Ssd
from smoothsweep.core.defenses.layers import move_towards
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import Classifier


def test_the_descent_leaves_no_trace_in_the_network(tools):
    model, (images, labels) = tools.prepared(AtAt()), tools.colours(per_class=2)
    before = [buffer.clone() for buffer in model.buffers()]
    AtAt().move_images(model, images, (labels + 1) % 4, tools.generator())
    assert all(torch.equal(*pair) for pair in zip(before, model.buffers(), strict=True))
    assert all(parameter.grad is None for parameter in model.parameters())
    tools.take_step(AtAt(), model, images, labels)
    tracked = [buffer.item() for name, buffer in model.named_buffers() if name.endswith("num_batches_tracked")]
    assert tracked and set(tracked) == {1}


def tensor(*values):
    return torch.tensor([values], dtype=torch.float64)


@pytest.mark.parametrize(
    ("answer", "towards", "budget", "expected"),
    [
        ((0.5, 0.3, 0.2), (0.1, 0.6, 0.3), 0.2, (0.4, 0.4, 0.2)),
        ((0.5, 0.3, 0.2), (0.1, 0.6, 0.3), 0.5148, (0.2426, 0.5049, 0.2525)),
        ((0.5, 0.3, 0.2), (0.1, 0.6, 0.3), 0.0, (0.5, 0.3, 0.2)),
        ((0.98, 0.01, 0.01), (0.9, 0.05, 0.05), 0.2, (0.9, 0.05, 0.05)),
        ((0.9, 0.06, 0.04), (0.1, 0.6, 0.3), 0.1962, (0.8019, 0.1321, 0.0660)),
        ((1.0, 0.0, 0.0), (0.0, 0.5, 0.5), 0.0, (1.0, 0.0, 0.0)),
    ],
)
def test_answers_computed_by_hand(answer, towards, budget, expected):
    found = move_towards(tensor(*answer), tensor(*towards), torch.tensor([budget], dtype=torch.float64))
    torch.testing.assert_close(found, tensor(*expected), rtol=0, atol=6e-5)


@given(st.integers(0, 10_000), st.floats(0, 2), st.integers(2, 40))
def test_answers_stay_probabilities_and_spend_the_budget(seed, budget, classes):
    draw = torch.Generator().manual_seed(seed)
    answers, towards = (torch.randn(5, classes, generator=draw, dtype=torch.float64).mul(3).softmax(1) for _ in "ab")
    found = move_towards(answers, towards, torch.full((5,), budget, dtype=torch.float64))
    distance = (answers - towards).abs().sum(1)
    torch.testing.assert_close(found.sum(1), torch.ones(5, dtype=torch.float64))
    torch.testing.assert_close((found - answers).abs().sum(1), distance.clamp(max=budget), rtol=0, atol=1e-6)
    # No small exchange between two entries within the budget comes nearer: p / q is level where p left the answer.
    ratios, moved = found / towards, (found - answers).abs() > 1e-9
    for row in range(5):
        for risen in (True, False):
            own = ratios[row][moved[row] & ((found > answers)[row] == risen)]
            assert not len(own) or (own.max() - own.min()) / own.max() < 1e-6


def shielded(classes=4, **settings):
    """The defense on a network whose logits are three times its inputs, and fitted to unsure answers."""
    model = Classifier("resnet_small", nn.Flatten(), nn.Linear(12, classes))
    with torch.no_grad():
        model.head.weight.copy_(3 * torch.eye(classes, 12))
        model.head.bias.zero_()
    defense = Ssd(**{"eps": 1.0, **settings})
    defense.prepare(model, generator=torch.Generator())
    labels = torch.arange(classes).repeat(3)
    defense.fit(model, torch.eye(classes).mul(2).repeat(3, 1), labels)
    return model.eval().requires_grad_(False)


IMAGES = torch.rand(50, 3, 2, 2, generator=torch.Generator().manual_seed(1)).mul(2).sub(1)


def test_answers_depend_on_the_image_alone_unless_they_are_drawn_anew():
    fixed, fresh = shielded(), shielded(draws="fresh")
    whole = fixed(IMAGES)
    torch.testing.assert_close(torch.cat([fixed(part) for part in IMAGES.flip(0).split(7)]).flip(0), whole)
    first, second = fresh(IMAGES), fresh(IMAGES)
    assert not torch.equal(first.argmax(1), second.argmax(1))
    Ssd(eps=1.0, draws="fresh").seed_noise(fresh, 0)
    assert torch.equal(fresh(IMAGES), first)


def test_no_gradient_and_nothing_but_answers_leaves_the_view():
    model = shielded()
    execution = Execution(ExecutionConfig(), "cpu")
    common = {"num_classes": 4, "image_size": 2, "execution": execution}
    scores = view_of(model, "scores", **common).scores(IMAGES)
    torch.testing.assert_close(scores, model(IMAGES).softmax(1))
    plain = model.head(model.embed(IMAGES)).softmax(1)
    assert (scores - plain).abs().sum(1).mean() > 0.1 and torch.equal(scores.argmax(1), model(IMAGES).argmax(1))
    assert torch.equal(view_of(model, "labels", **common).labels(IMAGES), scores.argmax(1))
    with pytest.raises(InputError, match="target: expected access to its gradients, got a model that gives scores"):
        view_of(model, "gradients", **common)
    assert not model(IMAGES.clone().requires_grad_()).requires_grad


def test_held_out_images_are_of_every_class_and_leave_some_of_it():
    labels = torch.tensor([0] * 20 + [1] * 3 + [2] * 2)
    rows = Ssd(eps=1.0, share=0.2).hold_out(labels, torch.Generator().manual_seed(0))
    assert torch.bincount(labels[rows]).tolist() == [4, 1, 1] and len(rows.unique()) == 6
    with pytest.raises(InputError, match="ssd: share: expected to leave an image of class 1 to train on, got 1"):
        Ssd(eps=1.0).hold_out(torch.tensor([0, 0, 1]), torch.Generator())
    with pytest.raises(InputError, match="a clean image of every class held out, got none of class 3"):
        Ssd(eps=1.0).fit(shielded(), torch.zeros(3, 4), torch.tensor([0, 1, 2]))
