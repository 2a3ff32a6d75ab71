"""A StyleGAN2 cut into stages: from a block on it makes what the whole makes, or drops the skip where it is told to."""

import pytest
import torch

from smoothsweep.core.attacks.if_gmi.states import make_stage
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2

PRIOR = StyleGAN2(
    StyleGAN2Config(resolution=32, z_dim=8, w_dim=8, mapping_layers=1, channel_base=128, channel_max=16), seed=3
).double()
BLOCKS = len(PRIOR.config.sides)
RUN = Execution(ExecutionConfig(), "cpu")


@pytest.fixture(scope="module")
def w():
    return torch.randn(3, 8, generator=torch.Generator().manual_seed(0)).double()


def chain(w, crop, rgb):
    """The stages, and the states with which each begins where none has moved anything."""
    stages, states = [make_stage(RUN, PRIOR, crop, block=block, rgb=rgb)[0] for block in range(BLOCKS)], [w]
    for stage in stages[:-1]:
        states.append(stage.next_states(states[-1]))
    return stages, states


@pytest.mark.parametrize("crop", [None, 20, 21])
def test_with_the_skip_kept_every_stage_begins_with_the_image_of_the_one_before(w, crop):
    with torch.no_grad():
        whole = RUN.synthesizer(PRIOR, crop)(w[:, None])
        for stage, states in zip(*chain(w, crop, rgb=True), strict=True):
            torch.testing.assert_close(stage.images(states), whole, rtol=0, atol=1e-12)
    assert whole.shape[-1] == {None: 32, 20: 20, 21: 32}[crop]  # no window is centred in an odd distance


def test_with_the_skip_dropped_a_stage_loses_the_rgb_of_the_blocks_before(w):
    with torch.no_grad():
        whole, kept = PRIOR.synthesize(w[:, None]), chain(w, None, rgb=True)
        for block, (stage, states) in enumerate(zip(*chain(w, None, rgb=False), strict=True)):
            image = stage.images(states)
            assert torch.allclose(image, whole, rtol=0, atol=1e-12) == (block == 0)
            full = kept[1][block]
            assert torch.equal(full[:, : states.shape[1]], states)  # the same w and the same features
            if block:
                without = torch.cat([states, torch.zeros_like(full[:, states.shape[1] :])], 1)
                torch.testing.assert_close(image, kept[0][block].images(without), rtol=0, atol=1e-12)


def test_a_stage_moves_w_and_the_features_and_never_the_rgb(w):
    stages, states = chain(w, None, rgb=True)
    for block, (stage, begun) in enumerate(zip(stages, states, strict=True)):
        leaf = begun.detach().clone().requires_grad_(True)
        (gradient,) = torch.autograd.grad(stage.images(leaf).square().sum(), leaf)
        moved = torch.zeros(leaf.shape[1], dtype=torch.bool)
        for span in stage.optimised_columns:
            moved[span] = True
        assert (gradient[:, moved] != 0).any(0).float().mean() > 0.9
        assert (gradient[:, ~moved] == 0).all() and moved.all() == (block == 0)
        channels, side = (PRIOR.config.channels(2 ** (block + 1)), 2 ** (block + 1)) if block else (0, 0)
        assert leaf.shape[1] == 8 + (channels + 3) * side**2 and moved.sum() == 8 + channels * side**2
