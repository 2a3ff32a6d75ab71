import io
import math
import shutil
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from smoothsweep.core.errors import InputError, TrainingDiverged
from smoothsweep.core.priors.registry import load_discriminator, load_prior
from smoothsweep.core.priors.settings import StyleGAN2Config
from smoothsweep.core.priors.stylegan2 import StyleGAN2, StyleGAN2Discriminator
from tools.weights import gan_training
from tools.weights.gan_training import HOLE, Distortion, GanRecipe, distort, draw_distortion, train_stylegan2
from tools.weights.train_generator import train

CONFIG = StyleGAN2Config(
    resolution=8, z_dim=6, w_dim=6, mapping_layers=2, channel_base=64, channel_max=8, mbstd_group=2
)
STEPS, BATCH = 6, 4
EVERYTHING = GanRecipe(
    kimg=STEPS * BATCH / 1000,
    batch_size=BATCH,
    lr=0.0025,
    r1_interval=2,
    ema_kimg=0.01,
    style_mixing=0.5,
    augmentation="adaptive",
    ada_kimg=0.05,
    ada_target=-1.5,
)


@pytest.fixture(scope="module")
def images():
    return torch.randint(0, 256, (10, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def run(images, recipe=EVERYTHING, **options):
    return train_stylegan2(images, CONFIG, recipe, seed=5, **({"log_every": 4} | options))


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_resumed_training_is_the_same_training(images):
    kept = {}

    def keep(step, checkpoint):
        file = io.BytesIO()
        torch.save(checkpoint, file)
        kept[step] = file

    straight = run(images, on_checkpoint=keep, checkpoint_every=3)
    assert sorted(kept) == [3, 6]
    kept[3].seek(0)
    rows = []
    resumed = run(images, resume=torch.load(kept[3], weights_only=True), on_log=rows.append)
    assert same(straight[0], resumed[0]) and same(straight[1], resumed[1])
    assert straight[2] == resumed[2] == rows
    kept[6].seek(0)
    finished = run(images, resume=torch.load(kept[6], weights_only=True))
    assert same(straight[0], finished[0]) and straight[2] == finished[2]


def test_result_is_a_function_of_the_seed(images):
    first, again = (train_stylegan2(images, CONFIG, EVERYTHING, seed=seed) for seed in (1, 1))
    other = train_stylegan2(images, CONFIG, EVERYTHING, seed=2)
    assert same(first[0], again[0]) and not same(first[0], other[0])


def test_history_tells_the_course_of_the_training(images):
    _, _, history = run(images)
    assert [row["step"] for row in history] == [4, 6]
    assert history[-1]["kimg"] == pytest.approx(EVERYTHING.kimg)
    assert all(math.isfinite(value) for row in history for value in row.values())
    # The target lies below every possible sign, so the probability rises as fast as it may: 4 x 4 / 50.
    assert history[-1]["augment_probability"] == pytest.approx(0.32)


def test_states_fit_the_networks_and_the_centre_is_measured(images):
    generator_state, discriminator_state, _ = run(images)
    generator, discriminator = StyleGAN2(CONFIG), StyleGAN2Discriminator(CONFIG)
    generator.load_state_dict(generator_state)
    discriminator.load_state_dict(discriminator_state)
    w = generator.mapping(torch.from_numpy(generator.sample_z(10_000, 5)))
    torch.testing.assert_close(generator.mapping.w_avg, w.mean(0).detach(), atol=1e-6, rtol=1e-5)


def test_learns_the_colour_of_the_images():
    reddish = torch.tensor([230, 20, 20], dtype=torch.uint8)[:, None, None].expand(8, 3, 8, 8).contiguous()
    recipe = GanRecipe(kimg=0.8, batch_size=8, lr=0.01, ema_kimg=0.1, ema_rampup=0.5, r1_gamma=0.1, augmentation="none")
    state, _, _ = run(reddish, recipe, log_every=100)
    generator = StyleGAN2(CONFIG).requires_grad_(False)
    generator.load_state_dict(state)
    colour = generator.synthesize(generator.map(torch.from_numpy(generator.sample_z(32, 0)))).mean(dim=(0, 2, 3))
    assert colour[0] > 0.4 and colour[1] < -0.4 and colour[2] < -0.4


@given(count=st.integers(1, 40), n=st.integers(1, 9), seed=st.integers(0, 2**40))
def test_every_image_is_shown_once_per_round(count, n, seed):
    shown = torch.cat([gan_training._real_index(count, n, seed, step) for step in range(2 * count)])
    assert shown[:count].sort().values.tolist() == list(range(count))
    assert shown[count : 2 * count].sort().values.tolist() == list(range(count))


def test_starts_from_given_networks(images):
    pair = StyleGAN2(CONFIG, seed=9), StyleGAN2Discriminator(CONFIG, seed=9)
    before = {name: value.clone() for name, value in pair[0].state_dict().items()}
    started, fresh = run(images, start=pair), run(images)
    assert same(before, pair[0].state_dict())
    assert torch.equal(started[0]["synthesis.b4.conv1.noise_const"], before["synthesis.b4.conv1.noise_const"])
    assert not same(started[0], fresh[0])
    with pytest.raises(InputError, match="start: expected networks of"):
        run(images, start=(StyleGAN2(replace(CONFIG, z_dim=7)), pair[1]))


def test_divergence_is_reported_with_its_step(images):
    def keep(step, checkpoint):
        checkpoints.append(checkpoint)

    checkpoints = []
    run(images, on_checkpoint=keep, checkpoint_every=2)
    broken = checkpoints[0]
    broken["generator"]["synthesis.b4.const"].fill_(float("nan"))
    with pytest.raises(TrainingDiverged, match="diverged at step 2: loss_g nan"):
        run(images, resume=broken)


def test_refuses_a_checkpoint_of_another_training(images):
    checkpoints = []
    run(images, on_checkpoint=lambda _, checkpoint: checkpoints.append(checkpoint), checkpoint_every=6)
    with pytest.raises(InputError, match="gan checkpoint: recipe"):
        run(images, replace(EVERYTHING, r1_gamma=3.0), resume=checkpoints[0])
    with pytest.raises(InputError, match="gan checkpoint: seed: expected 6, got 5"):
        train_stylegan2(images, CONFIG, EVERYTHING, seed=6, resume=checkpoints[0])
    longer = run(images, replace(EVERYTHING, kimg=8 * BATCH / 1000), resume=checkpoints[0])
    assert longer[2][-1]["step"] == 8


def test_refuses_images_and_batches_that_do_not_fit(images):
    with pytest.raises(InputError, match=r"expected uint8 \[N, 3, 8, 8\], got torch.float32"):
        run(images.float())
    with pytest.raises(InputError, match=r"got torch.uint8 \[0, 3, 8, 8\]"):
        run(images[:0])
    with pytest.raises(InputError, match="minibatch-std's group, 2, got 5"):
        run(images, replace(EVERYTHING, batch_size=5))
    with pytest.raises(ValueError, match="give both or neither"):
        run(images, checkpoint_every=2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kimg": 0}, "kimg: expected a finite number above 0, got 0"),
        ({"lr": float("nan")}, "lr"),
        ({"r1_gamma": -1.0}, "r1_gamma"),
        ({"style_mixing": 1.5}, "style_mixing"),
        ({"r1_interval": 0}, "r1_interval: expected a whole number of at least 1, got 0"),
        ({"betas": (0.5, 1.0)}, r"betas: expected a number in \[0, 1\), got 1.0"),
        ({"batch_size": 2}, "batch_size: expected a whole number of at least 4, got 2"),
        ({"augmentation": "heavy"}, "expected one of none, light, adaptive, got 'heavy'"),
        ({"ada_target": 0.5}, "with augmentation adaptive alone, got 'light'"),
    ],
)
def test_refuses_impossible_recipes(wrong, message):
    with pytest.raises(InputError, match=message):
        GanRecipe(**({"kimg": 1} | wrong))


def test_adaptive_probability_moves_towards_the_target():
    recipe = GanRecipe(kimg=1, augmentation="adaptive")
    assert recipe.adjusted_probability(0.1, 0.9, 5000) == pytest.approx(0.11)
    assert recipe.adjusted_probability(0.1, 0.1, 5000) == pytest.approx(0.09)
    assert recipe.adjusted_probability(0.1, 0.6, 5000) == 0.1
    assert recipe.adjusted_probability(0.0, 0.1, 5000) == 0.0
    assert recipe.adjusted_probability(1.0, 0.9, 5000) == 1.0


def test_average_halves_old_weights_after_its_half_life():
    recipe = GanRecipe(kimg=1, batch_size=32, ema_kimg=0.064, ema_rampup=1e9)
    assert recipe.ema_keep(0) ** 2 == pytest.approx(0.5)
    early = replace(recipe, ema_rampup=0.5)
    assert early.ema_keep(0) == pytest.approx(0.25)
    assert early.ema_keep(1000) == pytest.approx(recipe.ema_keep(0))


def neutral(n, side, **changes):
    plain = {
        "flip": torch.zeros(n, dtype=torch.bool),
        "shift": torch.zeros(n, 2, dtype=torch.int64),
        "brightness": torch.zeros(n),
        "saturation": torch.ones(n),
        "contrast": torch.ones(n),
        "hole": torch.full((n, 2), side),
    }
    return Distortion(**(plain | changes))


@pytest.fixture
def pictures():
    return torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)) * 2 - 1


