"""Our attack and the yardstick, which does what the official code does step for step, find the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from benchmarks import attack_full, yardstick
from benchmarks.yardstick import Case
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2

CASE = Case(image=32, crop=25, target="resnet18", steps=10, candidates=6, batch=6, selected=3, pool=12)


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def networks():
    config = StyleGAN2Config(
        resolution=32, z_dim=128, w_dim=128, mapping_layers=1, channel_base=1024, channel_max=32, conv_clamp=256.0
    )
    target = build_classifier("resnet18", 50, protocol="clean").eval().double()
    return StyleGAN2(config, seed=1).requires_grad_(False).double(), target


def test_the_synthesis_of_both_sides_is_the_same(networks):
    prior, _ = networks
    w = torch.randn(2, 1, 128, generator=torch.Generator().manual_seed(0)).double()
    official = yardstick.OfficialSynthesis(prior)
    torch.testing.assert_close(official(w), prior.synthesize(w), atol=1e-10, rtol=0)


@pytest.fixture(scope="module")
def official(networks):
    """What the yardstick finds from these latents: start, end, the chosen ones and all scores."""
    prior, target = networks
    w0 = torch.randn(6, 1, 128, generator=torch.Generator().manual_seed(0)).double()
    synthesis = yardstick.OfficialSynthesis(prior)
    found = yardstick.optimise(synthesis, target, w0, 3, replace(CASE, steps=5))
    return w0, found, *yardstick.select(synthesis, target, found, 3, CASE)


@pytest.mark.parametrize("rows", [None, 4])
def test_in_double_precision_both_sides_find_the_same_latents_scores_and_choice(networks, official, rows):
    # In single precision Adam with betas of 0.1 turns rounding into whole steps wherever a gradient is near zero.
    prior, target = networks
    w0, expected, chosen, scores = official
    run = Execution(ExecutionConfig(rows_per_batch=rows), "cpu")
    found = attack_full.optimised(prior, target, w0, run, replace(CASE, steps=5))
    torch.testing.assert_close(found, expected, atol=1e-8, rtol=0)
    assert (expected - w0).abs().max() > 0.01
    best = attack_full.selected(prior, target, found, run, CASE)
    torch.testing.assert_close(best.all_scores.double(), scores.double(), atol=1e-5, rtol=0)
    torch.testing.assert_close(best.w, chosen, atol=1e-8, rtol=0)


def test_candidates_of_both_sides_are_the_same(networks):
    prior, target = (network.float() for network in networks)
    official = yardstick.OfficialSynthesis(prior)
    case = replace(CASE, batch=4)
    expected = yardstick.find_candidates(prior, official, target, [3], case)
    run = Execution(ExecutionConfig(), "cpu")
    torch.testing.assert_close(attack_full.candidates(prior, target, run, case), expected, atol=1e-6, rtol=0)
    prior.double(), target.double()
