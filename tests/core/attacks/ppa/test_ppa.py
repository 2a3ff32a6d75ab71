from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from smoothsweep.core.attacks.optimisation.crops import CropRule, Preprocess, draw_shared_crop
from smoothsweep.core.attacks.ppa.adaptive_config import Restarts
from smoothsweep.core.attacks.ppa.config import CandidateConfig, OptimiseConfig, PoolConfig, PPAConfig, SelectConfig
from smoothsweep.core.attacks.ppa.inversion import Stages, invert_class, optimise, select
from smoothsweep.core.attacks.ppa.pool import decode_pool, preprocess_of, sample_candidates, score_pool
from smoothsweep.core.attacks.ppa.restarts import around
from smoothsweep.core.attacks.ppa.results import OptimiseResult
from smoothsweep.core.errors import InputError
from smoothsweep.core.priors.base import sample_latents, truncate


class TinyPrior(nn.Module):
    """Linear, 12 x 12 pixels, three places for w."""

    z_dim = w_dim = 5
    num_ws, resolution = 3, 12

    def __init__(self):
        super().__init__()
        coarse = torch.randn(15, 3, 3, 3, generator=torch.Generator().manual_seed(1)) * 0.3
        self.weight = nn.Parameter(coarse.repeat_interleave(4, 2).repeat_interleave(4, 3).flatten(1))
        self.synthesised = 0

    def sample_z(self, n, seed):
        return sample_latents(n, self.z_dim, seed)

    def map(self, z, *, psi=1.0, cutoff=None):
        return truncate(z[:, None].expand(-1, 3, -1), 0.0, psi=psi, cutoff=cutoff)

    def synthesize(self, w):
        self.synthesised += len(w)
        return (w.expand(-1, 3, -1).flatten(1) @ self.weight).view(-1, 3, 12, 12)


def tiny_target():
    """Six classes: red, green, blue, and their complements, by the mean colour."""
    colours = torch.cat([torch.eye(3), -torch.eye(3)])
    convolution = nn.Conv2d(3, 6, 1, bias=False)
    convolution.weight.data = 6 * colours[:, :, None, None]
    return nn.Sequential(convolution, nn.BatchNorm2d(6), nn.AdaptiveAvgPool2d(1), nn.Flatten())


CONFIG = PPAConfig(
    pool=PoolConfig(size=40, truncation_psi=0.7, truncation_cutoff=1, crop=10, image_size=8),
    candidates=CandidateConfig(candidates=7),
    optimise=OptimiseConfig(steps=10, lr=0.1, batch_size=3),
    select=SelectConfig(selected=4, selection_repeats=5),
)
COMMON = {"seed": 5, "transform": preprocess_of(CONFIG.pool), "device": "cpu"}


@pytest.fixture(scope="module")
def prior():
    return TinyPrior()


@pytest.fixture(scope="module")
def target():
    return tiny_target()


@pytest.fixture(scope="module")
def pool(prior, target):
    w, images = decode_pool(prior, CONFIG.pool, device="cpu", batch_size=16)
    return w, score_pool(target, images, hflip=True, batch_size=16, device="cpu")


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def invert(prior, target, pool, target_class, protocol="clean", config=CONFIG, **more):
    settings = {"seed": 5, "protocol": protocol, "device": "cpu", **more}
    return invert_class(prior, target, pool[1], pool[0], target_class, config, **settings)


def tensors(result):
    found = [v for v in vars(result).values() if isinstance(v, torch.Tensor)]
    return found + [v for v in vars(result.candidates).values() if isinstance(v, torch.Tensor)]


def same(first, second):
    return all(
        torch.equal(a.nan_to_num(-9), b.nan_to_num(-9)) for a, b in zip(tensors(first), tensors(second), strict=True)
    )


def test_restarts_are_descents_of_their_own_among_the_candidates(prior, target, pool):
    restarts = Restarts(count=2, spread=0.3)
    config = dataclasses.replace(CONFIG, candidates=dataclasses.replace(CONFIG.candidates, restarts=restarts))
    found = invert(prior, target, pool, 1, config=config)
    starts = sample_candidates(pool[1], pool[0], 1, CONFIG.candidates, seed=5)
    w0, index, confidence = around(starts, pool[0], restarts, seed=5, target_class=1)
    own = optimise(
        prior,
        target,
        w0,
        1,
        config.optimise,
        seed=5,
        protocol="clean",
        device="cpu",
        transform=preprocess_of(config.pool),
    )
    assert torch.equal(found.candidates.w, own.w) and torch.equal(found.candidate_index, index)
    assert torch.equal(found.candidate_confidence, confidence) and len(own.w) == 2 * len(starts[0])


