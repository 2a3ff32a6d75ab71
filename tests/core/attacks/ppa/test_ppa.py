from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from smoothsweep.core.attacks.optimisation.crops import Preprocess
from smoothsweep.core.attacks.ppa.config import CandidateConfig, OptimiseConfig, PoolConfig, PPAConfig, SelectConfig
from smoothsweep.core.attacks.ppa.inversion import invert_class, optimise, select
from smoothsweep.core.attacks.ppa.pool import decode_pool, preprocess_of, score_pool
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


def test_under_clean_the_batch_size_is_only_a_matter_of_memory(prior, target, pool):
    whole = dataclasses.replace(
        CONFIG,
        optimise=dataclasses.replace(CONFIG.optimise, batch_size=100),
    )
    first, second = invert(prior, target, pool, 4), invert(prior, target, pool, 4, config=whole)
    torch.testing.assert_close(first.candidates.w, second.candidates.w, atol=1e-3, rtol=0)
    torch.testing.assert_close(first.scores, second.scores, atol=1e-3, rtol=0)


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


def test_all_places_of_w_are_optimised_on_request(prior, target, pool):
    config = dataclasses.replace(CONFIG, candidates=CandidateConfig(candidates=4, single_w=False))
    found = invert(prior, target, pool, 2, config=config)
    assert found.w.shape == (4, 3, 5)
    assert not torch.equal(found.w[:, 0], found.w[:, 1])


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
