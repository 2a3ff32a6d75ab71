import pytest
import torch
import torch.nn.functional as F
from torch import nn

from smoothsweep.core.defenses.decoys import AtAt, other_classes
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import Classifier
from smoothsweep.core.models.recipe import TrainingRecipe

HAND = torch.tensor([[2.0, -1.0], [1.5, -0.5]])


def linear(weight):
    """Logits of images that are linear in their pixels, weight [C, pixels]."""
    model = Classifier("resnet_small", nn.Flatten(), nn.Linear(weight.shape[1], weight.shape[0], bias=False))
    model.head.weight.data.copy_(weight)
    return model


def test_loss_of_a_hand_computed_step(tools):
    model, images = linear(torch.eye(2, 3)), torch.zeros(1, 3, 1, 1)
    result = tools.take_step(AtAt(), model, images, torch.tensor([0]), forward=lambda _: HAND, beside=False)
    assert result.loss.item() == pytest.approx(0.048587 + 0.08 * 2.126928, abs=1e-6)
    assert result.facts["towards_loss"].item() == pytest.approx(2.126928, abs=1e-6)
    assert result.facts["towards_acc"] == 0 and torch.equal(result.logits, HAND[:1])


def test_only_the_unmoved_images_are_smoothed(tools):
    images, labels = tools.colours(per_class=2)
    both = []

    def forward(batch):
        both.append(model(batch))
        return both[-1]

    model = tools.prepared(AtAt())
    result = tools.take_step(AtAt(), model, images, labels, alpha=0.2, forward=forward)
    smoothed = F.cross_entropy(both[0][:8], labels, label_smoothing=0.2)
    torch.testing.assert_close(result.loss, smoothed + 0.08 * result.facts["towards_loss"])


def test_pixels_of_a_linear_network_move_as_the_formula_says(tools):
    """By sign * min(eps, u + steps * step) with u uniform: three quarters of eps on average, half of them all of it."""
    signs = torch.randn(1, 3000, generator=tools.generator(1)).sign()
    model, images = linear(torch.cat([-signs, signs])), torch.zeros(4, 3, 20, 50)
    moved = AtAt().move_images(model, images, torch.ones(4, dtype=torch.long), tools.generator(3)).flatten(1)
    start = 2 * torch.rand(images.shape, generator=tools.generator(3)).flatten(1) - 1
    expected = signs * torch.clamp(5e-4 * start * signs + 5e-4, max=5e-4)
    torch.testing.assert_close(moved, expected, rtol=0, atol=1e-9)
    along = moved * signs / 5e-4
    assert along.min() > -1e-3 and along.mean().item() == pytest.approx(0.75, abs=0.01)
    assert (along > 0.999).float().mean().item() == pytest.approx(0.5, abs=0.02)
    corner = AtAt(eps=0.3, step=0.1).move_images(
        model, torch.full_like(images, 0.9), torch.ones(4).long(), tools.generator()
    )
    assert corner.abs().max() <= 1 and corner.min() >= 0.9 - 0.3 - 1e-6


def test_classes_to_move_towards_follow_the_published_law(tools):
    labels = torch.randint(10, (40_000,), generator=tools.generator(1))
    offsets = torch.bincount((other_classes(labels, 10, tools.generator(2)) - labels) % 10, minlength=10) / len(labels)
    assert offsets.tolist() == pytest.approx([0, 0.2, *[0.1] * 8], abs=0.01)
    assert other_classes(torch.tensor([0, 1]), 2, tools.generator()).tolist() == [1, 0]


def test_the_descent_leaves_no_trace_in_the_network(tools):
    model, (images, labels) = tools.prepared(AtAt()), tools.colours(per_class=2)
    before = [buffer.clone() for buffer in model.buffers()]
    AtAt().move_images(model, images, (labels + 1) % 4, tools.generator())
    assert all(torch.equal(*pair) for pair in zip(before, model.buffers(), strict=True))
    assert all(parameter.grad is None for parameter in model.parameters())
    tools.take_step(AtAt(), model, images, labels)
    tracked = [buffer.item() for name, buffer in model.named_buffers() if name.endswith("num_batches_tracked")]
    assert tracked and set(tracked) == {1}


def test_precision_too_coarse_for_eps_is_refused():
    with pytest.raises(InputError, match="defense at_at: expected a recipe with precision fp32, got 'bf16'"):
        AtAt().adjust_recipe(TrainingRecipe(precision="bf16"))