@pytest.mark.parametrize("protocol", ["paper", "clean"])
@pytest.mark.parametrize("loss", ["poincare", "cross_entropy"])
def test_the_attack_raises_the_confidence_in_the_class(prior, target, pool, protocol, loss):
    config = dataclasses.replace(CONFIG, optimise=dataclasses.replace(CONFIG.optimise, loss=loss))
    found = invert(prior, target, pool, 2, protocol, config)
    before = select(prior, target, pool[0][found.candidate_index, :1], 2, CONFIG.select, protocol=protocol, **COMMON)
    assert found.scores.mean() > before.scores.mean() + 0.1
    assert found.loss_curve[-1] < found.loss_curve[0] and found.loss_curve.shape == (10,)
    assert -1 <= found.gradient_cosine <= 1 and found.num_frozen == 0


def test_rows_of_a_reconstruction_belong_together(prior, target, pool):
    found = invert(prior, target, pool, 1)
    assert found.target_class == 1 and found.w.shape == (4, 1, 5) and found.candidates.w.shape == (7, 1, 5)
    assert (found.scores.diff() <= 0).all() and (found.candidate_confidence.diff() <= 0).all()
    position = [found.candidate_index.tolist().index(i) for i in found.pool_index.tolist()]
    assert torch.equal(found.candidates.w[position], found.w)
    assert torch.equal(found.candidate_confidence, pool[1][found.candidate_index, 1])
    assert found.candidates.loss.shape == (10, 7) and found.candidates.gradient_cosine.shape == (9, 7)


@pytest.mark.parametrize("protocol", ["paper", "clean"])
def test_a_class_alone_equals_the_class_among_others_in_any_order(prior, target, pool, protocol):
    alone = invert(prior, target, pool, 3, protocol)
    torch.manual_seed(99)  # the state of the global generator is of no concern
    among = {c: invert(prior, target, pool, c, protocol) for c in (5, 3, 0)}
    assert same(alone, among[3])
    torch.rand(3)
    again = {c: invert(prior, target, pool, c, protocol) for c in (0, 3, 5)}
    assert all(same(among[c], again[c]) for c in among)


def test_seed_and_class_change_the_draws(prior, target, pool):
    first, other = invert(prior, target, pool, 3), invert(prior, target, pool, 3, seed=6)
    assert not torch.equal(first.w, other.w)


def test_the_global_generator_is_not_touched(prior, target, pool):
    before = torch.get_rng_state()
    invert(prior, target, pool, 0)
    assert torch.equal(before, torch.get_rng_state())


def test_under_clean_the_batch_size_is_only_a_matter_of_memory(prior, target, pool):
    whole = dataclasses.replace(
        CONFIG,
        optimise=dataclasses.replace(CONFIG.optimise, batch_size=100),
    )
    first, second = invert(prior, target, pool, 4), invert(prior, target, pool, 4, config=whole)
    torch.testing.assert_close(first.candidates.w, second.candidates.w, atol=1e-3, rtol=0)
    torch.testing.assert_close(first.scores, second.scores, atol=1e-3, rtol=0)


def spy(calls):
    def draw(rule, count, height, width, source):
        calls.append((rule, count, height, width))
        return draw_shared_crop(rule, count, height, width, source)

    return draw


def test_crops_are_drawn_once_per_batch_and_step_and_once_per_view(prior, target, pool):
    calls = []
    w0 = pool[0][:7, :1]
    optimise(prior, target, w0, 0, CONFIG.optimise, protocol="paper", draw_crops=spy(calls), **COMMON)
    assert calls == [(CropRule(scale=(0.9, 1.0)), 7, 8, 8)] * 3 * 10
    calls.clear()
    select(prior, target, w0, 0, CONFIG.select, protocol="paper", draw_crops=spy(calls), **COMMON)
    assert calls == [(CropRule(scale=(0.5, 0.9), ratio=(0.8, 1.2), hflip=0.5), 7, 8, 8)] * 5


def test_crops_that_nobody_gave_are_the_protocols_own(prior, target, pool):
    w0, ways = pool[0][:7, :1], {"protocol": "paper", **COMMON}
    small, still = (dataclasses.replace(CONFIG.optimise, crop_scale=scale) for scale in ((0.2, 0.5), (1.0, 1.0)))
    own, given = (optimise(prior, target, w0, 0, small, draw_crops=draw, **ways) for draw in (None, draw_shared_crop))
    assert torch.equal(own.w, given.w)
    assert not torch.equal(own.w, optimise(prior, target, w0, 0, still, **ways).w)
    calls = []
    optimise(prior, target, w0, 0, still, draw_crops=spy(calls), **ways)
    assert len(calls) == 3 * 10  # one that was given is asked whatever the rule


