"""Stages 2 and 3 against values of the published code (tests/golden/ppa.npz)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torchvision.transforms import RandomResizedCrop

from smoothsweep.core.attacks.optimisation.crops import Crops, Preprocess
from smoothsweep.core.attacks.optimisation.losses import poincare_loss
from smoothsweep.core.attacks.ppa.config import OptimiseConfig, SelectConfig
from smoothsweep.core.attacks.ppa.inversion import optimise, select

GOLDEN = np.load(Path(__file__).parents[3] / "golden" / "ppa.npz")


def golden(name):
    return torch.from_numpy(GOLDEN[name])


class TanhPrior:
    """The stand-in generator of the stage-2 values: four places, one linear map, tanh, a range beyond [-1,
    1].
    """

    z_dim = w_dim = 6
    num_ws, resolution = 4, 8

    def synthesize(self, w):
        places = w.expand(-1, self.num_ws, -1).flatten(1)
        return (torch.tanh(places @ golden("s2_generator_weight")) * 1.2).view(-1, 3, 8, 8)


class GivenImages:
    def __init__(self, images):
        self.images = images

    def synthesize(self, w):
        return self.images[w[:, 0, 0].long()]


def attack_rows(protocol, discriminator=None, **changes):
    """The attack, class by class, put back in the order of the golden rows (which mix classes in a batch)."""
    config = OptimiseConfig(**{"steps": 50, "crop_scale": (1, 1), **changes})
    targets, w0 = golden("s2_targets"), golden("s2_w0")
    w, loss = torch.empty_like(w0), torch.empty(config.steps, len(w0))
    for target_class in targets.unique().tolist():
        rows = targets == target_class
        found = optimise(
            TanhPrior(),
            lambda x: x.flatten(1) @ golden("s2_target_weight"),
            w0[rows],
            target_class,
            config,
            seed=0,
            protocol=protocol,
            transform=Preprocess(size=8),
            device="cpu",
            discriminator=discriminator,
        )
        w[rows], loss[:, rows] = found.w, found.loss
    return w, loss


@pytest.mark.parametrize("protocol", ["paper", "clean"])
def test_optimisation_matches(protocol):
    w, loss = attack_rows(protocol)
    torch.testing.assert_close(w, golden("s2_w_final_noclip"), atol=2e-3, rtol=0)
    torch.testing.assert_close(loss[0], golden("s2_loss_initial"), atol=2e-3, rtol=0)
    logits = TanhPrior().synthesize(w).flatten(1) @ golden("s2_target_weight")
    final = poincare_loss(logits, golden("s2_targets"), norm="computed")
    torch.testing.assert_close(final, golden("s2_loss_final_noclip"), atol=2e-3, rtol=0)


def test_a_single_step_matches():
    torch.testing.assert_close(attack_rows("paper", steps=1)[0], golden("s2_w_after_1step"), atol=1e-5, rtol=0)


def test_optimisation_with_clipping_matches():
    torch.testing.assert_close(attack_rows("paper", clip=True)[0], golden("s2_w_final_clip"), atol=2e-3, rtol=0)


def test_optimisation_with_a_discriminator_matches():
    w, _ = attack_rows(
        "paper",
        discriminator=lambda x: x.flatten(1) @ golden("s2_discriminator_weight"),
        discriminator_weight=0.3,
    )
    torch.testing.assert_close(w, golden("s2_w_final_disc03"), atol=2e-3, rtol=0)


def selected(target_class, config, **more):
    rows = (golden("s3_targets") == target_class).nonzero().flatten()
    found = select(
        GivenImages(golden("s3_raw_images")),
        lambda x: F.adaptive_avg_pool2d(x, 4).flatten(1) @ golden("s3_classifier_weight"),
        rows.float()[:, None, None],
        target_class,
        config,
        seed=0,
        protocol="paper",
        transform=Preprocess(crop=20, size=16),
        device="cpu",
        **more,
    )
    assert torch.equal(found.w.flatten().long(), rows[found.order])
    return rows[found.order], found.all_scores


def test_scores_without_augmentation_match():
    config = SelectConfig(
        selected=4, selection_repeats=1, selection_crop_scale=(1, 1), selection_crop_ratio=(1, 1), selection_hflip=0
    )
    scores = torch.cat([selected(target_class, config)[1] for target_class in (0, 2)])
    torch.testing.assert_close(scores, golden("s3_scores_identity"), atol=1e-6, rtol=0)


def torchvision_crop(rule, count, height, width, source):
    """One crop as torchvision draws it, from torch's global generator, and then its flip."""
    image = torch.empty(3, height, width)
    box = RandomResizedCrop.get_params(image, list(rule.scale), list(rule.ratio))
    top, left, height, width = torch.tensor(box, dtype=torch.float64)[:, None]
    return Crops(top=top, left=left, height=height, width=width, mirror=torch.rand(1) < rule.hflip)


@pytest.fixture
def global_seed():
    with torch.random.fork_rng():
        torch.manual_seed(123)
        yield


ROBUST = SelectConfig(selected=2, selection_repeats=25, selection_view_size=224)


def test_scores_under_the_official_random_crops_match(global_seed):
    scores = torch.cat([selected(c, ROBUST, draw_crops=torchvision_crop)[1] for c in (0, 2)])
    torch.testing.assert_close(scores, golden("s3_scores_seed123"), atol=1e-4, rtol=0)


def test_the_official_selection_matches(global_seed):
    kept = []
    for target_class in (0, 2):
        # The recorded selection consumed one more number per class: the base seed of a data loader's
        # iterator.
        torch.empty((), dtype=torch.int64).random_()
        kept.append(selected(target_class, ROBUST, draw_crops=torchvision_crop)[0])
    kept = torch.cat(kept)
    assert torch.equal(kept, golden("s3_selected_index"))
    assert torch.equal(golden("s3_targets")[kept], golden("s3_selected_targets"))
