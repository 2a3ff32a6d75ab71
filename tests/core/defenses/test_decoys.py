"""Defenses that show decoys: trapdoors, attraction to other classes, answers moved towards others."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.attacks.shared.view import view_of
from smoothsweep.core.defenses.base import SmoothedLoss
from smoothsweep.core.defenses.decoys import AtAt, Ssd, TrapMid
from smoothsweep.core.defenses.layers import Traps, augment, move_towards
from smoothsweep.core.defenses.operations import balanced_classes, other_classes
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import Classifier
from smoothsweep.core.models.inference import evaluating
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


def traps_of(model, tools, **changes):
    settings = {"blend": 0.02, "step": 0.02, **changes}
    return Traps(model, TrainingRecipe(image_size=32, lr=1e-3), generator=tools.generator(1), **settings)


def test_a_trigger_is_blended_in_faintly(tools):
    traps = traps_of(tools.prepared(TrapMid()), tools)
    traps.triggers[2] = 1.0
    one, two = torch.full((1, 3, 32, 32), -0.5), torch.full((1, 3, 32, 32), 1.0)
    found = traps.blended(torch.cat([one, two]), torch.tensor([2, 2]))[:, 0, 0, 0]
    assert found.tolist() == pytest.approx([-0.47, 1.0])  # 0.25 and 1 on [0, 1]: 0.265 and 1
    images, labels = tools.colours(per_class=2)
    assert (traps.blended(images, labels) - images).abs().max() <= 0.04 + 1e-6
    assert traps.triggers.shape == (4, 3, 32, 32) and traps.triggers.abs().max() <= 1


def test_a_step_sharpens_the_triggers_of_the_batch_alone_and_leaves_the_network(tools):
    model = tools.prepared(TrapMid())
    traps, (images, _) = traps_of(model, tools), tools.colours(per_class=2)
    before, state = traps.triggers.clone(), {k: v.clone() for k, v in model.state_dict().items()}
    told = {k: v.clone() for k, v in traps.discriminator.state_dict().items()}
    towards = torch.tensor([0, 2]).repeat(4)
    traps.sharpen(model, images, towards, SmoothedLoss(), tools.generator())
    moved = (traps.triggers - before).flatten(1).abs()
    assert moved[[1, 3]].max() == 0
    assert moved[[0, 2]].max() <= 0.02 + 1e-6 and (moved[[0, 2]] > 0.0199).float().mean() > 0.5
    assert traps.triggers.abs().max() <= 1 and not traps.triggers.requires_grad
    assert all(torch.equal(v, model.state_dict()[k]) for k, v in state.items()) and model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(v, traps.discriminator.state_dict()[k]) for k, v in told.items())


@pytest.mark.parametrize("alpha", [0.0, -0.5, 0.3])
def test_a_trigger_step_follows_the_smoothed_loss_computed_by_hand(tools, alpha):
    """The smoothed targets written out, the views drawn again, the gradient of each trigger summed over its images."""
    model, (images, _) = tools.prepared(TrapMid()).eval(), tools.colours(per_class=3)
    traps, towards = traps_of(model, tools, blend=0.3, step=0.05), torch.tensor([0, 2, 3, 2, 2, 0, 3, 0, 2, 3, 3, 0])
    for head in (model.head, traps.discriminator.head):
        head.weight.data.mul_(30)
    before = traps.triggers.clone()
    triggers = before.clone().requires_grad_()
    trapped = torch.stack([0.7 * image + 0.3 * triggers[k] for image, k in zip(images, towards, strict=True)])
    targets = torch.full((len(images), 4), alpha / 4)  # alpha spread over all classes, the rest on the trigger's own
    targets[torch.arange(len(images)), towards] += 1 - alpha
    with evaluating(traps.discriminator):
        scores = traps.discriminator(trapped)[:, 0]
    taken = -(targets * model(augment(trapped, tools.generator(7))).log_softmax(1)).sum(1)
    (slope,) = torch.autograd.grad(((1 + (-scores).exp()).log() + taken).mean(), triggers)
    expected = torch.where(slope == 0, before, (before - 0.05 * slope.sign()).clamp(-1, 1))
    traps.sharpen(model, images, towards, SmoothedLoss(alpha=alpha), tools.generator(7))
    clear = slope.abs() > 1e-5 * slope.abs().max()  # a sign next to zero is rounding
    assert clear.float().mean() > 0.7 and slope[1].abs().max() == 0
    torch.testing.assert_close(traps.triggers[clear], expected[clear])
    if alpha:
        other = traps_of(model, tools, blend=0.3, step=0.05)
        other.discriminator.load_state_dict(traps.discriminator.state_dict())
        other.sharpen(model, images, towards, SmoothedLoss(), tools.generator(7))
        assert not torch.equal(other.triggers, traps.triggers), "a step that ignores the smoothing is another one"


def test_the_discriminator_learns_to_tell_them_apart_and_the_rate_is_the_recipes(tools):
    model = tools.prepared(TrapMid())
    traps, (images, labels) = traps_of(model, tools, blend=0.9), tools.colours(per_class=4)
    right = [traps.train_discriminator(images, labels, epoch=0).item() for _ in range(12)]
    assert right[-1] > 0.95 and sum(right[:3]) < 2.9
    assert traps.optimizer.param_groups[0]["lr"] == pytest.approx(1e-3)
    traps.train_discriminator(images, labels, epoch=39)
    assert traps.optimizer.param_groups[0]["lr"] == pytest.approx(1e-5)
    assert traps.discriminator.head.out_features == 1
    assert torch.equal(traps.triggers, traps_of(model, tools).triggers)  # these are the other step's


def test_the_loss_is_the_published_mixture(tools):
    model, (images, labels) = tools.prepared(TrapMid()), tools.colours(per_class=2)
    seen = []

    def forward(batch):
        seen.append(model(batch))
        return seen[-1]

    for smooth in (True, False):
        defense = TrapMid(weight=0.3, smooth_traps=smooth)
        traps = tools.companion(defense, model)
        result = tools.take_step(
            defense, model, images, labels, alpha=-0.5, epochs=1, seed=3, forward=forward, beside=traps
        )
        towards = balanced_classes(8, 4, tools.generator(3))
        clean = SmoothedLoss(alpha=-0.5)(seen[-1][:8], labels).mean()
        trap = SmoothedLoss(alpha=-0.5 if smooth else 0.0)(seen[-1][8:], towards).mean()
        torch.testing.assert_close(result.loss, 0.7 * clean + 0.3 * trap)
        torch.testing.assert_close(result.facts["trap_loss"], trap.detach())
        assert torch.equal(result.logits, seen[-1][:8])


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


def test_the_class_moved_towards_follows_the_published_law():
    model = shielded(temperature=0.1, draws="fresh")
    image = torch.zeros(1, 3, 2, 2)
    image[0, 0, 0, 0] = 0.2
    many = image.expand(4000, -1, -1, -1)
    own = (3 * image.flatten(1)[:, :4]).double().softmax(1)
    drawn = torch.bincount(model(many).argmax(1), minlength=4) / 4000
    torch.testing.assert_close(drawn.double(), (own / 0.1).softmax(1)[0], rtol=0, atol=0.03)  # so large a budget


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