def test_selection_synthesises_each_candidate_once(prior, target, pool):
    prior.synthesised = 0
    select(prior, target, pool[0][:7, :1], 0, CONFIG.select, protocol="clean", **COMMON)
    assert prior.synthesised == 7


def test_networks_are_used_frozen_and_given_back_as_they_were(prior, pool):
    target, seen = tiny_target().train(), []
    statistics = target[1].running_mean.clone()
    target.register_forward_hook(lambda m, *_: seen.append(m.training or m[0].weight.requires_grad))
    found = invert(prior, target, pool, 0)
    assert seen and not any(seen)
    assert target.training and target[0].weight.requires_grad and prior.weight.requires_grad
    assert target[0].weight.grad is None and prior.weight.grad is None
    assert torch.equal(statistics, target[1].running_mean)
    assert not any(tensor.requires_grad for tensor in tensors(found))


def test_a_plain_function_can_be_the_target(prior, target, pool):
    target.eval()
    # A module's BatchNorm is folded into its convolutions, a function is called as it is: equal but for rounding.
    module, function = invert(prior, target, pool, 2), invert(prior, lambda x: target(x), pool, 2)
    torch.testing.assert_close(module.candidates.w, function.candidates.w, atol=1e-3, rtol=0)
    torch.testing.assert_close(module.scores, function.scores, atol=1e-4, rtol=0)


def test_a_latent_that_breaks_is_frozen_counted_and_ranked_last(prior, target, pool):
    w0 = pool[0][:6, :1].clone()
    w0[2] = torch.nan
    arguments = {"protocol": "clean", **COMMON}
    found = optimise(prior, target, w0, 0, CONFIG.optimise, **arguments)
    others = [0, 1, 3, 4, 5]
    healthy = optimise(prior, target, w0.nan_to_num(0.0), 0, CONFIG.optimise, **arguments)
    assert found.num_frozen == 1 and found.frozen.tolist() == [False, False, True, False, False, False]
    assert torch.equal(found.w[others], healthy.w[others]) and found.w[2].isnan().all()
    kept = select(prior, target, found.w, 0, dataclasses.replace(CONFIG.select, selected=6), **arguments)
    assert kept.order[-1] == 2 and kept.scores[:-1].isfinite().all() and kept.scores[-1].isnan()


def test_every_stage_can_be_replaced(prior, target, pool):
    def untouched(prior, target, w0, target_class, config, **_):
        loss = torch.zeros(1, len(w0))
        frozen = torch.zeros(len(w0), dtype=torch.bool)
        return OptimiseResult(w=w0, loss=loss, gradient_cosine=loss[:0], latent_cosine=loss[:0], frozen=frozen)

    found = invert(prior, target, pool, 2, stages=Stages(optimise=untouched))
    assert torch.equal(found.w, pool[0][found.pool_index, :1])
    assert found.gradient_cosine != found.gradient_cosine  # nothing was measured


def test_all_places_of_w_are_optimised_on_request(prior, target, pool):
    config = dataclasses.replace(CONFIG, candidates=CandidateConfig(candidates=4, single_w=False))
    found = invert(prior, target, pool, 2, config=config)
    assert found.w.shape == (4, 3, 5)
    assert not torch.equal(found.w[:, 0], found.w[:, 1])


def test_the_callback_sees_batches_and_steps(prior, target, pool):
    seen = []
    invert(prior, target, pool, 0, on_step=lambda batch, step, loss: seen.append((batch, step, len(loss))))
    assert seen == [(batch, step, size) for batch, size in enumerate((3, 3, 1)) for step in range(10)]


def test_wrong_requests_are_input_errors(prior, target, pool):
    w0 = pool[0][:3, :1]
    weighted = OptimiseConfig(steps=1, discriminator_weight=0.1)
    with pytest.raises(InputError, match="needs a discriminator"):
        optimise(prior, target, w0, 0, weighted, protocol="paper", **COMMON)
    with pytest.raises(InputError, match="paper or clean"):
        optimise(prior, target, w0, 0, OptimiseConfig(steps=1), protocol="other", **COMMON)
    with pytest.raises(InputError, match="at most the 3 candidates"):
        select(prior, target, w0, 0, CONFIG.select, protocol="paper", **COMMON)
    with pytest.raises(InputError, match="at least 13 x 13"):
        optimise(
            prior,
            target,
            w0,
            0,
            OptimiseConfig(steps=1),
            seed=0,
            protocol="paper",
            transform=Preprocess(size=8, crop=13),
            device="cpu",
        )