def test_neutral_draw_changes_nothing(pictures):
    torch.testing.assert_close(distort(pictures, neutral(2, 8)), pictures, atol=1e-6, rtol=0)


def test_each_distortion_in_closed_form(pictures):
    def only(**changes):
        return distort(pictures, neutral(2, 8, **changes))

    flipped = only(flip=torch.tensor([True, False]))
    torch.testing.assert_close(flipped[0], pictures[0].flip(2), atol=1e-6, rtol=0)
    torch.testing.assert_close(flipped[1], pictures[1], atol=1e-6, rtol=0)
    shifted = only(shift=torch.tensor([[2, -1], [0, 0]]))
    torch.testing.assert_close(shifted[0, :, 2:, :-1], pictures[0, :, :-2, 1:], atol=1e-6, rtol=0)
    torch.testing.assert_close(shifted[0, :, 1, :-1], pictures[0, :, 1, 1:], atol=1e-6, rtol=0)
    torch.testing.assert_close(only(brightness=torch.full((2,), 0.3)), pictures + 0.3, atol=1e-6, rtol=0)
    grey = only(saturation=torch.zeros(2))
    torch.testing.assert_close(grey, pictures.mean(1, keepdim=True).expand(-1, 3, -1, -1), atol=1e-6, rtol=0)
    flat = only(contrast=torch.zeros(2))
    torch.testing.assert_close(flat[0], torch.full_like(flat[0], pictures[0].mean().item()), atol=1e-6, rtol=0)
    cut = only(hole=torch.tensor([[2, -1], [8, 8]]))
    assert not cut[0, :, 2:6, :3].any()
    torch.testing.assert_close(cut[0, :, :, 3:], pictures[0, :, :, 3:], atol=1e-6, rtol=0)
    torch.testing.assert_close(cut[1], pictures[1], atol=1e-6, rtol=0)


