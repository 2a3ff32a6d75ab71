"""The trainings of the embedder and the generator that are shipped."""

from dataclasses import replace

import pytest
import torch

from smoothsweep.core.models.embedders import load_embedder
from smoothsweep.core.priors.kinds import make_settings
from smoothsweep.core.priors.registry import from_files
from smoothsweep.core.priors.settings import SHIPPED, StyleGAN2Config
from tools.weights import train_embedder
from tools.weights import train_generator as tool
from tools.weights.train_embedder import EmbedderRecipe, judge_accuracy
from tools.weights.train_generator import GanRecipe, train

TINY = EmbedderRecipe(
    rounds=2, people=8, eigenface_people=50, eigenfaces=45, calibration_people=20, calibration_images=3
)


def test_look_alikes_are_named_from_other_pictures():
    assert judge_accuracy(load_embedder("synthetic"), spread=0.4, identities=20, seed=7) >= 0.93


def test_training_is_reproducible_and_leaves_the_global_generator_alone():
    state = torch.random.get_rng_state()
    first, second = (train_embedder.train(TINY, report=lambda line: None).state_dict() for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(first[key], second[key]) for key in first)


CONFIG = StyleGAN2Config(
    resolution=8, z_dim=6, w_dim=6, mapping_layers=2, channel_base=64, channel_max=8, mbstd_group=2
)
RECIPE = GanRecipe(kimg=0.024, batch_size=4, augmentation="light")


@pytest.fixture(scope="module")
def images():
    return torch.randint(0, 256, (10, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def same(first, second):
    return all(torch.equal(value, second.state_dict()[name]) for name, value in first.state_dict().items())


def test_a_resumed_training_is_the_same_training_and_another_seed_another(images, tmp_path):
    straight = train(images, CONFIG, RECIPE, tmp_path / "straight", seed=5)
    for kimg in (0.012, 0.024):
        resumed = train(images, CONFIG, replace(RECIPE, kimg=kimg), tmp_path / "stopped", seed=5)
    assert same(straight.average, resumed.average) and same(straight.discriminator, resumed.discriminator)
    assert len(straight.losses) == len(resumed.losses) == 6
    assert not same(straight.average, train(images, CONFIG, RECIPE, tmp_path / "other", seed=6).average)
    w = straight.average.mapping(torch.from_numpy(straight.average.sample_z(10_000, 5)))
    torch.testing.assert_close(straight.average.mapping.w_avg, w.mean(0).detach(), atol=1e-6, rtol=1e-5)


@pytest.fixture(scope="module")
def shipped():
    return from_files(make_settings("shipped", name=tool.SHIPPED_NAME))


def test_what_is_shipped_is_small_and_looks_like_its_training_images(shipped):
    assert shipped.config == tool.SHIPPED
    stem = SHIPPED[tool.SHIPPED_NAME]
    assert stem.with_suffix(".safetensors").stat().st_size < 8_000_000 and stem.with_suffix(".png").exists()
    images = shipped.synthesize(shipped.map(torch.from_numpy(shipped.sample_z(64, 0))))
    drawn = tool.public_images(8)
    assert drawn.shape == (8 * 2 * tool.PER_IDENTITY, 3, 64, 64) and len(drawn.flatten(1).unique(dim=0)) == len(drawn)
    reals = drawn.float() / 127.5 - 1
    assert (images.mean(0) - reals.mean(0)).abs().mean() < 0.15
    assert (images.std(0).mean() / reals.std(0).mean()).item() == pytest.approx(1, abs=0.3)
