import pytest
import torch

from smoothsweep.core.defenses.base import SmoothedLoss
from smoothsweep.core.defenses.decoys import TrapMid, Traps, augment, balanced_classes
from smoothsweep.core.models.inference import evaluating
from smoothsweep.core.models.recipe import TrainingRecipe


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


def test_the_companion_goes_into_a_file_of_plain_tensors_and_back(tools, tmp_path):
    model, (images, labels) = tools.prepared(TrapMid()), tools.colours(per_class=2)
    one, two = tools.companion(TrapMid(), model), tools.companion(TrapMid(), model, seed=9)
    one.train_discriminator(images, labels, epoch=0)
    one.sharpen(model, images, labels, SmoothedLoss(), tools.generator())
    torch.save(one.state_dict(), tmp_path / "state.pt")
    two.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for traps in (one, two):
        traps.train_discriminator(images, labels, epoch=0)
    pairs = zip(one.discriminator.parameters(), two.discriminator.parameters(), strict=True)
    assert all(torch.equal(*pair) for pair in pairs) and torch.equal(one.triggers, two.triggers)