@settings(max_examples=20, deadline=None)
@given(probability=st.floats(0, 1), seed=st.integers(0, 2**31))
def test_draws_stay_in_range_and_are_a_function_of_the_seed(probability, seed):
    first, again = (draw_distortion(40, 16, probability, torch.Generator().manual_seed(seed)) for _ in range(2))
    for name in vars(first):
        assert torch.equal(getattr(first, name), getattr(again, name))
    assert first.shift.abs().max() <= 2
    assert first.hole.min() >= -16 * HOLE and first.hole.max() <= 16
    assert (first.contrast > 0.5).all() and (first.saturation >= 0.5).all()


def test_probability_is_the_share_of_distorted_images():
    none = draw_distortion(50, 16, 0.0, torch.Generator().manual_seed(0))
    assert not none.flip.any() and not none.shift.any() and (none.hole == 16).all() and (none.contrast == 1).all()
    some = draw_distortion(4000, 16, 0.25, torch.Generator().manual_seed(0))
    assert (some.brightness != 0).float().mean().item() == pytest.approx(0.25, abs=0.03)
    assert some.flip.float().mean().item() == pytest.approx(0.125, abs=0.03)


def test_gradients_reach_the_images_twice(pictures):
    distortion = draw_distortion(2, 8, 1.0, torch.Generator().manual_seed(3))
    leaf = pictures.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(distort(leaf, distortion).square().sum(), leaf, create_graph=True)
    gradient.square().sum().backward()
    assert leaf.grad.isfinite().all() and leaf.grad.abs().sum() > 0


def test_a_folder_of_images_becomes_a_prior_that_a_sweep_can_name(tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    for number in range(6):
        Image.new("RGB", (9, 9), (40 * number, 90, 20)).save(images / f"{number}.png")
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    for out, lengths in ((straight, [0.016]), (stopped, [0.008, 0.016])):
        for kimg in lengths:
            shutil.rmtree(out / "prior", ignore_errors=True)
            train(images, CONFIG, GanRecipe(kimg=kimg, batch_size=4), out, seed=1, device="cpu")
    made = load_prior(straight / "prior")
    assert made.config == CONFIG and load_discriminator(straight / "prior").config == CONFIG
    assert same(made.state_dict(), load_prior(stopped / "prior").state_dict())
