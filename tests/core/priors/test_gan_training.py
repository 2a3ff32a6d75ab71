import io
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError, TrainingDiverged
from smoothsweep.core.priors import gan_training
from smoothsweep.core.priors.gan_recipe import GanRecipe
from smoothsweep.core.priors.gan_state import new_state
from smoothsweep.core.priors.gan_training import train_stylegan2
from smoothsweep.core.priors.stylegan2 import StyleGAN2, StyleGAN2Discriminator
from smoothsweep.core.priors.stylegan2_settings import StyleGAN2Config

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


@pytest.mark.parametrize("augmentation", ["none", "light"])
def test_fixed_augmentations_keep_their_probability(images, augmentation):
    recipe = replace(EVERYTHING, augmentation=augmentation, ada_kimg=None, ada_target=None)
    _, _, history = run(images, recipe)
    assert {row["augment_probability"] for row in history} == {float(augmentation == "light")}


def test_one_worker_of_two_sees_every_other_image(images):
    state = new_state(CONFIG, EVERYTHING, seed=5, device=torch.device("cpu"), start=None)
    state.augment_probability = 1.0
    whole = gan_training._draw_batch(images, state, 0, 1)
    shares = [gan_training._draw_batch(images, state, rank, 2) for rank in range(2)]
    for rank, share in enumerate(shares):
        assert torch.equal(share.reals, whole.reals[rank::2])
        assert torch.equal(share.z, whole.z[:, rank::2])
        assert torch.equal(share.crossover, whole.crossover[rank::2])
        assert torch.equal(share.noise[2], whole.noise[2][rank::2])
        assert torch.equal(share.distortions[0].hole, whole.distortions[0].hole[rank::2])


@given(count=st.integers(1, 40), n=st.integers(1, 9), seed=st.integers(0, 2**40))
def test_every_image_is_shown_once_per_round(count, n, seed):
    shown = torch.cat([gan_training._real_index(count, n, seed, step) for step in range(2 * count)])
    assert shown[:count].sort().values.tolist() == list(range(count))
    assert shown[count : 2 * count].sort().values.tolist() == list(range(count))


def test_wrappers_see_every_pass_that_needs_gradients_of_weights(images):
    calls = []

    class Counting(torch.nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, *batches):
            calls.append(type(self.module).__name__)
            return self.module(*batches)

    wrapped = run(images, wrap=Counting)
    assert same(wrapped[0], run(images)[0])
    assert calls.count("_Generate") == STEPS and calls.count("_Judge") == STEPS + STEPS // 2


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
    with pytest.raises(InputError, match="a multiple of 3 workers x minibatch-std group 1, got 4"):
        run(images, world_size=3)
    with pytest.raises(InputError, match="minibatch-std group 2, got 5"):
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


def _worker(rank, folder, images):
    torch.set_num_threads(1)
    store = torch.distributed.FileStore(str(folder / "store"), 2)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    state, _, history = run(
        images, rank=rank, world_size=2, wrap=torch.nn.parallel.DistributedDataParallel, log_every=1
    )
    torch.save((state, history), folder / f"{rank}.pt")
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_two_workers_train_the_same_networks_as_one(images, tmp_path):
    torch.multiprocessing.spawn(_worker, args=(tmp_path, images), nprocs=2)
    (first, history), (second, _) = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    assert same(first, second)
    alone, _, rows = run(images, log_every=1)
    for name, value in alone.items():
        torch.testing.assert_close(first[name], value, atol=2e-3, rtol=2e-3)
    for row, expected in zip(history, rows, strict=True):
        assert row == pytest.approx(expected, abs=1e-3)


def test_in_a_hurry_every_step_is_kept_and_the_numbers_stay(images):
    kept = []
    straight = run(images)
    hurried = run(images, on_checkpoint=lambda step, _: kept.append(step), checkpoint_every=4, hurry=lambda: True)
    assert kept == list(range(1, len(kept) + 1)) and len(kept) > 4
    for name, value in straight[0].items():
        assert torch.equal(value, hurried[0][name]), name
