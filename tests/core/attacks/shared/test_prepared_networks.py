"""Networks as an execution prepares them: folded, frozen, in bfloat16 or at full precision, and the same networks."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from smoothsweep.core.attacks.shared.execution import Execution, fold_batchnorm, frozen_copy
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.models.classifiers import build_classifier
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2

PRIOR = StyleGAN2(
    StyleGAN2Config(resolution=16, z_dim=8, w_dim=8, mapping_layers=1, channel_base=256, channel_max=16), seed=3
).double()


@pytest.fixture(scope="module")
def w0():
    return torch.randn(7, 1, 8, generator=torch.Generator().manual_seed(0)).double()


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


def test_bfloat16_stays_near_and_returns_single_precision():
    network = build_classifier("resnet18", 4, seed=1, protocol="clean").eval()
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        logits = Execution(ExecutionConfig(precision="bf16"), "cpu").target(network)(images)
        expected = network(images)
    assert logits.dtype == torch.float32
    assert 0 < (logits - expected).abs().max() < 0.05 * expected.abs().max()


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
