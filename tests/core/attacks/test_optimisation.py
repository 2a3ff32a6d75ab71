"""Crops, losses, descent; how many rows are computed at once, and in which precision."""

from __future__ import annotations

import copy
import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision.transforms.functional as tvf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import nn
from torchvision.transforms import RandomResizedCrop

from smoothsweep.core.attacks.optimisation.crops import (
    DRAW_CROPS,
    CropRule,
    Crops,
    Preprocess,
    apply_crops,
    draw_shared_crop,
)
from smoothsweep.core.attacks.optimisation.descent import (
    StepGradient,
    attack_loss,
    cross_entropy_loss,
    logit_loss,
    max_margin_loss,
    poincare_loss,
    walk,
)
from smoothsweep.core.attacks.ppa.config import OptimiseConfig, SelectConfig
from smoothsweep.core.attacks.ppa.inversion import optimise
from smoothsweep.core.attacks.ppa.selection import select
from smoothsweep.core.attacks.shared.execution import Execution, fold_batchnorm, frozen_copy
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2

GOLDEN = np.load(Path(__file__).parents[2] / "golden" / "ppa.npz")


def crops(*boxes, mirror=False):
    top, left, height, width = torch.tensor(boxes, dtype=torch.float64).T
    return Crops(top=top, left=left, height=height, width=width, mirror=torch.tensor([mirror] * len(boxes)))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("size", [9, 12])
def test_preprocess_matches_the_official_image_path(size):
    images = Preprocess(crop=32, size=size)(torch.from_numpy(GOLDEN["img_raw"]))
    torch.testing.assert_close(images, torch.from_numpy(GOLDEN[f"img_crop32_resize{size}"]), atol=1e-5, rtol=0)


def test_preprocess_without_work_returns_the_images():
    images = torch.rand(2, 3, 8, 8)
    assert Preprocess(size=8)(images) is images
    with pytest.raises(InputError, match="at least 9 x 9"):
        Preprocess(size=8, crop=9)(images)


@pytest.mark.parametrize(
    ("box", "size", "mirror"), [((0, 0, 17, 21), 16, False), ((3, 5, 11, 8), 30, True), ((10, 14, 7, 7), 5, True)]
)
def test_whole_pixel_boxes_match_torchvision(box, size, mirror):
    images = torch.randn(4, 3, 17, 21, generator=seeded())
    expected = tvf.resized_crop(images, *box, [size, size], antialias=True)
    expected = expected.flip(3) if mirror else expected
    torch.testing.assert_close(apply_crops(images, crops(box, mirror=mirror), size), expected, atol=1e-5, rtol=0)


@given(
    height=st.integers(1, 70),
    width=st.integers(1, 70),
    scale=st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)).map(sorted),
    ratio=st.tuples(st.floats(0.2, 5), st.floats(0.2, 5)).map(sorted),
    seed=st.integers(0, 2**31),
    protocol=st.sampled_from(sorted(DRAW_CROPS)),
)
def test_boxes_lie_inside_the_image(height, width, scale, ratio, seed, protocol):
    rule = CropRule(scale=tuple(scale), ratio=tuple(ratio), hflip=0.5)
    drawn = DRAW_CROPS[protocol](rule, 5, height, width, seeded(seed))
    assert len(drawn) == (1 if protocol == "paper" else 5)
    assert (drawn.top >= 0).all() and (drawn.left >= 0).all()
    assert (drawn.height >= 1).all() and (drawn.width >= 1).all()
    assert (drawn.top + drawn.height <= height + 1e-9).all()
    assert (drawn.left + drawn.width <= width + 1e-9).all()
    assert apply_crops(torch.ones(5, 3, height, width), drawn, 4).isfinite().all()


def test_a_ratio_that_never_fits_falls_back_to_the_centre():
    rule = CropRule(scale=(1.0, 1.0), ratio=(4.0, 4.0))
    drawn = draw_shared_crop(rule, 1, 20, 20, seeded())
    expected = RandomResizedCrop.get_params(torch.empty(3, 20, 20), [1.0, 1.0], [4.0, 4.0])
    assert (drawn.top.item(), drawn.left.item(), drawn.height.item(), drawn.width.item()) == expected


