import sys

import pytest
import torch

from smoothsweep.core.defenses.base import SmoothedLoss
from smoothsweep.core.defenses.dp_sgd import DpSgd, epsilon, steps_of_epoch
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.models.recipe import TrainingRecipe


def test_epsilons_that_opacus_states():
    assert epsilon(1.0, 0.01, 1000, delta=1e-5) == pytest.approx(2.1014, abs=1e-4)
    recipe = TrainingRecipe(batch_size=128, epochs=100)
    found = [DpSgd(noise=noise).guarantees(recipe, images=34_000, epochs=100)["dp_epsilon"] for noise in (0.5, 1, 2, 4)]
    assert found == pytest.approx([27.5, 3.57, 1.28, 0.57], rel=0.01)
    stopped = DpSgd(noise=1.0).guarantees(recipe, images=34_000, epochs=10)["dp_epsilon"]
    assert 0 < stopped < found[1]


def test_no_epsilon_is_stated_where_batches_are_too_small_for_it():
    found = DpSgd(noise=1.0).guarantees(TrainingRecipe(batch_size=31), images=100, epochs=1)
    assert found == {"dp_epsilon": None}


def test_the_gradient_is_the_sum_of_clipped_ones_over_the_expected_batch(tools):
    """Against a loop over the images; the noise alone is left of a second step whose images say nothing."""
    images, labels = tools.colours(per_class=5)
    clip, noise = 0.5, 1e-9
    defense = DpSgd(noise=noise, clip=clip)
    model = tools.prepared(defense)
    result = tools.take_step(defense, model, images, labels, alpha=-0.05)
    result.loss.backward()
    sums, over = {name: torch.zeros_like(p) for name, p in model.named_parameters()}, 0
    for image, label in zip(images, labels, strict=True):
        loss = SmoothedLoss(alpha=-0.05)(model(image[None]), label[None]).squeeze()
        own = dict(zip(sums, torch.autograd.grad(loss, list(model.parameters())), strict=True))
        length = torch.sqrt(sum(part.square().sum() for part in own.values()))
        over += bool(length > clip)
        for name, part in own.items():
            sums[name] += part * min(1.0, clip / (length.item() + 1e-6))
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, sums[name] / 16, rtol=1e-3, atol=1e-6)  # expected: `take_step`'s 16
    assert result.facts["clipped"].item() == pytest.approx(over / 20) and over > 0
    plain = SmoothedLoss(alpha=-0.05)(model(images), labels).mean()
    torch.testing.assert_close(result.loss.detach(), plain.detach())


def test_the_noise_has_the_deviation_that_is_accounted_for(tools):
    defense = DpSgd(noise=50.0, clip=0.1)
    model, (images, labels) = tools.prepared(defense), tools.colours(per_class=2)
    tools.take_step(defense, model, images, labels).loss.backward()
    noise = torch.cat([p.grad.flatten() for p in model.parameters()])
    assert noise.std().item() == pytest.approx(50 * 0.1 / 16, rel=0.01) and abs(noise.mean().item()) < 0.01


def test_poisson_batches_take_every_image_with_the_same_probability(tools):
    defense, labels = DpSgd(noise=1.0), torch.zeros(200, dtype=torch.long)
    batches = [batch for epoch in range(200) for batch in defense.sampler(labels, 40, tools.generator(epoch))]
    assert len(batches) == 200 * steps_of_epoch(200, 40) == 1000
    often = torch.bincount(torch.cat(batches), minlength=200) / len(batches)
    assert often.mean().item() == pytest.approx(0.2, abs=0.005) and often.std().item() < 0.02
    sizes = torch.tensor([len(batch) for batch in batches]).double()
    assert sizes.var().item() == pytest.approx(200 * 0.2 * 0.8, rel=0.15)  # binomial: a permutation has none
    with pytest.raises(InputError, match="dp_sgd: expected a batch_size of at most the 200 images, got 201"):
        defense.sampler(labels, 201, tools.generator())


@pytest.mark.parametrize("architecture", ["resnet_small", "vgg_small", "resnet18", "ir50_64"])
def test_opacus_finds_nothing_left_that_mixes_images(architecture):
    from opacus.validators import ModuleValidator

    model = build_classifier(architecture, 4, protocol="clean").train()
    assert ModuleValidator.validate(model)
    DpSgd(noise=1.0).prepare(model, generator=torch.Generator())
    assert ModuleValidator.validate(model) == []


def test_what_it_cannot_be_trained_with_is_refused(monkeypatch):
    with pytest.raises(InputError, match="defense dp_sgd: expected a recipe with precision fp32, got 'bf16'"):
        DpSgd(noise=1.0).adjust_recipe(TrainingRecipe(precision="bf16"))
    monkeypatch.setattr("smoothsweep.core.defenses.dp_sgd.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"expected opacus beside smoothsweep \(pip install 'smoothsweep\[dp\]'\)"):
        DpSgd(noise=1.0).adjust_recipe(TrainingRecipe())
    assert "opacus" in sys.modules
