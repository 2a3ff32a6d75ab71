"""FID's network: its blocks by hand, its file, its two input conventions, and torch-fidelity as the reference."""

import pytest
import torch
from torch.nn import functional

from smoothsweep.core.errors import InputError
from smoothsweep.core.models.fid import fid_input, load_fid_inception, tf1_bilinear
from smoothsweep.core.models.fid_network import FidInception
from smoothsweep.core.models.weight_files import file_sha256


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A file as pytorch-fid publishes it, with random numbers that keep the activations in range."""
    torch.manual_seed(0)
    network = FidInception()
    for module in network.modules():
        if isinstance(module, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(module.weight)
        elif isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.5, 1.5)
            torch.nn.init.normal_(module.bias, std=0.1)
    path = tmp_path_factory.mktemp("fid") / "weights.pth"
    torch.save({k: v for k, v in network.state_dict().items() if "num_batches" not in k}, path)
    return path


@pytest.fixture(scope="module")
def network(weights):
    return load_fid_inception(weights, sha256=file_sha256(weights))


def batch(count, height, width, seed=0):
    """Images in [-1, 1] with structure at several scales."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(count, 3, 5, 5, generator=generator) * 2 - 1
    smooth = functional.interpolate(coarse, size=(height, width), mode="bicubic").clamp(-1, 1)
    return (smooth + 0.1 * torch.randn(smooth.shape, generator=generator)).clamp(-1, 1)


def test_loaded_network_is_frozen_and_pools_2048_features(network):
    assert not network.training and not any(p.requires_grad for p in network.parameters())
    features = network(fid_input(batch(2, 299, 299), "paper"))
    assert features.shape == (2, 2048) and features.dtype == torch.float32
    with pytest.raises(ValueError, match=r"expected images \[N, 3, 299, 299\], got \[1, 3, 64, 64\]"):
        network(torch.zeros(1, 3, 64, 64))


def test_paper_input_is_on_minus_3_to_1():
    images = batch(2, 299, 299)
    torch.testing.assert_close(fid_input(images, "paper"), 2 * images - 1, rtol=0, atol=0)
    resized = functional.interpolate(images[..., :200, :200], size=299, mode="bilinear", antialias=True)
    torch.testing.assert_close(fid_input(images[..., :200, :200], "paper"), 2 * resized - 1)
    white, black = torch.full((1, 3, 320, 320), 255, dtype=torch.uint8), torch.zeros(1, 3, 64, 64, dtype=torch.uint8)
    torch.testing.assert_close(fid_input(white, "paper"), torch.ones(1, 3, 299, 299))
    torch.testing.assert_close(fid_input(black, "paper"), torch.full((1, 3, 299, 299), -3.0))


def test_checksum_is_the_published_one_unless_another_is_given(weights):
    with pytest.raises(InputError, match=r"expected 91\.2 MiB with SHA-256 6726825d0af5.*got .* MiB with [0-9a-f]{64}"):
        load_fid_inception(weights)
    load_fid_inception(weights, sha256=file_sha256(weights)[:8].upper())


@pytest.mark.parametrize("size", [(64, 64), (299, 299), (400, 320)])
def test_clean_features_equal_torch_fidelity(weights, network, size):
    extractors = pytest.importorskip("torch_fidelity.feature_extractor_inceptionv3")
    build = extractors.FeatureExtractorInceptionV3
    reference = build("inception", ["2048"], feature_extractor_weights_path=str(weights))
    images = batch(2, *size).add(1).mul(127.5).round().to(torch.uint8)
    expected = reference(images)[0]
    assert (expected[0] - expected[1]).abs().mean() > 0.01  # the comparison would notice a wrong network
    torch.testing.assert_close(network(fid_input(images, "clean")), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [(32, 48), (299, 299), (301, 500)])
def test_tf1_resize_equals_torch_fidelity_bit_for_bit(size):
    module = pytest.importorskip("torch_fidelity.interpolate_compat_tensorflow")
    images = batch(2, *size).add(1).mul(127.5).round()
    expected = module.interpolate_bilinear_2d_like_tensorflow1x(images, size=(299, 299), align_corners=False)
    assert torch.equal(tf1_bilinear(images, 299), expected)