NORMS = ("computed", "analytic")


def golden(name):
    return torch.from_numpy(GOLDEN[name])


@pytest.mark.parametrize(("norm", "tolerance"), [("computed", 1e-4), ("analytic", 1e-3)])
def test_poincare_matches_the_official_values_and_gradient(norm, tolerance):
    logits = golden("poincare_logits").requires_grad_()
    loss = poincare_loss(logits, golden("poincare_targets"), norm=norm)
    torch.testing.assert_close(loss, golden("poincare_loss"), atol=tolerance, rtol=0)
    loss.mean().backward()
    torch.testing.assert_close(logits.grad, golden("poincare_grad_of_mean"), rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize("norm", NORMS)
def test_poincare_matches_for_other_xi(norm):
    for xi, expected in zip(GOLDEN["poincare_xi_values"], golden("poincare_xi_loss"), strict=True):
        loss = poincare_loss(golden("poincare_logits"), golden("poincare_targets"), xi=float(xi), norm=norm)
        torch.testing.assert_close(loss, expected, atol=1e-2 if xi < 5e-5 else 1e-3, rtol=0)


@pytest.mark.parametrize("norm", NORMS)
def test_poincare_is_finite_where_the_official_code_is_not(norm):
    logits = golden("poincare_edge_logits").requires_grad_()
    loss = poincare_loss(logits, golden("poincare_edge_targets"), norm=norm)
    loss.sum().backward()
    assert loss.isfinite().all() and logits.grad.isfinite().all()
    tolerance = torch.tensor([1e-3, 1e-3, 1e-3, 5e-2, 5e-2, 1e-3])
    assert ((loss - golden("poincare_edge_loss"))[3:].abs() <= tolerance).all()
    # a saturated wrong answer is further from the target than a saturated right one
    assert loss[0] < loss[2] < loss[1]
    assert loss[2].item() == pytest.approx(math.acosh(9999.5), abs=1e-3)
    assert (logits.grad[1:3].abs().amax(1) > 0).all()


@pytest.mark.parametrize("norm", NORMS)
@given(
    logits=hnp.arrays(np.float32, (3, 6), elements=st.integers(-160, 160).map(lambda i: i / 8)),
    scale=st.floats(1e-3, 1e3),
    target=st.integers(0, 5),
)
def test_poincare_is_finite_and_ignores_the_scale(norm, logits, scale, target):
    x = torch.from_numpy(logits).double().requires_grad_()
    labels = torch.full((3,), target)
    loss = poincare_loss(x, labels, norm=norm)
    loss.sum().backward()
    assert loss.isfinite().all() and (loss >= 0).all() and x.grad.isfinite().all()
    torch.testing.assert_close(
        poincare_loss(x.detach() * scale, labels, norm=norm), loss.detach(), rtol=1e-6, atol=1e-6
    )


def test_the_paper_protocol_keeps_the_rounding_of_the_official_loss():
    logits, targets = golden("poincare_logits"), golden("poincare_targets")
    paper, clean = (attack_loss("poincare", protocol)(logits, targets) for protocol in ("paper", "clean"))
    gap = (paper - clean).abs()
    assert (gap > 1e-5).all() and (gap < 3e-4).all()


def test_losses_that_do_not_saturate_at_values_worked_out_by_hand():
    """At 40 logits ahead float32 gives cross-entropy 0 and no gradient of the class; margin and logit go on."""
    logits, targets = torch.tensor([[2, 0.5, -1]] * 3), torch.arange(3)
    assert logit_loss(logits, targets).tolist() == [-2, -0.5, 1]
    assert max_margin_loss(logits, targets).tolist() == [-1.5, 1.5, 3]
    tempered = cross_entropy_loss(logits / 4, targets)
    torch.testing.assert_close(tempered, torch.tensor([0.769949, 1.144949, 1.519949]))
    for loss, ahead in ((logit_loss, 1), (max_margin_loss, 1), (cross_entropy_loss, 0)):
        sure = torch.tensor([[40.0, 0, 0]], requires_grad=True)
        loss(sure, torch.tensor([0])).sum().backward()
        assert sure.grad[0, 0] == -ahead


SETTINGS = {"steps": 12, "lr_at": lambda step: 0.1}


def adam(weight_decay=0.0):
    return lambda w: torch.optim.Adam([w], betas=(0.1, 0.2), weight_decay=weight_decay)


def quadratic(w, step):
    gradient = 2 * w.detach()
    return StepGradient(loss=w.detach().square().flatten(1).sum(1), latent=gradient, image=gradient[:, :1])


def start():
    return torch.randn(3, 1, 4, generator=torch.Generator().manual_seed(0))


def test_a_broken_row_stops_where_all_was_finite_and_the_others_do_not_notice():
    def breaks(w, step):
        found = quadratic(w, step)
        latent, loss = found.latent.clone(), found.loss.clone()
        if step == 5:
            latent[1, 0, 2] = torch.nan
        if step == 0:
            loss[2] = torch.inf
        return StepGradient(loss=loss, latent=latent, image=found.image)

    healthy, found = (walk(start(), f, adam(0.1), **SETTINGS) for f in (quadratic, breaks))
    assert found.frozen.tolist() == [False, True, True]
    assert torch.equal(found.w[0], healthy.w[0])
    # the iterate of step 5 was the one that broke: the last good one is that of step 4
    assert torch.equal(found.w[1], walk(start(), quadratic, adam(0.1), **{**SETTINGS, "steps": 4}).w[1])
    assert torch.equal(found.w[2], start()[2])
    assert found.loss.isnan().sum(0).tolist() == [0, 7, 12]
    assert found.image_cosine.isnan().sum(0).tolist() == [0, 7, 11]


PRIOR = StyleGAN2(
    StyleGAN2Config(resolution=16, z_dim=8, w_dim=8, mapping_layers=1, channel_base=256, channel_max=16), seed=3
).double()
WEIGHTS = torch.randn(3, 12 * 12 * 3, 5, generator=torch.Generator().manual_seed(4), dtype=torch.float64)


def target(images):
    """A smooth classifier in double precision, so that only real differences show."""
    return torch.tanh(images.flatten(1) @ WEIGHTS[0] * 0.1) * 3


OPTIMISE = OptimiseConfig(steps=6, lr=0.05, batch_size=3)
SELECT = SelectConfig(selected=4, selection_repeats=4, selection_crop_scale=(0.6, 0.9))
COMMON = {"seed": 5, "transform": Preprocess(size=12, crop=12)}


def run(**settings):
    return Execution(ExecutionConfig(**settings), "cpu")


@pytest.fixture(scope="module")
def w0():
    return torch.randn(7, 1, 8, generator=torch.Generator().manual_seed(0)).double()


def optimised(w0, either_protocol, execution=None, asked=target, config=OPTIMISE, **more):
    given = {**COMMON, "run": execution or run(), **more}
    (found,) = optimise(PRIOR, asked, [w0], [2], config, protocol=either_protocol, **given)
    return found


@pytest.fixture(scope="module", params=["paper", "clean"])
def either_protocol(request):
    return request.param


@pytest.mark.parametrize("rows", [1, 4])
def test_how_many_rows_are_computed_at_once_changes_nothing(w0, either_protocol, rows):
    expected = optimised(w0, either_protocol)
    found = optimised(w0, either_protocol, run(rows_per_batch=rows))
    for name, value in vars(expected).items():
        torch.testing.assert_close(getattr(found, name), value, atol=1e-8, rtol=1e-8, msg=name)
    (first,), (second,) = (
        select(PRIOR, target, [expected.w], [2], SELECT, protocol=either_protocol, run=one, **COMMON)
        for one in (run(), run(rows_per_batch=rows))
    )
    torch.testing.assert_close(first.all_scores, second.all_scores, atol=1e-6, rtol=0)
    assert torch.equal(first.order, second.order)


def test_running_out_of_memory_changes_nothing_and_is_remembered(w0, either_protocol):
    sizes, limit = [], 2

    def hungry(images):
        sizes.append(len(images))
        if len(images) > limit:
            raise torch.OutOfMemoryError("device is full")
        return target(images)

    execution = run(rows_per_batch=7)
    found = optimised(w0, either_protocol, execution, hungry)
    torch.testing.assert_close(found.w, optimised(w0, either_protocol).w, atol=1e-8, rtol=0)
    assert max(sizes) > limit
    sizes.clear()
    optimised(w0, either_protocol, execution, hungry)
    assert max(sizes) <= limit


def test_a_single_image_that_does_not_fit_is_an_input_error(w0):
    def never(images):
        raise torch.OutOfMemoryError("device is full")

    with pytest.raises(InputError, match="at least one image at a time"):
        optimised(w0, "paper", run(rows_per_batch=4), never)


def test_a_batch_seen_by_a_discriminator_is_computed_as_a_whole(w0):
    sizes, config = [], dataclasses.replace(OPTIMISE, discriminator_weight=0.3)

    def compares(images):
        sizes.append(images.shape)
        return (images - images.mean(0)).square().flatten(1).mean(1, keepdim=True)

    for rows in (1, 50):
        optimised(w0, "paper", run(rows_per_batch=rows), config=config, discriminator=compares)
    assert {tuple(shape) for shape in sizes} == {(3, 3, 16, 16), (1, 3, 16, 16)}  # 7 = 3 + 3 + 1, whole images


def test_a_batch_that_does_not_fit_beside_a_discriminator_is_an_input_error(w0):
    def full(images):
        raise torch.OutOfMemoryError("device is full")

    config = dataclasses.replace(OPTIMISE, discriminator_weight=0.3)
    with pytest.raises(InputError, match=r"optimise\.batch_size: expected .* got 3"):
        optimised(w0, "paper", config=config, discriminator=full)


@pytest.mark.parametrize(
    ("architecture", "size", "left"),
    [("resnet_small", 32, 0), ("vgg_small", 32, 0), ("resnet18", 32, 0), ("densenet121", 32, 62)],
)
def test_a_folded_network_is_the_same_network(architecture, size, left):
    network = build_classifier(architecture, 4, seed=1, protocol="clean").eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.2, generator=torch.Generator().manual_seed(0))
            module.running_var.uniform_(0.5, 2, generator=torch.Generator().manual_seed(1))
    images = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(2))
    folded = frozen_copy(network)
    assert sum(isinstance(module, nn.BatchNorm2d) for module in folded.modules()) == left
    with torch.no_grad():
        expected = network(images)
        torch.testing.assert_close(folded(images), expected, atol=2e-5 * float(expected.abs().max()) + 1e-6, rtol=1e-4)
    assert not any(p.requires_grad for p in folded.parameters()) and all(p.requires_grad for p in network.parameters())


