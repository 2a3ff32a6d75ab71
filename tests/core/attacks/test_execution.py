"""How an execution shares out the rows of an attack, and the networks that it makes ready: changing no number."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from torch import nn

from smoothsweep.core.attacks.optimisation.crops import Preprocess
from smoothsweep.core.attacks.ppa.config import OptimiseConfig, SelectConfig
from smoothsweep.core.attacks.ppa.inversion import optimise
from smoothsweep.core.attacks.ppa.selection import select
from smoothsweep.core.attacks.shared.execution import Execution, fold_batchnorm, frozen_copy
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.errors import InputError
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2

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


def optimised(w0, protocol, execution=None, asked=target, config=OPTIMISE, **more):
    given = {**COMMON, "run": execution or run(), **more}
    (found,) = optimise(PRIOR, asked, [w0], [2], config, protocol=protocol, **given)
    return found


@pytest.fixture(scope="module", params=["paper", "clean"])
def protocol(request):
    return request.param


@pytest.mark.parametrize("rows", [1, 2, 4, 50])
def test_how_many_rows_are_computed_at_once_changes_nothing(w0, protocol, rows):
    expected = optimised(w0, protocol)
    found = optimised(w0, protocol, run(rows_per_batch=rows))
    for name, value in vars(expected).items():
        torch.testing.assert_close(getattr(found, name), value, atol=1e-8, rtol=1e-8, msg=name)
    (first,), (second,) = (
        select(PRIOR, target, [expected.w], [2], SELECT, protocol=protocol, run=one, **COMMON)
        for one in (run(), run(rows_per_batch=rows))
    )
    torch.testing.assert_close(first.all_scores, second.all_scores, atol=1e-6, rtol=0)
    assert torch.equal(first.order, second.order)


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_running_out_of_memory_changes_nothing_and_is_remembered(w0, protocol, limit):
    sizes = []

    def hungry(images):
        sizes.append(len(images))
        if len(images) > limit:
            raise torch.OutOfMemoryError("device is full")
        return target(images)

    execution = run(rows_per_batch=7)
    found = optimised(w0, protocol, execution, hungry)
    torch.testing.assert_close(found.w, optimised(w0, protocol).w, atol=1e-8, rtol=0)
    assert max(sizes) > limit
    sizes.clear()
    optimised(w0, protocol, execution, hungry)
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
