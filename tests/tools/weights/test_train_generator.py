"""The training of generators, and the generator that is shipped."""

import math
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from smoothsweep.core.errors import InputError, TrainingDiverged
from smoothsweep.core.priors.kinds import make_settings
from smoothsweep.core.priors.registry import from_files, load_discriminator, load_prior
from smoothsweep.core.priors.settings import SHIPPED, StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2
from tools.weights import train_generator as tool
from tools.weights.train_generator import GanRecipe, distort, train

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


def test_learns_the_colour_of_the_images(tmp_path):
    reddish = torch.tensor([230, 20, 20], dtype=torch.uint8)[:, None, None].expand(8, 3, 8, 8).contiguous()
    recipe = GanRecipe(kimg=1.2, batch_size=8, lr=0.01, ema_kimg=0.1, r1_gamma=0.1, augmentation="none")
    generator = train(reddish, CONFIG, recipe, tmp_path, seed=5).average
    colour = generator.synthesize(generator.map(torch.from_numpy(generator.sample_z(32, 0)))).mean(dim=(0, 2, 3))
    assert colour[0] > 0.4 and colour[1] < -0.4 and colour[2] < -0.4


@pytest.mark.parametrize("count", [1, 7, 40])
def test_every_image_is_shown_once_per_round(count):
    shown = tool.shown(count, 3, range(2 * count))
    assert shown.view(2, count).sort().values.tolist() == [list(range(count))] * 2


def test_divergence_is_reported_with_its_step(images, tmp_path):
    train(images, CONFIG, replace(RECIPE, kimg=0.008), tmp_path, seed=5)
    kept = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    kept["generator"]["synthesis.b4.const"].fill_(math.nan)
    torch.save(kept, tmp_path / "checkpoint.pt")
    with pytest.raises(TrainingDiverged, match="diverged at step 2: loss_g nan"):
        train(images, CONFIG, RECIPE, tmp_path, seed=5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recipe": replace(RECIPE, r1_gamma=3.0)}, "gan checkpoint: recipe"),
        ({"seed": 6}, "gan checkpoint: seed: expected 6, got 5"),
        ({"images": torch.zeros(4, 3, 8, 8)}, r"expected uint8 \[N, 3, 8, 8\], got torch.float32"),
        ({"images": torch.zeros(0, 3, 8, 8, dtype=torch.uint8)}, r"got torch.uint8 \[0, 3, 8, 8\]"),
        ({"recipe": replace(RECIPE, batch_size=5)}, "minibatch-std's group, 2, got 5"),
    ],
)
def test_what_does_not_fit_is_refused(change, message, images, tmp_path):
    train(images, CONFIG, replace(RECIPE, kimg=0.004), tmp_path, seed=5)
    with pytest.raises(InputError, match=message):
        train(**{"images": images, "config": CONFIG, "recipe": RECIPE, "out": tmp_path, "seed": 5} | change)


@pytest.mark.parametrize(
    "wrong", [{"kimg": 0}, {"lr": math.nan}, {"r1_gamma": -1.0}, {"batch_size": 2}, {"augmentation": "heavy"}]
)
def test_refuses_impossible_recipes(wrong):
    with pytest.raises(InputError, match=f"gan recipe: {next(iter(wrong))}: expected"):
        GanRecipe(**wrong)


@pytest.mark.parametrize(("signs", "risen"), [([1.0] * 8, 2), ([0.6] * 8, 0), ([1.0] * 4 + [0.0] * 8, 0)])
def test_the_adaptive_probability_moves_towards_its_target(signs, risen):
    state = tool.new_state(CONFIG, GanRecipe(batch_size=50, augmentation="adaptive"), seed=1, device="cpu")
    for sign in signs:
        state.record([0.5, 0.5, math.nan, sign])
    assert state.probability == pytest.approx(risen * 4 * 50 / 500_000, abs=1e-12)


def test_average_halves_old_weights_after_its_half_life():
    recipe = GanRecipe(batch_size=32, ema_kimg=0.064)
    assert recipe.ema_keep(10**9) ** 2 == pytest.approx(0.5)
    assert recipe.ema_keep(0) == pytest.approx(0.5**20)


def test_distortions_hit_as_many_images_as_asked_for_and_let_gradients_through_twice():
    pictures = torch.rand(400, 3, 8, 8, generator=torch.Generator().manual_seed(0)) * 2 - 1

    def drawn(probability):
        return distort(pictures, probability, torch.Generator().manual_seed(3))

    torch.testing.assert_close(drawn(0.0), pictures, atol=1e-6, rtol=0)
    changed = ((drawn(0.1) - pictures).abs() > 1e-5).flatten(1).any(1).float().mean().item()
    assert changed == pytest.approx(1 - 0.9**5 * 0.95, abs=0.06) and torch.equal(drawn(0.1), drawn(0.1))
    assert ((drawn(1.0) == 0).all(1).float().sum((1, 2)) <= 16).all()  # at most half the side is cut out
    leaf = pictures[:2].clone().requires_grad_()
    distorted = distort(leaf, 1.0, torch.Generator().manual_seed(3))
    (gradient,) = torch.autograd.grad(distorted.square().sum(), leaf, create_graph=True)
    gradient.square().sum().backward()
    assert leaf.grad.isfinite().all() and leaf.grad.abs().sum() > 0


def test_a_folder_of_images_becomes_a_prior_that_a_sweep_can_name(tmp_path, monkeypatch, capsys):
    (tmp_path / "images").mkdir()
    for number in range(6):
        Image.new("RGB", (9, 9), (40 * number, 90, 20)).save(tmp_path / "images" / f"{number}.png")
    given = [str(tmp_path / "images"), "--out", str(tmp_path / "out"), "--kimg", "0.04", "--channel-max", "8"]
    monkeypatch.setattr(sys, "argv", ["train_generator", *given, "--size", "8"])
    tool.main()
    assert "step 3 of 3" in capsys.readouterr().out
    made = load_prior(tmp_path / "out" / "prior")
    assert made.config.resolution == load_discriminator(tmp_path / "out" / "prior").config.resolution == 8
    monkeypatch.setattr(sys, "argv", ["train_generator", *given])
    with pytest.raises(SystemExit) as refused:
        tool.main()
    assert refused.value.code == 2


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


def test_the_shipped_centre_is_the_mean_of_w_and_truncation_reduces_variety(shipped):
    w = shipped.mapping(torch.from_numpy(shipped.sample_z(4000, 99)))
    assert (w.mean(0) - shipped.mapping.w_avg).abs().mean() < 0.05 * w.std(0).mean()
    z = torch.from_numpy(shipped.sample_z(32, 1))
    spreads = [shipped.synthesize(shipped.map(z, psi=psi)).std(0).mean().item() for psi in (1.0, 0.5, 0.0)]
    assert spreads[0] > spreads[1] > spreads[2] and spreads[2] < 1e-5


def test_an_export_has_whole_and_truncated_samples(tmp_path):
    network = StyleGAN2(CONFIG).requires_grad_(False)
    tool.export_shipped(network, tmp_path)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".png", ".safetensors"]
    sheet = np.asarray(Image.open(tmp_path / f"{tool.SHIPPED_NAME}.png"))
    assert sheet.shape == (8 * 8, 8 * 16, 3)
    last = network.synthesize(network.map(torch.from_numpy(network.sample_z(64, 0)), psi=0.5))[-1].clamp(-1, 1)
    expected = ((last + 1) * 127.5).round().to(torch.uint8).permute(1, 2, 0)
    np.testing.assert_array_equal(sheet[-8:, -8:], expected.numpy())
