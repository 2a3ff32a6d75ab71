"""The three stages against values of the published code (tests/golden/ppa.npz)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torchvision.transforms import RandomResizedCrop

from smoothsweep.core.attacks.optimisation.crops import Crops, Preprocess
from smoothsweep.core.attacks.optimisation.losses import poincare_loss
from smoothsweep.core.attacks.ppa.config import CandidateConfig, OptimiseConfig, Pool, SelectConfig
from smoothsweep.core.attacks.ppa.inversion import optimise
from smoothsweep.core.attacks.ppa.pool import decode_pool, make_candidates, sample_candidates
from smoothsweep.core.attacks.ppa.selection import select
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.priors.base import sample_latents

RUN = Execution(ExecutionConfig(), "cpu")
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
    """A prior whose latents are row numbers into given images; two w vectors, the first one counts."""

    z_dim, num_ws, w_dim = 7, 2, 1

    def __init__(self, images):
        self.images = images
        self.mapped = None

    def sample_z(self, n, seed):
        return sample_latents(n, self.z_dim, seed)

    def map(self, z, *, psi=1.0, cutoff=None):
        self.mapped = z, psi, cutoff
        first = torch.arange(len(z), dtype=torch.float32)[:, None]
        return torch.stack([first, first + 0.5], dim=1)

    def synthesize(self, w):
        return self.images[w[:, 0, 0].long()]


POOL, SHAPE = Pool(size=30, crop=16), Preprocess(size=8, crop=16)


class Scores:
    """A view of a target by its scores."""

    def __init__(self, weight):
        self.weight = weight

    def scores(self, images):
        return (images.flatten(1) @ self.weight).softmax(1)


@pytest.mark.parametrize(
    ("hflip", "clip", "suffix"),
    [(True, True, "hflip"), (False, True, "noflip"), (True, False, "hflip_noclip")],
)
def test_stage_1_matches_the_official_code(hflip, clip, suffix):
    prior, view, shape = GivenImages(golden("s1_raw_images")), Scores(golden("s1_classifier_weight")), SHAPE
    w, images = decode_pool(prior, POOL, (lambda x: shape(x.clamp(-1, 1))) if clip else shape, RUN)
    confidences = view.scores(images)
    if hflip:
        inputs = AttackInputs(protocol="paper", parts={"pool": {"images": images}})
        confidences = make_candidates({}, inputs, view, None).tensors["confidences"]
    if clip:
        torch.testing.assert_close(confidences, golden(f"s1_confidences_{suffix}"), atol=1e-5, rtol=0)
    for target_class, expected in enumerate(golden(f"s1_selected_index_{suffix}")):
        w0, index, confidence = sample_candidates(confidences, w, target_class, CandidateConfig(candidates=5))
        assert torch.equal(index, expected)
        assert torch.equal(w0, expected.float()[:, None, None])
        assert torch.equal(confidence, confidences[expected, target_class])


def test_ranking_matches_the_official_one():
    confidences, w = golden("s1_rank_confidences"), torch.zeros(40, 1, 1)
    for target_class, expected in enumerate(golden("s1_rank_selected_index")):
        _, index, _ = sample_candidates(confidences, w, target_class, CandidateConfig(candidates=6))
        assert torch.equal(index, expected)


def test_the_pool_is_the_official_one():
    prior = GivenImages(golden("s1_raw_images"))
    decode_pool(prior, POOL, SHAPE, RUN)
    z, psi, cutoff = prior.mapped
    torch.testing.assert_close(z[:4], golden("s1_z_seed42_first").float(), atol=1e-6, rtol=0)
    assert z.shape == (30, 7) and (psi, cutoff) == (0.5, 8)


def test_latents_of_the_paper_are_those_of_the_official_generator():
    head = sample_latents(2000, 512, 42)
    np.testing.assert_allclose(head[:2, :16], GOLDEN["s1_seed42_z2000_head"], atol=1e-12)
    for size in (2000, 5000):
        z = head if size == 2000 else sample_latents(size, 512, 42)
        stats = [z.sum(), z.std(), z[-1, -1], z[1000, 0]]
        np.testing.assert_allclose(stats, GOLDEN[f"s1_seed42_z{size}_stats"], rtol=1e-10)


def attack_rows(protocol, discriminator=None, **changes):
    """The attack, class by class, put back in the order of the golden rows (which mix classes in a batch)."""
    config = OptimiseConfig(**{"steps": 50, "crop_scale": (1, 1), **changes})
    targets, w0 = golden("s2_targets"), golden("s2_w0")
    w, loss = torch.empty_like(w0), torch.empty(config.steps, len(w0))
    for target_class in targets.unique().tolist():
        rows = targets == target_class
        (found,) = optimise(
            TanhPrior(),
            lambda x: x.flatten(1) @ golden("s2_target_weight"),
            [w0[rows]],
            [target_class],
            config,
            seed=0,
            protocol=protocol,
            transform=Preprocess(size=8),
            run=RUN,
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
    (found,) = select(
        GivenImages(golden("s3_raw_images")),
        lambda x: F.adaptive_avg_pool2d(x, 4).flatten(1) @ golden("s3_classifier_weight"),
        [rows.float()[:, None, None]],
        [target_class],
        config,
        seed=0,
        protocol="paper",
        transform=Preprocess(crop=20, size=16),
        run=RUN,
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
