import numpy as np
import pytest
import torch

from smoothsweep.core.priors.base import Prior
from smoothsweep.core.priors.kinds import make_settings
from smoothsweep.core.priors.registry import from_files
from smoothsweep.core.priors.settings import SHIPPED
from smoothsweep.core.priors.stylegan2 import StyleGAN2
from tools.weights import train_demo_generator as demo

SHIPPED_NAME = "stylegan2_synthetic64"


@pytest.fixture(scope="module")
def generator():
    return from_files(make_settings("shipped", name=SHIPPED_NAME))


def test_ships_a_small_prior(generator):
    assert isinstance(generator, Prior) and generator.config == demo.CONFIG
    stem = SHIPPED[SHIPPED_NAME]
    assert stem.with_suffix(".safetensors").stat().st_size < 8_000_000
    assert stem.with_suffix(".png").exists()


def test_shipped_prior_shows_something_like_its_training_images(generator):
    z = torch.from_numpy(generator.sample_z(64, 0))
    images = generator.synthesize(generator.map(z))
    reals = demo.public_images(8).float() / 127.5 - 1
    assert images.shape == (64, 3, 64, 64)
    assert (images.mean(0) - reals.mean(0)).abs().mean() < 0.15
    assert (images.std(0).mean() / reals.std(0).mean()).item() == pytest.approx(1, abs=0.3)


def test_shipped_centre_is_the_mean_of_w(generator):
    w = generator.mapping(torch.from_numpy(generator.sample_z(4000, 99)))
    spread = w.std(0).mean()
    assert (w.mean(0) - generator.mapping.w_avg).abs().mean() < 0.05 * spread


def test_truncation_reduces_variety(generator):
    z = torch.from_numpy(generator.sample_z(32, 1))
    spreads = [generator.synthesize(generator.map(z, psi=psi)).std(0).mean().item() for psi in (1.0, 0.5, 0.0)]
    assert spreads[0] > spreads[1] > spreads[2] and spreads[2] < 1e-5


def test_public_images_mix_both_spreads():
    images = demo.public_images(2)
    assert images.dtype == torch.uint8 and images.shape == (2 * 2 * demo.PER_IDENTITY, 3, 64, 64)
    assert torch.equal(images, demo.public_images(2))
    assert len(images.flatten(1).unique(dim=0)) == len(images)


def test_training_continues_from_its_checkpoint(tmp_path, monkeypatch):
    small = {"resolution": 64, "z_dim": 4, "w_dim": 4, "mapping_layers": 1, "channel_base": 128, "channel_max": 4}
    monkeypatch.setattr(demo, "CONFIG", demo.StyleGAN2Config(**small))
    monkeypatch.setattr(demo, "CHECKPOINT_EVERY", 1)
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    images = demo.public_images(2)
    demo.train(images, straight, kimg=0.032)
    demo.train(images, stopped, kimg=0.016)
    demo.train(images, stopped, kimg=0.032)
    weights = f"{demo.NAME}.safetensors"
    assert (straight / weights).read_bytes() == (stopped / weights).read_bytes()
    assert sorted(path.suffix for path in stopped.iterdir()) == [".checkpoint", ".json", ".png", ".safetensors"]


def test_sample_sheet_has_whole_and_truncated_samples():
    network = StyleGAN2(demo.StyleGAN2Config(resolution=8, z_dim=4, w_dim=4, mapping_layers=1, channel_base=16))
    sheet = np.asarray(demo.sample_sheet(network.requires_grad_(False), rows=2, columns=3))
    assert sheet.shape == (16, 24, 3)
    z = torch.from_numpy(network.sample_z(3, 0))
    last = network.synthesize(network.map(z, psi=0.5))[2].clamp(-1, 1)
    expected = ((last + 1) * 127.5).round().to(torch.uint8).permute(1, 2, 0)
    np.testing.assert_array_equal(sheet[8:, 16:], expected.numpy())
