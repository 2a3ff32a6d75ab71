"""Plug & Play against values of the published code (tests/golden/ppa.npz), and its classes side by side."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torchvision.transforms import RandomResizedCrop

from smoothsweep.core.attacks.optimisation.crops import DRAW_CROPS, Crops, Preprocess
from smoothsweep.core.attacks.optimisation.descent import poincare_loss
from smoothsweep.core.attacks.ppa.attack import TEMPERATURE, Optimise, PlugAndPlay, Select
from smoothsweep.core.attacks.ppa.config import (
    Averaging,
    CandidateConfig,
    OptimiseConfig,
    Pool,
    Restarts,
    SelectConfig,
    TemperatureScaling,
)
from smoothsweep.core.attacks.ppa.inversion import optimise
from smoothsweep.core.attacks.ppa.pool import decode_pool, make_candidates, sample_candidates
from smoothsweep.core.attacks.ppa.selection import select
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.priors.base import sample_latents
from tests.core.attacks.looking import Rows, alone_and_beside

RUN = Execution(ExecutionConfig(), "cpu")
GOLDEN = np.load(Path(__file__).parents[2] / "golden" / "ppa.npz")


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
    ("hflip", "clip", "suffix"), [(True, True, "hflip"), (False, True, "noflip"), (True, False, "hflip_noclip")]
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
        "paper", discriminator=lambda x: x.flatten(1) @ golden("s2_discriminator_weight"), discriminator_weight=0.3
    )
    torch.testing.assert_close(w, golden("s2_w_final_disc03"), atol=2e-3, rtol=0)


def selected(target_class, config):
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
def official_crops(monkeypatch):
    """Torchvision's draws in the place of ours, from a seeded global generator."""
    monkeypatch.setitem(DRAW_CROPS, "paper", torchvision_crop)
    with torch.random.fork_rng():
        torch.manual_seed(123)
        yield


ROBUST = SelectConfig(selected=2, selection_repeats=25, selection_view_size=224)


def test_scores_under_the_official_random_crops_match(official_crops):
    scores = torch.cat([selected(c, ROBUST)[1] for c in (0, 2)])
    torch.testing.assert_close(scores, golden("s3_scores_seed123"), atol=1e-4, rtol=0)


def test_the_official_selection_matches(official_crops):
    kept = []
    for target_class in (0, 2):
        # The recorded selection consumed one more number per class: the base seed of a data loader's
        # iterator.
        torch.empty((), dtype=torch.int64).random_()
        kept.append(selected(target_class, ROBUST)[0])
    kept = torch.cat(kept)
    assert torch.equal(kept, golden("s3_selected_index"))
    assert torch.equal(golden("s3_targets")[kept], golden("s3_selected_targets"))


CLASSES, SIDE, COMPONENTS, POOL_SIDE_BY_SIDE = 11, 16, 12, 40
PLAIN = PlugAndPlay(
    candidates=4,
    steps=3,
    lr=0.05,
    batch_size=8,
    selected=2,
    selection_repeats=3,
    pool=Pool(size=POOL_SIDE_BY_SIDE),
    loss="logit",
)


def changed(**settings):
    return dataclasses.replace(PLAIN, **settings)


class Prior(nn.Module):
    """Pixels [3, SIDE, SIDE] that are sums over the coordinates, row by row: no kernel knows of another row."""

    num_ws, w_dim, resolution = 1, COMPONENTS, SIDE

    def __init__(self):
        super().__init__()
        weight = torch.randn(COMPONENTS, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0)) / 8
        self.register_buffer("weight", weight)

    def synthesize(self, w):
        return (w[:, 0, :, None, None, None] * self.weight).sum(1)


def rows(**changes):
    """The target that no class shares a kernel's row with."""
    return Rows(CLASSES, SIDE, seed=1, **changes)