class Branches(nn.Module):
    """What cannot be folded: a convolution seen twice, one used twice, control flow on values."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.convolution, self.norm = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)
        self.norm.running_mean.fill_(0.3)

    def forward(self, x):
        if self.kind == "values" and x.mean() > 0:
            x = -x
        y = self.convolution(x)
        if self.kind == "seen twice":
            return self.norm(y) + y
        return self.norm(y) + self.convolution(y) if self.kind == "called twice" else self.norm(y)


@pytest.mark.parametrize("kind", ["values", "seen twice", "called twice"])
def test_what_cannot_be_folded_stays_as_it_is(kind):
    network = Branches(kind).eval()
    images = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(fold_batchnorm(network)(images), network(images))


@pytest.mark.parametrize("crop", [None, 12])
def test_a_generator_in_bfloat16_is_near_further_than_rounding_and_gives_single_precision(w0, crop):
    single = copy.deepcopy(PRIOR).float()
    w = w0.float()
    made = {}
    for precision in ("fp32", "bf16"):
        with torch.no_grad():
            made[precision] = Execution(ExecutionConfig(precision=precision), "cpu").synthesizer(single, crop)(w)
    assert made["fp32"].dtype == made["bf16"].dtype == torch.float32
    gap, scale = (made["bf16"] - made["fp32"]).abs().max(), made["fp32"].abs().max()
    assert 1e-4 * scale < gap < 0.2 * scale
    whole = single.synthesize(w).detach()
    shown = whole if crop is None else whole[:, :, 2:14, 2:14]
    torch.testing.assert_close(made["fp32"], shown, atol=1e-5 * float(scale), rtol=1e-4)