@pytest.fixture(scope="module")
def inputs():
    source = torch.Generator().manual_seed(2)
    parts = {"candidates": {"confidences": torch.rand(POOL_SIDE_BY_SIDE, CLASSES, generator=source)}}
    parts["pool"] = {"w": torch.randn(POOL_SIDE_BY_SIDE, 1, COMPONENTS, generator=source)}
    parts[TEMPERATURE] = {TEMPERATURE: torch.tensor([3.0])}
    return AttackInputs(protocol="clean", prior=Prior(), parts=parts)


LOOK = {"classes": CLASSES, "side": SIDE}


CASES = {
    "poincare": changed(loss="poincare"),
    "cross entropy, by margin": changed(loss="cross_entropy", select=Select(kind="augmented_margin")),
    "logit, three batches": changed(candidates=5, batch_size=2),
    "tempered": changed(loss="cross_entropy", temperature=TemperatureScaling()),
    "without crops": changed(crop_scale=(1.0, 1.0), clip=True, selection_hflip=0.0),
    "restarts": changed(candidates=2, restarts=Restarts()),
}


@pytest.mark.parametrize("protocol", ["paper", "clean"])
@pytest.mark.parametrize("case", CASES)
def test_side_by_side_every_class_has_the_bits_and_the_queries_that_it_has_by_itself(inputs, case, protocol):
    inputs, target = dataclasses.replace(inputs, protocol=protocol), rows()
    alone, asked, shown = alone_and_beside(CASES[case], target, inputs, [3, 0, 10, 7], **LOOK)
    assert shown == asked > 0 and max(target.seen) > 8, "no class has more than 8 candidates of its own"
    assert not torch.equal(alone[0].w, alone[1].w)


def test_networks_of_convolutions_are_the_same_too(inputs):
    target = build_classifier("resnet_small", CLASSES, seed=1, protocol="clean").eval()
    alone_and_beside(changed(steps=2, selection_repeats=2), target, inputs, [3, 0, 10, 7], **LOOK)


def test_a_row_that_breaks_is_stopped_and_the_other_classes_go_on(inputs):
    brightness = inputs.prior.synthesize(inputs.parts["pool"]["w"]).flatten(1).mean(1)
    bright = float(brightness.quantile(0.8))
    target = rows(blind=lambda means: means >= bright)
    alone, _, _ = alone_and_beside(changed(loss="cross_entropy"), target, inputs, list(range(8)), **LOOK)
    stopped = [one.facts["num_frozen"] for one in alone]
    assert 0 < sum(stopped) < 32 and min(stopped) < max(stopped) and max(target.seen) == 32


def test_where_the_bits_would_differ_classes_are_computed_one_after_the_other(inputs):
    _, asked, shown = alone_and_beside(PLAIN, rows(coupled=1e-5), inputs, [3, 0, 10], **LOOK)
    assert asked == shown, "what was tried is not counted"


@pytest.mark.parametrize(
    ("settings", "together"),
    [
        ({}, 8),
        ({"candidates": 32}, 1),
        ({"candidates": 50, "pool": Pool(size=60)}, 1),
        ({"candidates": 10}, 3),
        ({"candidates": 4, "restarts": Restarts(count=4)}, 2),
        ({"select": Select(kind="augmented_margin")}, 8),
        ({"discriminator_weight": 0.1}, 1),
        ({"average": Averaging()}, 1),
        ({"feature_weight": 1.0}, 1),
        ({"optimise": Optimise(kind="none"), "steps": 50, "lr": 0.005, "batch_size": 25, "loss": "poincare"}, 1),
        ({"select": Select(kind="top_confidence"), "selection_repeats": 100}, 1),
    ],
)
def test_classes_are_side_by_side_on_a_cpu_where_nothing_looks_at_more_than_a_row(settings, together):
    attack = changed(**{"pool": Pool(size=60), **settings})
    assert attack.side_by_side("cpu") == together
    assert attack.side_by_side("cuda") == 1
